"""PRE-CONTRACT-01 and -02: the documented shape, and the laws that no honest answer breaks."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from certify.cases.laws import broken_laws
from certify.evidence import EvidenceView
from certify.judging.reading import (
    Seen,
    capped,
    counted,
    evidence_of,
    interrupted,
    many,
    missing,
    quote,
    read,
    refused,
    unanswered,
)
from certify.plan import Plan
from certify.records import Figure, Finding, Outcome, Verdict
from certify.thresholds import Thresholds

TINY, WHOLE_RUN = "PRE-CONTRACT-01", "PRE-CONTRACT-02"
NOT_THE_DEPLOYMENT = "PRE-RULER-01"  # its exchanges are with the ruler's emitter

# Any other word (abort, error, repetition, …) says that the answer did not end as asked.
FINISHES = ("stop", "length", "tool_calls")

RULE = (
    "zero tolerance: one broken law, cut stream or error fails, because a healthy deployment cannot produce it; n "
    "exchanges without one bound its share at 1 - .05^(1/n)"
)
USAGE_ACTION = (
    "make the server send `usage`: it must honour `stream_options.include_usage` (an OpenAI-compatible proxy in "
    "between must pass that field on); then run again"
)


@dataclass(slots=True)
class _Tally:
    """What was found, exchange by exchange."""

    looked_at: int = 0
    refusals: int = 0
    interrupted: int = 0
    broken: list[Finding] = field(default_factory=list)
    uncounted: list[Finding] = field(default_factory=list)
    evidence: list[int] = field(default_factory=list)

    def look(self, one: Seen, *, may_refuse: bool) -> None:
        self.looked_at += 1
        if may_refuse and refused(one):
            self.refusals += 1
            return
        breaches = list(breaches_of(one))
        shown = quote(one.trial.exchange.body[-400:].decode(errors="replace"))
        self.broken += [Finding(f"{one.name}: {breach}", one.evidence, shown) for breach in breaches]
        if one.answer.usage is None and not unanswered(one):
            self.uncounted.append(Finding(f"{one.name}: no `usage` came", one.evidence, shown))
            breaches.append("uncounted")
        if breaches:
            self.evidence.append(one.seq)

    def figure(self) -> Figure:
        return Figure(
            "exchanges_with_a_breach",
            len({finding.evidence for finding in self.broken}),
            0,
            "exchanges",
            self.looked_at,
            "exchanges in which at least one law, shape or ending is broken",
            population=f"{self.refusals} refused cleanly; {self.interrupted} interrupted by the run itself, left out",
        )


def breaches_of(one: Seen) -> Iterable[str]:
    """Everything that a healthy deployment does not do, in sentences; a missing `usage` is not among them."""
    if gap := unanswered(one):
        yield gap
        return
    yield from one.answer.violations
    if one.answer.usage is not None:
        yield from broken_laws(one.trial.exchange.asked, one.answer)
    strange = [reason for reason in one.answer.finish_reasons if reason not in FINISHES]
    if strange:
        yield f"finish reason {strange[0][:40]!r}; documented are {', '.join(FINISHES)}"
    if len(one.answer.finish_reasons) > 1:
        yield f"{len(one.answer.finish_reasons)} finish reasons came for one choice"


def judge_contract(view: EvidenceView, plan: Plan, thresholds: Thresholds) -> Verdict:
    """PASS when tiny chats, streamed and not, keep shape and laws, and count the same prompt alike."""
    del thresholds
    tally = _Tally()
    seen = tuple(counted(view, TINY))
    for one in seen:
        tally.look(one, may_refuse=False)
    tally.broken += _uneven_prompts(seen)
    gaps = missing(plan, TINY, seen)
    return _verdict(TINY, tally, evidence_of(seen), len(gaps))


def _uneven_prompts(seen: tuple[Seen, ...]) -> list[Finding]:
    """Repeats whose streamed and whole answers count the same prompt differently."""
    prompts: dict[int, dict[int, Seen]] = {}
    for one in seen:
        if one.answer.usage is not None:
            prompts.setdefault(one.trial.trial_id.repeat, {})[one.answer.usage.prompt_tokens] = one
    return [
        Finding(
            f"the same prompt counts {' and '.join(map(str, sorted(counts)))} prompt tokens, streamed and not",
            evidence_of(counts.values()),
        )
        for counts in prompts.values()
        if len(counts) > 1
    ]


def judge_whole_run(view: EvidenceView, plan: Plan, thresholds: Thresholds) -> Verdict:
    """PASS when no exchange of the run breaks a law; a clean refusal (4xx that says why) breaks none."""
    del plan, thresholds
    tally = _Tally()
    for seq, trial in view.trials():
        if trial.trial_id.requirement == NOT_THE_DEPLOYMENT:
            continue
        if interrupted(trial):
            tally.interrupted += 1
            continue
        tally.look(Seen(seq, trial, read(trial.exchange)), may_refuse=True)
    return _verdict(WHOLE_RUN, tally, tuple(tally.evidence), 0)


def _verdict(requirement: str, tally: _Tally, evidence: tuple[int, ...], gaps: int) -> Verdict:
    outcome, cause, action = Outcome.PASS, "", ""
    summary = f"{many(tally.looked_at, 'exchange')} kept shape and laws"
    if tally.broken:
        outcome = Outcome.FAIL
        summary = f"{many(len(tally.broken), 'breach')[:-1]}es" if len(tally.broken) > 1 else "1 breach"
        summary = f"{summary} in {many(tally.looked_at, 'exchange')}, none allowed: {tally.broken[0].text}"
        cause = "a worker that died, a parser that drops or doubles output, or counting that forgets tokens"
        action = "read the quoted bytes, and the engine's log at that minute; then repeat this gate alone"
    elif tally.uncounted or not tally.looked_at or gaps:
        outcome = Outcome.ERROR
        summary = (
            f"figures cannot be counted: {many(len(tally.uncounted), 'answer')} without `usage`"
            if tally.uncounted
            else f"{many(gaps, 'planned exchange')} missing from the evidence"
            if gaps
            else "no exchange to look at"
        )
        cause = "the server does not send `usage`" if tally.uncounted else "the run was cut short"
        action = USAGE_ACTION if tally.uncounted else "run again, or resume it"
    return Verdict(
        requirement,
        outcome,
        summary,
        rule=RULE,
        figures=(tally.figure(),),
        findings=capped([*tally.broken, *tally.uncounted]),
        cause=cause,
        action=action,
        evidence=evidence,
    )
