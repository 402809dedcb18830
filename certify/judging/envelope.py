"""QUAL-ENV-01: the envelope of every quality answer, hard faults and rare ones judged by different rules."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from certify.cases.envelope import Breach, faults
from certify.evidence import EvidenceView
from certify.judging.reading import Seen, capped, counted, evidence_of, many, missing_over, quote, refused
from certify.plan import Plan
from certify.records import Arm, Capability, Figure, Finding, Outcome, Thinking, Verdict
from certify.stats import lower_bound
from certify.thresholds import Thresholds

REQUIREMENT = "QUAL-ENV-01"
RARE_FAILS = 3

# How the sentences of `cases.envelope` begin that a model can cause at a low rate, whatever the engine does right.
RARE_OPENINGS = (
    *("thinking markup", "tool markup", "template markup"),
    *("content is null", "thinking was asked off", "a NUL character"),
    *("call ", "the arguments of call"),
)
UNCOUNTED = "no usage came"
RULE = (
    "hard faults (shape, finish reason, usage, ids of calls, characters broken on the way, no answer): one fails. Rare "
    "faults that a model can cause (leaked markup, null content, run-away blanks, NUL, malformed arguments, thinking "
    "although off): none passes, 1 or 2 are INCONCLUSIVE, 3 fail. Thinking on: reasoning in at least half of "
    "the answers. A code fence is no fault of the envelope: the scenarios score it as format"
)


@dataclass(slots=True)
class _Faults:
    """What was found, by kind."""

    hard: list[Finding] = field(default_factory=list)
    rare: list[Finding] = field(default_factory=list)
    uncounted: list[Finding] = field(default_factory=list)
    declined: int = 0
    rare_answers: set[int] = field(default_factory=set)
    hard_answers: set[int] = field(default_factory=set)

    def look(self, one: Seen) -> None:
        asked, exchange = one.trial.exchange.asked, one.trial.exchange
        if refused(one) and (asked.constrained or asked.tools):
            self.declined += 1
            return
        for fault in faults(asked, exchange, one.answer):
            finding = Finding(f"{one.name}: {fault.text}", one.evidence, quote(one.answer.content))
            if fault.text == UNCOUNTED:
                self.uncounted.append(finding)
            elif fault.breach is Breach.BLANKS or fault.text.startswith(RARE_OPENINGS):
                self.rare.append(finding)
                self.rare_answers.add(one.seq)
            else:
                self.hard.append(finding)
                self.hard_answers.add(one.seq)


def leaked_thinking(one: Seen) -> str:
    """The sentence on thinking or template markup in the text of an answer, "" when there is none."""
    found = faults(one.trial.exchange.asked, one.trial.exchange, one.answer)
    return next((fault.text for fault in found if fault.text.startswith(("thinking markup", "template markup"))), "")


def judge_envelope(view: EvidenceView, plan: Plan, thresholds: Thresholds) -> Verdict:
    """PASS when no quality answer leaves the envelope; hard faults fail at one, rare ones at three."""
    del thresholds
    seen = tuple(counted(view, REQUIREMENT, Arm.SERVED))
    found = _Faults()
    for one in seen:
        found.look(one)
    arm = _thinking_arm(seen, plan)
    short = missing_over(plan, REQUIREMENT, seen)
    outcome, summary = _decide(found, arm, len(seen), short)
    settled = outcome is Outcome.PASS
    return Verdict(
        REQUIREMENT,
        outcome,
        summary,
        rule=RULE,
        figures=_figures(found, len(seen)),
        findings=capped([*arm, *found.hard, *found.rare, *found.uncounted]),
        cause="" if settled else _cause(found, arm),
        action="" if settled else "read the quoted text; compare parser names with the model's family, then run again",
        evidence=evidence_of(seen),
    )


def _thinking_arm(seen: Iterable[Seen], plan: Plan) -> list[Finding]:
    """The finding that thinking stayed away in most answers that asked for it, where the deployment can think."""
    asked_on = [one for one in seen if one.trial.exchange.asked.thinking is Thinking.ON and one.answer.usage]
    thought = [one for one in asked_on if one.answer.reasoning.strip()]
    can_think = plan.declared.get(Capability.THINKING) is True or bool(thought)
    if not can_think or 2 * len(thought) >= len(asked_on):
        return []
    return [
        Finding(
            f"thinking was asked on in {many(len(asked_on), 'answer')}, and reasoning came in {len(thought)}",
            evidence_of(one for one in asked_on if one not in thought),
        )
    ]


def _decide(found: _Faults, arm: list[Finding], n: int, short: int) -> tuple[Outcome, str]:
    hard, rare = [*arm, *found.hard], found.rare_answers
    if hard:
        return Outcome.FAIL, f"{many(len(hard), 'hard fault')} in {many(n, 'answer')}, none allowed: {hard[0].text}"
    if len(rare) >= RARE_FAILS:
        return Outcome.FAIL, f"rare faults in {len(rare)} of {n} answers, {RARE_FAILS} fail: {found.rare[0].text}"
    if unmeasured := _unmeasured(found, n, short):
        return Outcome.ERROR, unmeasured
    if rare:
        settled = f"fewer than {RARE_FAILS} settle nothing"
        return Outcome.INCONCLUSIVE, f"rare faults in {len(rare)} of {n} answers, {settled}: {found.rare[0].text}"
    proven = lower_bound(n - found.declined, n - found.declined)
    return Outcome.PASS, f"{many(n, 'answer')} kept the envelope: at least {proven:.1%} of such answers do (95 %)"


def _unmeasured(found: _Faults, n: int, short: int) -> str:
    if found.uncounted:
        return f"nothing can be counted: {many(len(found.uncounted), 'answer')} without `usage`"
    if short > 0:
        return f"{many(short, 'planned answer')} missing from the evidence"
    return "no answer to look at" if found.declined >= n else ""


def _figures(found: _Faults, n: int) -> tuple[Figure, ...]:
    population = f"quality cases as served; {found.declined} refused cleanly"
    return (
        Figure("hard_faults", len(found.hard_answers), 0, "answers", n, "answers with a hard fault", population),
        Figure("rare_faults", len(found.rare_answers), 0, "answers", n, "answers with a rare fault", population),
    )


def _cause(found: _Faults, arm: list[Finding]) -> str:
    if arm:
        return "the switch reaches the template only sometimes, or structured output turns thinking off"
    if any("markup" in finding.text for finding in found.rare):
        return "no reasoning or tool parser, or that of another model family; speculation that skips a boundary token"
    if found.uncounted:
        return "the server does not send `usage`"
    return "a parser of reasoning or tools that loses text at a boundary, or an engine that fails under the load"
