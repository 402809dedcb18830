"""The judge of PERF-C1-01: one stream, closed loop, a fixed corpus, the sequential rate rule.

A repeat is one pass over the corpus: the sum of its completion tokens by `usage` over the sum of its wall seconds, a
ratio of sums (the mean of rates lies 2.3 % higher at a spread of 15 % between prompts).
"""

from dataclasses import dataclass, replace
from statistics import median

from certify.evidence import EvidenceView
from certify.judging.measured import (
    MIN_WINDOW_NS,
    NS_PER_MS,
    NS_PER_S,
    Flaw,
    Measured,
    Timeline,
    degenerate,
    figure,
    flaw,
    measured,
    scaled,
    server_rate,
    text,
    timeline,
    with_uncertainty,
    worst,
)
from certify.judging.reading import quote
from certify.plan import Plan, PlannedGate, whole_parameter, whole_parameters
from certify.records import Bound, Figure, Finding, Outcome, Verdict
from certify.stats import LOOKS, MAD_TO_SIGMA, Rate, RateDecision, mad, rate_decision, rate_interval
from certify.thresholds import Thresholds, toml_to_paste

REQUIREMENT = "PERF-C1-01"
METRIC = "decode_rate"
SHOWN_FLAWS = 5
SPLIT_TOKENS = 2  # a parser may split the token at the end of thinking over two chunks
DRIVER_SIGNATURE = (0.24, 0.33)  # around 1/3.5: driver 580.159.03 on two GB10, its prefill as before

RULE = (
    "sequential rate rule: m = median of the repeats, s = max(1.4826 MAD (1 + 1.2/n), 1 % of m), "
    "U = t(1 - a', n - 1) 1.2533 s / sqrt(n); PASS if m - U >= floor (a' = .0125), FAIL if m + U < floor (a' = .02, "
    "from n = 10; at n = 5 only if all repeats lie below 0.9 of it); looks after {looks} repeats. Simulated at 2 % "
    "noise with 5 % slow outliers: false PASS at the floor <= .05, PASS >= .95 at 1.03 of it, FAIL >= .9 at .98. "
    "It speaks of this launch only: what a restart changes is not measured"
)
COUNTED = "completion_tokens of `usage` / wall seconds from sending to the end of the answer, sums over a pass"


@dataclass(frozen=True, slots=True)
class _Pass:
    """One pass over the corpus."""

    exchanges: tuple[Measured, ...]
    timelines: tuple[Timeline, ...]

    @property
    def tokens(self) -> int:
        return sum(one.answer.usage.completion_tokens for one in self.exchanges if one.answer.usage)

    @property
    def wall_ns(self) -> int:
        return sum(one.exchange.ended_ns for one in self.exchanges)

    @property
    def rate(self) -> float:
        return self.tokens * NS_PER_S / self.wall_ns

    def window_rates(self) -> tuple[float, float] | None:
        """The lowest and highest decode-window rate that the chunks allow; None where a window is void."""
        if any(line.void for line in self.timelines):
            return None
        window = sum(line.window_ns for line in self.timelines)
        low, high = (sum(getattr(line, side) for line in self.timelines) for side in ("tokens_low", "tokens_high"))
        return low * NS_PER_S / window, high * NS_PER_S / window


def judge_single_stream(  # noqa: PLR0911 - the refusals come first, one by one
    view: EvidenceView, plan: Plan, thresholds: Thresholds
) -> Verdict:
    """PASS when the median closed-loop rate is shown to lie at or above the floor.

    NOT_RUN while the rule asks for more repeats: the collector goes on until it says something else.
    """
    gate = plan.gate(REQUIREMENT)
    if gate is None:
        return Verdict(REQUIREMENT, Outcome.NOT_RUN, "the plan does not hold this gate")
    first = whole_parameter(gate, "warm_up_passes")
    trials = measured(view, REQUIREMENT)
    counted = [one for one in trials if one.trial_id.repeat >= first]
    looks = whole_parameters(gate, "looks")
    rule = RULE.format(looks=", ".join(map(str, looks)))
    evidence = tuple(one.seq for one in trials)
    flaws = [found for one in counted if (found := flaw(one) or _implausible(one, gate))]
    if flaws:
        return _flawed(flaws, len(counted), rule, evidence)
    passes, gap = _passes(counted, whole_parameter(gate, "prompts"), first)
    if gap:
        return Verdict(REQUIREMENT, Outcome.ERROR, gap, rule, action="repeat the run", evidence=evidence)
    if len(passes) < looks[0]:
        summary = f"{len(passes)} of at least {looks[0]} repeats measured"
        return Verdict(REQUIREMENT, Outcome.NOT_RUN, summary, rule, evidence=evidence)
    void = [one for one, line in _lines(passes) if line.void]
    if 2 * len(void) > len(counted):
        return _merged(passes, rule, evidence)
    bound = thresholds.bound(REQUIREMENT, METRIC)
    verdict = Verdict(
        REQUIREMENT,
        Outcome.NOT_RUN,
        "",
        rule,
        _figures(passes, gate),
        (bound,) if bound else (),
        _findings(passes, gate) + _warm_up_findings(trials, first),
        evidence=evidence,
    )
    if bound is None:
        return _without_floor(verdict, passes, thresholds.name, view.header.run_id)
    return _decide(verdict, passes, gate, bound)


def _lines(passes: list[_Pass]) -> list[tuple[Measured, Timeline]]:
    return [pair for one in passes for pair in zip(one.exchanges, one.timelines, strict=True)]


def _implausible(one: Measured, gate: PlannedGate) -> Flaw | None:
    """What a usable answer may still lie about: its token count, and whether it is language at all."""
    answer, usage, limit = one.answer, one.answer.usage, whole_parameter(gate, "max_tokens")
    carrying = sum(chunk.carries for chunk in answer.chunks)
    if usage is None:
        return None
    if usage.completion_tokens > limit:
        said = f"usage says {usage.completion_tokens} tokens where at most {limit} were allowed"
        return Flaw(Outcome.ERROR, f"{said}: its counts cannot be trusted", one.seq)
    if usage.completion_tokens + SPLIT_TOKENS < carrying:
        said = f"usage says {usage.completion_tokens} tokens, yet {carrying} chunks brought text"
        return Flaw(Outcome.ERROR, f"{said}: its counts cannot be trusted", one.seq)
    if one.exchange.ended_ns < MIN_WINDOW_NS:
        return Flaw(
            Outcome.ERROR, f"the whole answer took {one.exchange.ended_ns / NS_PER_MS:.1f} ms: too short", one.seq
        )
    if garbage := degenerate(answer.reasoning + answer.content):
        return Flaw(Outcome.FAIL, f"{garbage}: garbage cannot be fast", one.seq, quote(answer.content))
    return None


def _flawed(flaws: list[Flaw], asked: int, rule: str, evidence: tuple[int, ...]) -> Verdict:
    outcome = worst(flaws)
    leading = [one for one in flaws if one.outcome is outcome]
    missing_usage = "no usage" in leading[0].text
    return Verdict(
        REQUIREMENT,
        outcome,
        f"{len(leading)} of {asked} timed exchanges are no measurement: {leading[0].text}",
        rule,
        findings=tuple(one.finding() for one in leading[:SHOWN_FLAWS]),
        cause="tokens are counted by the server's usage, never by chunks or a tokenizer of our own"
        if missing_usage
        else "a rate over what is left would hide the failure: no timed exchange is dropped",
        action="make the server send usage in streams (stream_options.include_usage), then repeat the run"
        if missing_usage
        else "look into the server's log at the times of these exchanges, then repeat the run",
        evidence=evidence,
    )


def _passes(counted: list[Measured], prompts: int, first: int) -> tuple[list[_Pass], str]:
    """The complete passes in order, and what is wrong when one before the last is not complete."""
    by_repeat: dict[int, dict[str, Measured]] = {}
    for one in counted:
        by_repeat.setdefault(one.trial_id.repeat, {})[one.trial_id.case] = one
    complete: list[_Pass] = []
    for repeat in range(first, max(by_repeat, default=first - 1) + 1):
        exchanges = tuple(by_repeat.get(repeat, {}).values())
        if len(exchanges) == prompts:
            complete.append(_Pass(exchanges, tuple(timeline(one) for one in exchanges)))
        elif repeat != max(by_repeat):
            return complete, f"repeat {repeat} has {len(exchanges)} of {prompts} exchanges though later ones exist"
    return complete, ""


def _merged(passes: list[_Pass], rule: str, evidence: tuple[int, ...]) -> Verdict:
    voided = [(one, line.void) for one, line in _lines(passes) if line.void]
    return Verdict(
        REQUIREMENT,
        Outcome.ERROR,
        f"the decode window of {len(voided)} of {len(_lines(passes))} exchanges is void: {voided[0][1]}",
        rule,
        findings=tuple(Finding(f"void: {why}", (one.seq,)) for one, why in voided[:SHOWN_FLAWS]),
        cause="a proxy that buffers, or a busy API server, delivers the stream in bursts; without a decode window the "
        "closed-loop rate cannot be checked against anything",
        action="switch off buffering between client and server (nginx: proxy_buffering off), or measure nearer to it",
        evidence=evidence,
    )


def _warm_up_findings(trials: list[Measured], first: int) -> tuple[Finding, ...]:
    warm_up = [one for one in trials if one.trial_id.repeat < first]
    broken = [found for one in warm_up if (found := flaw(one))]
    return tuple(Finding(f"warm-up, excluded: {one.text}", (one.seq,), one.quote) for one in broken[:SHOWN_FLAWS])


def _without_floor(verdict: Verdict, passes: list[_Pass], threshold_set: str, run_id: str) -> Verdict:
    centre, u = rate_interval([one.rate for one in passes])
    return replace(
        verdict,
        outcome=Outcome.INCONCLUSIVE,
        summary=f"decode rate {with_uncertainty(centre, u)} tok/s (n = {len(passes)}, this launch); there is no floor",
        cause=f"the threshold set {threshold_set!r} has no {METRIC} for {REQUIREMENT}",
        action="declare a floor in a thresholds file; this run x 0.95:\n"
        + toml_to_paste(REQUIREMENT, METRIC, "floor", scaled(centre * 0.95, 1), 1, f"run {run_id} x 0.95"),
    )


def _decide(verdict: Verdict, passes: list[_Pass], gate: PlannedGate, bound: Bound) -> Verdict:
    floor = bound.scaled / 10**bound.decimals
    decided = rate_decision([one.rate for one in passes], floor, whole_parameters(gate, "looks"))
    outcome = Outcome.NOT_RUN if decided.decision is Rate.CONTINUE else Outcome(decided.decision.value)
    return replace(
        verdict,
        outcome=outcome,
        summary=f"decode rate {with_uncertainty(decided.median, decided.u)} tok/s (n = {decided.n}, this launch, "
        f"corpus {text(gate.parameters, 'corpus_sha256')[:12]}) against {bound}: {decided.reason}",
        cause=_cause(passes, decided, floor) if outcome in (Outcome.FAIL, Outcome.INCONCLUSIVE) else "",
        action=_action(outcome, bound, decided),
    )


def _figures(passes: list[_Pass], gate: PlannedGate) -> tuple[Figure, ...]:
    population = (
        f"{whole_parameter(gate, 'prompts')} prompts of corpus {text(gate.parameters, 'corpus_sha256')[:12]}, each "
        f"behind a fresh nonce; {whole_parameter(gate, 'max_tokens')} tokens a prompt (ignore_eos), temperature 0"
    )
    rates = [one.rate for one in passes]
    centre, u = rate_interval(rates)
    spread = f"MAD x 1.4826 {MAD_TO_SIGMA * mad(rates) / centre:.1%}, {min(rates):.2f} to {max(rates):.2f}"
    interval = "t(.9875, n - 1), this launch; launch to launch: not measured"
    found = [
        figure(
            METRIC, centre, 3, "tok/s", n=len(rates), counted=COUNTED, population=population, half_width=u,
            interval=interval, spread=spread,
        )
    ]  # fmt: skip
    windows = [both for one in passes if (both := one.window_rates())]
    if windows:
        low, high = (median(side) for side in zip(*windows, strict=True))
        found.append(
            figure(
                "decode_window_rate", (low + high) / 2, 3, "tok/s", n=len(windows), population=population,
                counted="tokens after the first read with output / seconds from it to the last, sums over a pass",
                bounds=(low, high) if high > low else None,
                interval="the first chunk's tokens are not told: lowest and highest possible",
            )
        )  # fmt: skip
    ttfts = [line.ttft_ns / NS_PER_MS for _, line in _lines(passes) if line.ttft_ns is not None and not line.void]
    if ttfts:
        found.append(
            figure(
                "ttft", median(ttfts), 3, "ms", n=len(ttfts), population=population,
                counted="from sending to the first output", spread=f"{min(ttfts):.1f} to {max(ttfts):.1f}",
            )
        )  # fmt: skip
    if told := _server_rates(passes):
        found.append(
            figure(
                "server_decode_rate", median(told), 3, "tok/s", n=len(told), population=population,
                counted="the engine's own: timings.predicted_per_second or 1000 / metrics.mean_itl_ms",
            )
        )  # fmt: skip
    return tuple(found)


def _server_rates(passes: list[_Pass]) -> list[float]:
    return [rate for one, _ in _lines(passes) if (rate := server_rate(one.answer)) is not None]


def _findings(passes: list[_Pass], gate: PlannedGate) -> tuple[Finding, ...]:
    lines = _lines(passes)
    limit = whole_parameter(gate, "max_tokens")
    short = [one.seq for one, _ in lines if one.answer.usage and one.answer.usage.completion_tokens < limit]
    void = [(one.seq, line.void) for one, line in lines if line.void]
    found = []
    if short:
        text_ = f"{len(short)} of {len(lines)} answers ended before {limit} tokens: ignore_eos had no effect on them"
        found.append(Finding(text_, tuple(short[:SHOWN_FLAWS])))
    if void:
        text_ = f"the decode window of {len(void)} of {len(lines)} exchanges is void ({void[0][1]}); not in its figure"
        found.append(Finding(text_, tuple(seq for seq, _ in void[:SHOWN_FLAWS])))
    return tuple(found)


def _cause(passes: list[_Pass], decided: RateDecision, floor: float) -> str:
    lines = _lines(passes)
    wall = sum(one.exchange.ended_ns for one, _ in lines)
    waiting = sum(line.ttft_ns or 0 for _, line in lines) / wall
    told = _server_rates(passes)
    ours = [both[0] for one in passes if (both := one.window_rates())]
    clues: list[str] = []
    if waiting > 0.3:  # noqa: PLR2004 - a third of the wall time is no longer decoding
        clues.append(f"{waiting:.0%} of the time passes before the first token: prefill or a queue, not decoding")
    elif DRIVER_SIGNATURE[0] <= decided.median / floor <= DRIVER_SIGNATURE[1]:
        clues.append(
            "the rate is near 1/3.5 of the floor with normal prefill: the signature of a GPU driver regression"
        )
    if told and ours and median(told) > 1.1 * median(ours):
        clues.append(f"the engine says {median(told):.1f} tok/s itself: network, proxy or client take the rest")
    elif told:
        clues.append(f"the engine says {median(told):.1f} tok/s itself: the slowness is in the engine")
    if decided.serial > 0.45:  # noqa: PLR2004 - stats.SERIAL_LIMIT, below it noise looks so as well
        clues.append("the repeats drift: heat, another load, or clocks that change")
    return "; ".join(clues)


def _action(outcome: Outcome, bound: Bound, decided: RateDecision) -> str:
    if outcome is Outcome.FAIL:
        return (
            "check other load on the machine, driver and clocks, the launch configuration, speculation; the floor is "
            f"from: {bound.source}"
        )
    if outcome is Outcome.INCONCLUSIVE:
        return (
            f"a floor must lie below what the deployment does (baseline x 0.95), not at it; after {max(LOOKS)} repeats "
            f"the uncertainty is {decided.u:.2f} tok/s: a quieter machine narrows it"
        )
    return ""
