"""The judges of speculation, by requirement: on in one arm and off in the other by effect, and paired counts."""

from collections.abc import Sequence
from dataclasses import dataclass

from certify.evidence import EvidenceView
from certify.judging import Judge
from certify.judging.capability import unseen
from certify.judging.proportions import mcnemar
from certify.judging.quality import counts, pair
from certify.judging.reading import SPEC_OFF_CHAIN, Seen, capped, counted, evidence_of, many, missing, unanswered
from certify.judging.scores import scored
from certify.plan import Plan
from certify.records import Arm, Capability, Figure, Finding, Json, Outcome, Verdict
from certify.thresholds import Thresholds
from certify.wire.counters import Counters, read_counters

LAYER0, PAIRED = "QUAL-SPEC-01", "QUAL-SPEC-05"
BEFORE, AFTER = "spec:before", "spec:after"
RULE = (
    "by effect on text that copies its prompt: drafts in the served arm and none in the other, by the difference of "
    "the engine's totals around the requests and by the answers' own figures; either is proof, a contradiction fails"
)


@dataclass(frozen=True, slots=True)
class _ArmEffect:
    """What one arm showed: drafted and accepted tokens by the strongest source, None where nothing tells."""

    arm: Arm
    answers: int
    drafted: int | None
    accepted: int | None
    source: str
    evidence: tuple[int, ...]

    def __str__(self) -> str:
        told = "nothing tells" if self.drafted is None else f"{self.drafted} drafted"
        return f"{self.arm}: {told} in {many(self.answers, 'answer')}{f' ({self.source})' if self.source else ''}"


def judge_layer0(view: EvidenceView, plan: Plan, thresholds: Thresholds) -> Verdict:
    """PASS when speculation has an effect in the served arm and none in the other."""
    del thresholds
    seen = {arm: tuple(counted(view, LAYER0, arm)) for arm in Arm}
    served, off = (_effect(view, arm, seen[arm]) for arm in (Arm.SERVED, Arm.SPEC_OFF))
    everything = [one for ones in seen.values() for one in ones]
    broken = [one for one in everything if unanswered(one)]
    outcome, summary, cause, action = _decide(served, off, broken, plan)
    if outcome is Outcome.PASS and (gaps := missing(plan, LAYER0, everything)):
        outcome, summary = Outcome.ERROR, f"{many(len(gaps), 'planned text')} missing from the evidence"
        cause, action = "the run was cut short", "run again, or resume it"
    figures = [
        Figure(
            f"drafted_{effect.arm}",
            effect.drafted,
            0,
            "tokens",
            effect.answers,
            f"drafted tokens, from {effect.source}",
            population="texts that copy their prompt, one at a time",
        )
        for effect in (served, off)
        if effect.drafted is not None
    ]
    if served.drafted and served.accepted is not None:
        figures.append(
            Figure(
                "acceptance_rate",
                round(1000 * served.accepted / served.drafted),
                1,
                "%",
                served.drafted,
                "accepted over drafted tokens",
                population="texts that copy their prompt: the most draftable there are",
            )
        )
    return Verdict(
        LAYER0,
        outcome,
        summary,
        rule=RULE,
        figures=tuple(figures),
        findings=capped(
            [
                *(Finding(f"{one.name}: {unanswered(one)}", one.evidence) for one in broken),
                *(Finding(str(effect), effect.evidence) for effect in (served, off)),
            ]
        ),
        cause=cause,
        action=action,
        evidence=tuple(sorted({*served.evidence, *off.evidence})),
    )


def _decide(served: _ArmEffect, off: _ArmEffect, broken: Sequence[Seen], plan: Plan) -> tuple[Outcome, str, str, str]:
    both = f"{served}; {off}"
    if served.drafted and off.drafted:
        return (
            Outcome.FAIL,
            f"the other arm drafts too: {both}",
            "both arms run the same launch configuration",
            "start the other arm without its drafter, then run again",
        )
    if not served.drafted and off.drafted:
        return (
            Outcome.FAIL,
            f"the arms are swapped: {both}",
            "--base-url and --spec-off-url are exchanged, or speculation was lost in the served launch",
            "give the launch with speculation as --base-url",
        )
    if broken or not served.answers:
        what = unanswered(broken[0]) if broken else "the served arm was not asked"
        return Outcome.ERROR, f"could not be measured: {what}", "see PRE-CONTRACT-02", "run again"
    if not served.drafted:
        what = f"no draft was seen: {both}"
        outcome, summary, action = unseen(plan, Capability.SPECULATION, what)
        hidden = outcome is Outcome.NOT_APPLICABLE
        cause = "" if hidden else "speculation is off, switched itself off, or the engine hides its counters"
        return outcome, summary, cause, action
    if off.drafted is None:
        return Outcome.INCONCLUSIVE, *_other_arm_unknown(served, off)
    return Outcome.PASS, both, "", ""


def _other_arm_unknown(served: _ArmEffect, off: _ArmEffect) -> tuple[str, str, str]:
    if not off.answers:
        return (
            f"the other arm was not given: {served}",
            "speculation can only be compared with a launch without it",
            "give --spec-off-url URL, or --spec-off-evidence FILE of a run against a launch without a drafter",
        )
    return (
        f"nothing tells whether the other arm drafts: {served}; {off}",
        "the other arm has no metrics page and no figures in its answers",
        "start the other arm with its metrics page (SGLang: --enable-metrics; llama.cpp: --metrics)",
    )


def _effect(view: EvidenceView, arm: Arm, seen: Sequence[Seen]) -> _ArmEffect:
    evidence = evidence_of(seen)
    by_answers = _by_answers(seen)
    before, after = _totals(view, arm)
    if before is not None and after is not None and not _stale(before[0], after[0]):
        seqs = tuple(sorted({*evidence, *before[1], *after[1]}))
        drafted = _grown(before[0], after[0])
        if drafted is not None:
            accepted = _difference(before[0].accepted_tokens, after[0].accepted_tokens)
            most = max(drafted, by_answers[0] or 0)
            return _ArmEffect(arm, len(seen), most, accepted, "the engine's totals", seqs)
        if by_answers[0] is None and after[0].generation_tokens is not None:
            # An engine that counts tokens and has no counter of drafts was started without a drafter.
            return _ArmEffect(arm, len(seen), 0, None, "totals without a counter of drafts", seqs)
    source = "" if by_answers[0] is None else "the answers' own figures"
    return _ArmEffect(arm, len(seen), *by_answers, source, evidence)


def _stale(before: Counters, after: Counters) -> bool:
    """Whether the totals stood still while the arm answered: they are those of another process, or a cached page."""
    totals = before.generation_tokens, after.generation_tokens
    return None not in totals and totals[0] == totals[1]


def _by_answers(seen: Sequence[Seen]) -> tuple[int | None, int | None]:
    """(drafted, accepted) from the figures that llama.cpp puts into its answers; without drafts it leaves them out."""
    timings = [one.answer.timings for one in seen if "predicted_n" in one.answer.timings]
    if not timings:
        return None, None
    return sum(_count(one.get("draft_n")) for one in timings), sum(
        _count(one.get("draft_n_accepted")) for one in timings
    )


def _count(value: Json) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


_Total = tuple[Counters, tuple[int, ...]]


def _totals(view: EvidenceView, arm: Arm) -> tuple[_Total | None, _Total | None]:
    """The arm's counters before the first and after the last request, with their records in the run's own chain."""
    chains = [view, *([view.attached[SPEC_OFF_CHAIN]] if SPEC_OFF_CHAIN in view.attached else [])]
    for chain in chains if arm is Arm.SPEC_OFF else [view]:
        found: list[_Total | None] = []
        for name, place in ((BEFORE, 0), (AFTER, -1)):
            samples = [(seq, one) for seq, one in chain.samples(name) if one.arm is arm and one.text]
            seqs = (samples[place][0],) if samples and chain is view else ()
            found.append((read_counters(samples[place][1].text), seqs) if samples else None)
        if found[0] is not None:
            return found[0], found[1]
    return None, None


def _grown(before: Counters, after: Counters) -> int | None:
    """Drafted tokens between two readings; where an engine counts only drafts, those."""
    tokens = _difference(before.draft_tokens, after.draft_tokens)
    return tokens if tokens is not None else _difference(before.drafts, after.drafts)


def _difference(before: int | None, after: int | None) -> int | None:
    return None if after is None else max(0, after - (before or 0))


def judge_paired(view: EvidenceView, plan: Plan, thresholds: Thresholds) -> Verdict:
    """Reported: the same cases in both arms, counted; PASS means counted, INCONCLUSIVE that there are no pairs."""
    del thresholds
    served = scored(view, plan, PAIRED, Arm.SERVED)
    off = scored(view, plan, PAIRED, Arm.SPEC_OFF)
    pairs, apart = pair(served, off, lambda one: (one.scenario, one.seed, str(one.mode)))
    evidence = evidence_of(one.seen for one in (*served, *off))
    rule = (
        "counts of pairs (one case, one thinking mode, both arms), McNemar's exact probability; reported, no threshold"
    )
    if pairs.n == 0:
        return Verdict(
            PAIRED,
            Outcome.INCONCLUSIVE,
            f"no case was scored in both arms ({len(served)} served, {len(off)} in the other arm, {apart} apart)",
            rule=rule,
            cause="the other arm was not given, was asked with other seeds, or only met the thinking cap",
            action="make the other arm's evidence with the same --seed and --challenge, or give --spec-off-url",
            evidence=evidence,
        )
    probability = Figure(
        "mcnemar_p",
        round(10_000 * mcnemar(pairs)),
        4,
        "",
        pairs.only_first + pairs.only_second,
        "exact two-sided probability of the discordant pairs, were the arms alike",
        population=f"{many(pairs.n, 'pair')}; {many(apart, 'pair')} apart (cut by the thinking cap, or refused)",
    )
    lost = {one.seed for one in off if one.right}
    worse = [one for one in served if not one.right and not one.apart and one.seed in lost]
    return Verdict(
        PAIRED,
        Outcome.PASS,
        f"{many(pairs.n, 'pair')}: both right {pairs.both}, only with speculation {pairs.only_first}, only without "
        f"{pairs.only_second}, neither {pairs.neither}; reported",
        rule=rule,
        figures=(*counts(pairs, "on", "off"), probability),
        findings=capped(one.finding() for one in worse),
        evidence=evidence,
    )


JUDGES: dict[str, Judge] = {LAYER0: judge_layer0, PAIRED: judge_paired}
