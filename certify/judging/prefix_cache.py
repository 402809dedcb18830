"""The judges of the prefix cache: a repeated prompt hits (PERF-CACHE-01), a prompt behind a fresh nonce is cold (-02).

Evidence in order of weight: what `usage` (or llama.cpp's `timings`) says was cached; the engine's counters around one
exchange that ran alone; the ratio of the times to the first token. The first two can lie, so the third must agree.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import reduce
from statistics import fmean, median, stdev

from certify.evidence import EvidenceView
from certify.judging.measured import (
    NS_PER_MS,
    Flaw,
    Measured,
    figure,
    flaw,
    measured,
    timeline,
    worst,
)
from certify.plan import Plan, PlannedGate
from certify.records import Bound, Capability, Figure, Finding, Outcome, Verdict
from certify.stats import t_quantile
from certify.thresholds import Thresholds, toml_to_paste
from certify.wire.counters import read_counters

WARM, COLD = "PERF-CACHE-01", "PERF-CACHE-02"
METRIC = "cold_over_warm_ttft"
SAMPLE = "prefix-cache"
PAIR = "pair-"  # cases of the pairs; "base" are prompts of a few words, "size" looks for a length that time can tell
SHOWN = 5

# What a cold prompt may show: the chat template's own preamble (16 to 32 tokens on a real vLLM 0.26.0), in granules.
COLD_TOKENS, COLD_SHARE = 64, 0.05
WARM_SHARE = 0.5

FLAG = (
    "vLLM: --enable-prefix-caching --enable-prompt-tokens-details; SGLang: --enable-cache-report; "
    "or say `prefix-cache = false` under [capabilities] of deployment.toml"
)
WARM_RULE = (
    f"every repeat of a prompt must find at least {WARM_SHARE:.0%} of its tokens cached, by usage or by counters, and "
    "the median ratio of cold to warm TTFT must reach its floor; timing alone never passes. {n} pairs all above 2 have "
    "probability {p:.3f} without a cache"
)
COLD_RULE = (
    f"a prompt behind a fresh nonce may find at most max({COLD_TOKENS}, {COLD_SHARE:.0%}) of its tokens cached: what "
    "the chat template shares with earlier prompts"
)


@dataclass(frozen=True, slots=True)
class _Hit:
    """How much of one prompt was cached, and who says so ("" when nobody does)."""

    one: Measured
    prompt_tokens: int
    cached: int | None
    source: str
    ttft_ms: float | None

    @property
    def share(self) -> float:
        return (self.cached or 0) / max(self.prompt_tokens, 1)


@dataclass(frozen=True, slots=True)
class _Timing:
    """Cold over warm time to first token: the ratio of each pair, its median, and a 95 % interval of the mean log."""

    cold_ms: float
    ratios: tuple[float, ...]
    middle: float
    low: float
    high: float


def judge_repeated_prompt(view: EvidenceView, plan: Plan, thresholds: Thresholds) -> Verdict:
    """PASS when every repeat hits by usage or counters and the time to first token agrees."""
    gate = plan.gate(WARM)
    if gate is None:
        return Verdict(WARM, Outcome.NOT_RUN, "the plan does not hold this gate")
    hits, early = _read(view, gate, WARM)
    if early:
        return early
    cold = {hit.one.trial_id.case: hit for hit in hits if hit.one.trial_id.repeat == 0}
    warm = [hit for hit in hits if hit.one.trial_id.repeat > 0]
    timing = _timing(cold, warm)
    bound = thresholds.bound(WARM, METRIC)
    bounds = (bound,) if bound else ()
    rule = WARM_RULE.format(n=len(cold), p=0.5 ** len(cold))
    if timing is None:
        return Verdict(
            WARM,
            Outcome.ERROR,
            "the time to first token could not be measured in both halves of every pair",
            rule,
            action="the answers brought no output as a stream: look at the raw exchanges",
            evidence=tuple(hit.one.seq for hit in hits),
        )
    case = _Case(plan, WARM, rule, hits, _figures(hits, warm, timing), bounds, _granule(warm))
    if bound is None:
        paste = toml_to_paste(WARM, METRIC, "floor", round(timing.middle * 9.5), 1, f"run {view.header.run_id} x 0.95")
        return case.verdict(
            Outcome.INCONCLUSIVE,
            f"a repeat answers {timing.middle:.1f} times as soon; there is no floor",
            action=f"declare a floor in a thresholds file; this run x 0.95:\n{paste}",
        )
    fast = timing.middle >= case.floor
    slow = timing.high < case.floor and _tellable(view, timing) >= case.floor
    ratio = f"cold over warm TTFT {timing.middle:.2f} x against {bound}"
    if any(hit.cached is None for hit in warm):
        return _untold(case, ratio, slow=slow)
    missed = [hit for hit in warm if hit.share < WARM_SHARE]
    return (
        _missed(case, warm, missed, ratio, fast=fast) if missed else _hit_all(case, warm, ratio, fast=fast, slow=slow)
    )


@dataclass(frozen=True, slots=True)
class _Case:
    """What all verdicts on one evidence share."""

    plan: Plan
    requirement: str
    rule: str
    hits: list[_Hit]
    figures: tuple[Figure, ...] = ()
    bounds: tuple[Bound, ...] = ()
    findings: tuple[Finding, ...] = ()

    @property
    def floor(self) -> float:
        return self.bounds[0].scaled / 10.0 ** self.bounds[0].decimals

    @property
    def declared(self) -> bool | None:
        said = self.plan.declared.get(Capability.PREFIX_CACHE)
        return said if isinstance(said, bool) else None

    def verdict(
        self, outcome: Outcome, summary: str, *, cause: str = "", action: str = "", more: tuple[Finding, ...] = ()
    ) -> Verdict:
        evidence = tuple(hit.one.seq for hit in self.hits)
        findings = self.findings + more
        return Verdict(
            self.requirement, outcome, summary, self.rule, self.figures, self.bounds, findings, cause, action, evidence
        )

    def no_effect(self, what: str, *, cause: str = "", more: tuple[Finding, ...] = ()) -> Verdict:
        """No effect was seen: FAIL if it is declared, NOT_APPLICABLE if declared absent, else INCONCLUSIVE."""
        outcome, said = {
            True: (Outcome.FAIL, "declared"),
            False: (Outcome.NOT_APPLICABLE, "declared absent"),
            None: (Outcome.INCONCLUSIVE, "not declared"),
        }[self.declared]
        action = "" if outcome is Outcome.NOT_APPLICABLE else f"switch it on and let the server tell: {FLAG}"
        return self.verdict(outcome, f"{what} (prefix cache {said})", cause=cause, action=action, more=more)


def _untold(case: _Case, ratio: str, *, slow: bool) -> Verdict:
    """The server does not say what was cached."""
    if slow:
        return case.no_effect(f"{ratio}, and the server does not say what was cached")
    return case.verdict(
        Outcome.INCONCLUSIVE,
        f"by timing only: {ratio}; the server does not say what was cached",
        cause="`usage` has no cached_tokens and no counter tells: time alone cannot prove a hit",
        action=f"let the server tell: {FLAG}",
    )


def _hit_all(case: _Case, warm: list[_Hit], ratio: str, *, fast: bool, slow: bool) -> Verdict:
    """Every repeat hit, by usage or counters: the times must agree."""
    source = warm[0].source
    summary = f"{min(hit.share for hit in warm):.1%} or more of each repeated prompt cached by {source}"
    if fast:
        against = (Finding("the owner declares `prefix-cache = false`, yet hits were seen"),)
        more = against if case.declared is False else ()
        return case.verdict(Outcome.PASS, f"{summary}; {ratio}", more=more)
    return case.verdict(
        Outcome.FAIL if slow else Outcome.INCONCLUSIVE,
        f"{summary}, but {ratio}",
        cause=f"{source} claims hits that do not make the answer come sooner: the counter is wrong, or the time goes "
        "elsewhere (queue, network, a short prompt)",
        action="compare with the engine's own prefill time; measure with a longer prompt on an idle deployment",
    )


def _missed(case: _Case, warm: list[_Hit], missed: list[_Hit], ratio: str, *, fast: bool) -> Verdict:
    """Some repeat did not hit, by usage or counters."""
    source = warm[0].source
    more = tuple(
        Finding(
            f"{hit.cached} of {hit.prompt_tokens} tokens cached on repeat {hit.one.trial_id.repeat} of "
            f"{hit.one.trial_id.case}",
            (hit.one.seq,),
        )
        for hit in missed[:SHOWN]
    )
    if len(missed) < len(warm):
        return case.verdict(
            Outcome.FAIL,
            f"{len(missed)} of {len(warm)} repeats hit less than {WARM_SHARE:.0%} by {source}; {ratio}",
            cause="the cache misses some repeats: eviction under pressure, several replicas behind a router that does "
            "not look at prefixes, or an engine whose first repeat misses",
            action="repeat on an idle deployment; look at the cache's size and at the router",
            more=more,
        )
    if fast:
        return case.verdict(
            Outcome.FAIL,
            f"{source} says that no repeat hit, yet {ratio}",
            cause=f"the counter is wrong: {source} does not count the hits that the times show",
            action="do not use this counter for billing or alarms; report it to the engine with these exchanges",
            more=more,
        )
    return case.no_effect(
        f"no repeat hit: at most {max(hit.share for hit in warm):.1%} of a prompt cached by {source}; {ratio}",
        cause="prefix caching is off, or a hybrid model's granule is larger than the prompt",
        more=more,
    )


def judge_cold_proof(view: EvidenceView, plan: Plan, thresholds: Thresholds) -> Verdict:
    """PASS when no prompt behind a fresh nonce found more cached than the chat template's own preamble."""
    del thresholds  # the allowance is part of the method, not a bar that an owner moves
    gate = plan.gate(COLD)
    if gate is None:
        return Verdict(COLD, Outcome.NOT_RUN, "the plan does not hold this gate")
    hits, early = _read(view, plan.gate(WARM) or gate, COLD)
    if early:
        return early
    cold = [hit for hit in hits if hit.one.trial_id.repeat == 0]
    case = _Case(plan, COLD, COLD_RULE, cold)
    told = [hit for hit in cold if hit.cached is not None]
    if len(told) < len(cold):
        return case.no_effect("the server does not say what was cached", cause="time cannot prove a cold start")
    most = max(told, key=lambda hit: hit.share)
    figures = (
        figure(
            "cold_cached_share", 100 * most.share, 2, "%", n=len(told), counted=f"largest share, by {most.source}",
            population=f"{len(told)} prompts of about {most.prompt_tokens} tokens, each behind a fresh nonce",
        ),
    )  # fmt: skip
    case = replace(case, figures=figures)
    warm = [hit for hit in told if (hit.cached or 0) > max(COLD_TOKENS, COLD_SHARE * hit.prompt_tokens)]
    if warm:
        return case.verdict(
            Outcome.FAIL,
            f"{len(warm)} of {len(told)} prompts behind a fresh nonce were not cold: {most.cached} of "
            f"{most.prompt_tokens} tokens cached by {most.source}",
            cause="the counter is wrong, or the cache matches text that it never saw: answers may come from another "
            "conversation's state, and every cold figure of this deployment is void",
            action="check how the cache keys its blocks (salt, adapters, hash collisions); do not serve several users",
            more=tuple(Finding(f"{hit.cached} of {hit.prompt_tokens} cached", (hit.one.seq,)) for hit in warm[:SHOWN]),
        )
    if plan.declared.get(Capability.PREFIX_CACHE) is False and not any(
        (hit.cached or 0) > 0 for hit in hits if hit.one.trial_id.repeat > 0
    ):
        return case.no_effect("nothing was cached, cold or repeated")
    return case.verdict(
        Outcome.PASS,
        f"at most {most.cached} of {most.prompt_tokens} tokens cached by {most.source} over {len(told)} fresh prompts",
    )


def _read(view: EvidenceView, gate: PlannedGate, requirement: str) -> tuple[list[_Hit], Verdict | None]:
    """All hits, or the verdict that ends it: nothing measured yet, or a broken exchange."""
    planned = {trial.trial_id for trial in gate.trials if trial.trial_id.case.startswith(PAIR)}
    trials = [one for one in measured(view, requirement) if one.trial_id in planned]
    if len({one.trial_id for one in trials}) < len(planned):
        summary = f"{len(trials)} of {len(planned)} exchanges measured"
        return [], Verdict(requirement, Outcome.NOT_RUN, summary, action="the gate did not run to its end")
    flaws = [found for one in trials if (found := flaw(one))]
    if flaws:
        return [], _flawed(requirement, flaws, trials)
    counted = _counted(view)
    return [_hit(one, counted(one)) for one in trials], None


def _flawed(requirement: str, flaws: list[Flaw], trials: list[Measured]) -> Verdict:
    outcome = worst(flaws)
    leading = [one for one in flaws if one.outcome is outcome]
    return Verdict(
        requirement,
        outcome,
        f"{len(leading)} of {len(trials)} exchanges failed: {leading[0].text}",
        findings=tuple(one.finding() for one in leading[:SHOWN]),
        action="look into the server's log at the times of these exchanges, then repeat the run",
        evidence=tuple(one.seq for one in trials),
    )


def _counted(view: EvidenceView) -> Callable[[Measured], int | None]:
    """A function: the tokens that the engine's own counters say were hit during one exchange that ran alone."""
    samples = [(seq, read_counters(sample.text).prefix_hits) for seq, sample in view.samples(SAMPLE)]
    asked = [seq for seq, _ in view.trials()]

    def delta(one: Measured) -> int | None:
        before, hits_before = max((pair for pair in samples if pair[0] < one.seq), default=(0, None))
        after, hits_after = min((pair for pair in samples if pair[0] > one.seq), default=(0, None))
        alone = [seq for seq in asked if before < seq < after] == [one.seq]
        if not alone or hits_before is None or hits_after is None or hits_after < hits_before:
            return None  # another exchange ran, or the engine started anew
        return hits_after - hits_before

    return delta


def _hit(one: Measured, counted: int | None) -> _Hit:
    usage, line = one.answer.usage, timeline(one)
    prompt = usage.prompt_tokens if usage else 0
    ttft_ms = None if line.ttft_ns is None else line.ttft_ns / NS_PER_MS
    own = one.answer.timings.get("cache_n")
    if usage is not None and usage.cached_tokens is not None:
        return _Hit(one, prompt, usage.cached_tokens, "usage.prompt_tokens_details.cached_tokens", ttft_ms)
    if type(own) is int:
        return _Hit(one, prompt, own, "timings.cache_n", ttft_ms)
    return _Hit(one, prompt, counted, "the engine's counters" if counted is not None else "", ttft_ms)


def _timing(cold: dict[str, _Hit], warm: list[_Hit]) -> _Timing | None:
    """One ratio a pair: its cold exchange over its first repeat."""
    ratios = []
    for hit in warm:
        if hit.one.trial_id.repeat == 1:
            start = cold.get(hit.one.trial_id.case)
            if start is None or not start.ttft_ms or not hit.ttft_ms:
                return None
            ratios.append(start.ttft_ms / hit.ttft_ms)
    if not ratios:
        return None
    logs = [math.log(ratio) for ratio in ratios]
    half = math.inf
    if len(logs) > 1:
        half = t_quantile(0.975, len(logs) - 1) * stdev(logs) / math.sqrt(len(logs))
    centre = fmean(logs)
    colds = [hit.ttft_ms for hit in cold.values() if hit.ttft_ms]
    return _Timing(
        median(colds), tuple(ratios), median(ratios), math.exp(centre - half), math.exp(min(centre + half, 700.0))
    )


def _tellable(view: EvidenceView, timing: _Timing) -> float:
    """How many times as soon a full hit could answer: cold over the time that a prompt of a few words takes."""
    base = [timeline(one).ttft_ns for one in measured(view, WARM) if one.trial_id.case == "base" and not flaw(one)]
    known = [ns / NS_PER_MS for ns in base if ns]
    return timing.cold_ms / median(known) if known else math.inf


def _figures(hits: list[_Hit], warm: list[_Hit], timing: _Timing) -> tuple[Figure, ...]:
    population = f"prompts of about {max(hit.prompt_tokens for hit in hits)} tokens, temperature 0, one stream"
    found = [
        figure(
            METRIC, timing.middle, 2, "x", n=len(timing.ratios), population=population,
            counted="TTFT of a prompt behind a fresh nonce / TTFT of its first repeat, median of the pairs",
            bounds=(timing.low, timing.high) if math.isfinite(timing.low) and timing.low > 0 else None,
            interval="t, 95 %, of the mean log ratio", spread=f"{min(timing.ratios):.2f} to {max(timing.ratios):.2f}",
        )
    ]  # fmt: skip
    told = [hit for hit in warm if hit.cached is not None]
    if told:
        least = min(told, key=lambda hit: hit.share)
        found.append(
            figure(
                "warm_cached_share", 100 * least.share, 2, "%", n=len(told), population=population,
                counted=f"smallest share of a repeated prompt, by {least.source}",
            )
        )  # fmt: skip
    return tuple(found)


def _granule(warm: list[_Hit]) -> tuple[Finding, ...]:
    cached = {hit.cached for hit in warm if hit.cached}
    if not cached:
        return ()
    granule = reduce(math.gcd, cached)
    short = max(hit.prompt_tokens - (hit.cached or 0) for hit in warm)
    told = f"; all are multiples of {granule}" if len(cached) > 1 and granule > 1 else ""
    return (
        Finding(f"hits end at most {short} tokens before the prompt does{told}", tuple(hit.one.seq for hit in warm)),
    )
