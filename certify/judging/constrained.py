"""QUAL-SCHEMA-02: under a schema an answer conforms, or the request is refused; nothing in between."""

from collections.abc import Sequence

from certify.cases.scoring import Grade
from certify.evidence import EvidenceView
from certify.judging.capability import unseen
from certify.judging.envelope import UNCOUNTED
from certify.judging.reading import capped, evidence_of, many, missing
from certify.judging.scores import Scored, grades, scored
from certify.plan import Plan
from certify.records import Capability, Figure, Outcome, Thinking, Verdict
from certify.stats import lower_bound
from certify.thresholds import Thresholds

REQUIREMENT = "QUAL-SCHEMA-02"
RULE = (
    "every answer under the schema is valid by Draft 2020-12 (its values are judged elsewhere), or the request is "
    "refused with a 4xx; one answer that is neither fails. Answers that the thinking cap left unfinished are counted "
    "apart, with thinking on only"
)
VALID = (Grade.RIGHT, Grade.VALUE)


def judge_constrained(view: EvidenceView, plan: Plan, thresholds: Thresholds) -> Verdict:
    """PASS when both thinking modes have valid answers and no invalid one; FAIL at the first invalid answer."""
    del thresholds
    ones = scored(view, plan, REQUIREMENT)
    uncounted = [one for one in ones if one.score.grade is Grade.PROTOCOL and one.seen.answer.usage is None]
    valid = [one for one in ones if one.score.grade in VALID]
    refusals = [one for one in ones if one.score.grade is Grade.REFUSED]
    cut = [one for one in ones if _cut_by_cap(one)]
    invalid = [one for one in ones if one not in valid and one not in refusals and one not in cut]
    invalid = [one for one in invalid if one not in uncounted]
    outcome, summary, cause, action = _decide(ones, valid, invalid, plan)
    if outcome is not Outcome.FAIL and uncounted:
        outcome, summary = Outcome.ERROR, f"{many(len(uncounted), 'answer')} without `usage`: {UNCOUNTED}"
        cause, action = "the server does not send `usage`", "make it honour `stream_options.include_usage`"
    elif outcome is Outcome.PASS and (gaps := missing(plan, REQUIREMENT, (one.seen for one in ones))):
        outcome, summary = Outcome.ERROR, f"{many(len(gaps), 'planned case')} missing from the evidence"
        cause, action = "the run was cut short", "run again, or resume it"
    return Verdict(
        REQUIREMENT,
        outcome,
        summary,
        rule=RULE,
        figures=(
            Figure(
                "schema_valid",
                len(valid),
                0,
                "answers",
                len(ones),
                "answers whose whole content is one JSON value that the schema accepts",
                population=f"{grades(ones)}; {len(cut)} cut by the thinking cap; {len(refusals)} refused",
            ),
        ),
        findings=capped(one.finding() for one in (*invalid, *uncounted, *cut, *refusals)),
        cause=cause,
        action=action,
        evidence=evidence_of(one.seen for one in ones),
    )


def _cut_by_cap(one: Scored) -> bool:
    return one.score.grade is Grade.BUDGET and one.mode is Thinking.ON


def _decide(
    ones: Sequence[Scored], valid: Sequence[Scored], invalid: Sequence[Scored], plan: Plan
) -> tuple[Outcome, str, str, str]:
    if not ones:
        return Outcome.ERROR, "no case is in the evidence", "the run was cut short", "run again, or resume it"
    declared = plan.declared.get(Capability.JSON_SCHEMA)
    if valid and invalid:
        return (
            Outcome.FAIL,
            f"{len(invalid)} of {len(ones)} answers break the schema, none may: {invalid[0].score.reason}",
            _cause(invalid, ones),
            "read the quoted answer; a white-space run-away has a switch of its own (vLLM: disable_any_whitespace)",
        )
    if not valid:
        told = f": {invalid[0].score.reason}" if invalid else ""
        what = f"none of {many(len(ones), 'answer')} obeys the schema ({grades(ones)}){told}"
        if not invalid and any(one.score.grade is Grade.BUDGET for one in ones):
            return Outcome.INCONCLUSIVE, what, *_cap(ones)
        outcome, summary, action = unseen(plan, Capability.JSON_SCHEMA, what)
        cause = "" if declared is False else "the server accepts `response_format` and ignores it, or refuses it"
        return outcome, summary, cause, action
    for mode in sorted({one.mode for one in ones}):
        if not any(one.mode is mode for one in valid):
            cut = f"with thinking {mode} no answer was finished ({grades(one for one in ones if one.mode is mode)})"
            return Outcome.INCONCLUSIVE, cut, *_cap(ones)
    proven = f"at least {lower_bound(len(valid), len(valid)):.1%} of such answers are (95 %)"
    return Outcome.PASS, f"every finished answer is valid ({grades(ones)}): {proven}", "", ""


def _cap(ones: Sequence[Scored]) -> tuple[str, str]:
    asked = next(one.seen.trial.exchange.asked for one in ones if one.mode is Thinking.ON)
    cap = f"max_tokens {asked.max_tokens}, thinking budget {asked.thinking_budget_tokens or 'none'}"
    return f"thinking used up the cap ({cap})", "run a profile with a longer cap, or serve a thinking budget that holds"


def _cause(invalid: Sequence[Scored], ones: Sequence[Scored]) -> str:
    modes = {one.mode for one in invalid}
    if len(modes) < len({one.mode for one in ones}):
        return f"only with thinking {min(modes)}: the grammar starts or ends at the wrong side of the thinking"
    return "the grammar is not applied to every token (speculation, a fallback after a failed compilation), or was cut"
