"""The judges of the quality room, by requirement: constrained output, shares of right answers, thinking on or off."""

from collections.abc import Callable, Iterable, Sequence

from certify.cases.scoring import Grade
from certify.evidence import EvidenceView
from certify.judging import Judge
from certify.judging.capability import unseen
from certify.judging.constrained import judge_constrained
from certify.judging.envelope import judge_envelope
from certify.judging.proportions import FAIL_SE, PASS_SE, Paired, Share, Side, newcombe, stratified
from certify.judging.reading import capped, evidence_of, many, missing_over
from certify.judging.scores import Scored, grades, scored, strata
from certify.plan import Plan
from certify.records import Bound, Capability, Figure, Outcome, Thinking, Verdict
from certify.thresholds import Thresholds, toml_to_paste

METRIC = "share_right"
BASELINE = 0.95  # a floor is set below what the deployment did: at its own figure a run never settles

SHARE_RULE = (
    "strata are scenarios with thinking on and off, each of weight one, p = (right + .5) / (n + 1), fixed-strata SE; "
    f"PASS when m - {PASS_SE} SE reaches the floor with answers cut by the thinking cap taken as wrong, FAIL when "
    f"m + {FAIL_SE} SE stays below it without them; at the floor a false PASS has probability .042, a false "
    "FAIL .0004 (simulated for 14 scenarios, looks at 10 to 40 cases each; fewer of either were not simulated)"
)


def _judge_share(requirement: str, capability: Capability | None = None) -> Judge:
    def judge(view: EvidenceView, plan: Plan, thresholds: Thresholds) -> Verdict:
        ones = scored(view, plan, requirement)
        if capability is Capability.TOOLS and ones and not any(one.seen.answer.tool_calls for one in ones):
            return _no_calls(requirement, ones, plan)
        return share_verdict(requirement, ones, missing_over(plan, requirement, (one.seen for one in ones)), thresholds)

    judge.__doc__ = f"The share of right answers of {requirement} against its floor."
    return judge


def _no_calls(requirement: str, ones: Sequence[Scored], plan: Plan) -> Verdict:
    what = f"no tool was called in {many(len(ones), 'answer')} ({grades(ones)})"
    outcome, summary, action = unseen(plan, Capability.TOOLS, what)
    return Verdict(
        requirement,
        outcome,
        summary,
        rule=SHARE_RULE,
        figures=(_figure(ones),) if outcome is not Outcome.NOT_APPLICABLE else (),
        findings=capped(one.finding() for one in ones),
        cause="" if outcome is Outcome.NOT_APPLICABLE else "the engine drops `tools`, or runs without a tool parser",
        action=action,
        evidence=evidence_of(one.seen for one in ones),
    )


def _figure(ones: Sequence[Scored], share: Share | None = None) -> Figure:
    right, n = sum(one.right for one in ones), len(ones)
    return Figure(
        METRIC,
        round(1000 * right / n),
        1,
        "%",
        n,
        "answers right in every field, by strict score, over all answers",
        population=f"{len({one.stratum for one in ones})} strata (scenario x thinking), fresh cases: {grades(ones)}",
        low_scaled=None if share is None else round(1000 * share.low),
        high_scaled=None if share is None else round(1000 * share.high),
        interval="" if share is None else f"shrunk stratified mean {share.mean:.1%}, -{PASS_SE} and +{FAIL_SE} SE",
        spread=", ".join(f"{' '.join(key)} {right}/{n}" for key, (right, n) in _by_stratum(ones)),
    )


def _by_stratum(ones: Sequence[Scored]) -> list[tuple[tuple[str, str], tuple[int, int]]]:
    return list(zip(sorted({one.stratum for one in ones}), strata(ones), strict=True))


def share_verdict(requirement: str, ones: Sequence[Scored], gaps: int, thresholds: Thresholds) -> Verdict:
    """The share of right answers against its floor; without a floor INCONCLUSIVE, with the TOML to paste."""
    evidence = evidence_of(one.seen for one in ones)
    told = [one for one in ones if not one.apart]
    if not told:
        what = f"no answer could be scored ({grades(ones)})" if ones else "no case is in the evidence"
        return Verdict(
            requirement,
            Outcome.INCONCLUSIVE if ones else Outcome.ERROR,
            what,
            rule=SHARE_RULE,
            findings=capped(one.finding() for one in ones),
            cause="the thinking cap left no answer, or every request was refused" if ones else "the run was cut short",
            action="raise the cap, or serve what the scenario needs; then run again",
            evidence=evidence,
        )
    strict, lenient = stratified(strata(ones)), stratified(strata(told))
    figure = _figure(ones, strict)
    bound = thresholds.bound(requirement, METRIC)
    outcome, summary, action = (
        _no_floor(requirement, figure) if bound is None else _against(bound, strict, lenient, figure)
    )
    if gaps and outcome is Outcome.PASS:
        outcome, summary = Outcome.ERROR, f"{many(gaps, 'planned case')} missing from the evidence"
        action = "run again, or resume it"
    return Verdict(
        requirement,
        outcome,
        summary,
        rule=SHARE_RULE,
        figures=(figure,),
        bounds=(bound,) if bound else (),
        findings=capped(one.finding() for one in ones if not one.right),
        cause=_cause(ones) if outcome is not Outcome.PASS else "",
        action=action,
        evidence=evidence,
    )


def _no_floor(requirement: str, figure: Figure) -> tuple[Outcome, str, str]:
    floor = int(figure.scaled * BASELINE)
    paste = toml_to_paste(requirement, METRIC, "floor", floor, figure.decimals, f"this run's {figure} x {BASELINE}")
    return Outcome.INCONCLUSIVE, f"{figure} right (n = {figure.n}), no floor is set", f"to make it one:\n{paste}"


def _against(bound: Bound, strict: Share, lenient: Share, figure: Figure) -> tuple[Outcome, str, str]:
    floor = bound.scaled / 10.0**bound.decimals / 100
    measured = f"{figure} right (n = {figure.n}), {bound} required"
    if strict.side(floor) is Side.ABOVE:
        return Outcome.PASS, measured, ""
    if lenient.side(floor) is Side.BELOW:
        action = "compare with a reference of the same model: a fault shared with it is the model's"
        return Outcome.FAIL, measured, action
    return (
        Outcome.INCONCLUSIVE,
        f"{measured}: too few cases to tell",
        "run profile release: it asks more cases; a floor belongs about 5 points below what the model reaches",
    )


def _cause(ones: Sequence[Scored]) -> str:
    worst = [one.score.grade for one in ones if not one.right]
    if not worst:
        return "too few cases for a proof"
    grade = max(set(worst), key=worst.count)
    return {
        Grade.BUDGET: "most answers that are not right were cut by the thinking cap",
        Grade.FORMAT: "most answers that are not right are not in the form that was asked for",
        Grade.VALUE: "most answers that are not right have the form and a wrong value: the model, or its quantization",
        Grade.PROTOCOL: "most answers that are not right left the envelope: see QUAL-ENV-01",
        Grade.INFRA: "most answers that are not right never came: see PRE-CONTRACT-02",
    }.get(grade, f"most answers that are not right have the grade {grade}")


def judge_thinking_gain(view: EvidenceView, plan: Plan, thresholds: Thresholds) -> Verdict:
    """Reported: right with thinking on minus right with it off, over the same cases; PASS means that it was counted."""
    del thresholds
    ones = scored(view, plan, "QUAL-THINK-02")
    on, off = ([one for one in ones if one.mode is mode] for mode in (Thinking.ON, Thinking.OFF))
    pairs, apart = pair(on, off, lambda one: (one.scenario, one.seed))
    thought = any(one.seen.answer.reasoning.strip() for one in ones)
    rule = "counted over pairs of one case asked both ways; Newcombe's paired interval (method 10), 95 %; no threshold"
    evidence = evidence_of(one.seen for one in ones)
    if not thought:
        outcome, summary, action = unseen(plan, Capability.THINKING, f"no thinking came in {many(len(ones), 'answer')}")
        cause = "" if outcome is Outcome.NOT_APPLICABLE else "see PRE-THINK-01"
        return Verdict("QUAL-THINK-02", outcome, summary, rule=rule, cause=cause, action=action, evidence=evidence)
    if pairs.n == 0:
        return Verdict(
            "QUAL-THINK-02",
            Outcome.INCONCLUSIVE,
            f"no case was scored both ways ({apart} cut by the thinking cap or refused)",
            rule=rule,
            cause="the thinking cap is shorter than the thinking",
            action="raise the cap: profile release allows more thinking",
            evidence=evidence,
        )
    low, high = newcombe(pairs)
    points = Figure(
        "thinking_gain",
        round(1000 * pairs.difference),
        1,
        "points",
        pairs.n,
        "share right with thinking on minus share right with it off, paired by case",
        population=f"fresh seeded cases; {many(apart, 'case')} apart (cut by the thinking cap, or refused)",
        low_scaled=round(1000 * low),
        high_scaled=round(1000 * high),
        interval="95 %, Newcombe method 10",
    )
    return Verdict(
        "QUAL-THINK-02",
        Outcome.PASS,
        f"thinking on minus off: {points} (95 %: {100 * low:+.1f} to {100 * high:+.1f}), {many(pairs.n, 'pair')}",
        rule=rule,
        figures=(points, *counts(pairs, "on", "off")),
        evidence=evidence,
    )


def pair(
    firsts: Iterable[Scored], seconds: Iterable[Scored], key: Callable[[Scored], tuple[str, ...]]
) -> tuple[Paired, int]:
    """Counts of the cases that were scored on both sides, and how many pairs stand apart (cap met, or refused)."""
    others = {key(one): one for one in seconds}
    both = [(one, others[key(one)]) for one in firsts if key(one) in others]
    told = [(one.right, other.right) for one, other in both if not (one.apart or other.apart)]
    return Paired.count(told), len(both) - len(told)


def counts(pairs: Paired, first: str, second: str) -> tuple[Figure, ...]:
    """The four counts of paired cases, as figures."""
    table = (
        ("both_right", pairs.both, "right in both"),
        (f"only_{first}", pairs.only_first, f"right only with {first}"),
        (f"only_{second}", pairs.only_second, f"right only with {second}"),
        ("neither", pairs.neither, "right in neither"),
    )
    return tuple(Figure(name, count, 0, "cases", pairs.n, counted) for name, count, counted in table)


JUDGES: dict[str, Judge] = {
    "QUAL-ENV-01": judge_envelope,
    "QUAL-JSON-01": _judge_share("QUAL-JSON-01"),
    "QUAL-SCHEMA-02": judge_constrained,
    "QUAL-TOOL-05": _judge_share("QUAL-TOOL-05", Capability.TOOLS),
    "QUAL-VALUE-01": _judge_share("QUAL-VALUE-01"),
    "QUAL-THINK-02": judge_thinking_gain,
}
