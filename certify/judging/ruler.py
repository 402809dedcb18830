"""PRE-RULER-01: the instrument against an emitter whose every send is stamped by itself."""

from collections.abc import Sequence
from dataclasses import dataclass

from certify.evidence import EvidenceView
from certify.judging.reading import Seen, counted, evidence_of, exact, many, missing, unanswered
from certify.plan import Plan
from certify.records import Figure, Finding, Outcome, Verdict
from certify.stats import quantile
from certify.thresholds import Thresholds, toml_to_paste
from certify.wire.emissions import read_emissions

REQUIREMENT = "PRE-RULER-01"
RULE = (
    "the largest error of the decode window and the 99th percentile of the error of TTFT over all emitted streams stay "
    "within their ceilings; this calibrates the instrument on loopback, not the network between it and a deployment"
)


@dataclass(frozen=True, slots=True)
class _Error:
    """How far the client's reading of one stream lies from the emitter's own account."""

    seq: int
    window: float  # client over truth, minus one
    ttft_ns: int
    kernel: bool


def judge_ruler(view: EvidenceView, plan: Plan, thresholds: Thresholds) -> Verdict:
    """PASS when the ruler's own errors stay within the ceilings; void streams make it an ERROR."""
    seen = tuple(counted(view, REQUIREMENT))
    errors: list[_Error] = []
    void: list[Finding] = []
    for one in seen:
        measured = _measure(one)
        if isinstance(measured, _Error):
            errors.append(measured)
        else:
            void.append(Finding(f"{one.name}: {measured}", one.evidence))
    gaps = missing(plan, REQUIREMENT, seen)
    if void or gaps or not errors:
        told = void[0].text if void else f"{many(len(gaps), 'planned stream')} missing from the evidence"
        return Verdict(
            REQUIREMENT,
            Outcome.ERROR,
            f"the ruler could not be calibrated: {told}",
            rule=RULE,
            findings=tuple(void[:20]),
            cause="the emitter's stream did not reach the client whole",
            action="run again on a machine with a free core and loopback",
            evidence=evidence_of(seen),
        )
    return _compare(errors, evidence_of(seen), thresholds)


def _measure(one: Seen) -> _Error | str:
    """The errors of one stream, or why it is void."""
    if gap := unanswered(one):
        return gap
    told = read_emissions(one.trial.exchange.body)
    chunks = [chunk for chunk in one.answer.chunks if chunk.carries]
    if told.received_ns is None or len(told.emitted_ns) != len(chunks) or len(chunks) < 2:  # noqa: PLR2004 - a window
        return f"{len(told.emitted_ns)} chunks were emitted, {len(chunks)} were read"
    if one.answer.usage is None or one.answer.usage.completion_tokens != sum(told.tokens):
        return f"{sum(told.tokens)} tokens were emitted, `usage` as read says {one.answer.usage}"
    reads = one.trial.exchange.reads
    kernel = bool(reads.kernel_ns)
    stamps = reads.kernel_ns if kernel else reads.user_ns
    first, last = stamps[chunks[0].read], stamps[chunks[-1].read]
    truth = told.emitted_ns[-1] - told.emitted_ns[0]
    if truth <= 0:
        return "the emitter's stamps do not rise"
    return _Error(one.seq, (last - first) / truth - 1, first - (told.emitted_ns[0] - told.received_ns), kernel)


def _compare(errors: Sequence[_Error], evidence: tuple[int, ...], thresholds: Thresholds) -> Verdict:
    worst = max(errors, key=lambda error: abs(error.window))
    late = max(errors, key=lambda error: abs(error.ttft_ns))
    stamps = "kernel" if all(error.kernel for error in errors) else "user-space"
    window = Figure(
        "decode_rate_error",
        round(abs(worst.window) * 1e6),
        4,
        "%",
        len(errors),
        f"largest relative error of the time from first to last chunk, {stamps} receive stamps against the emitter's",
        population="emitted streams on loopback, one at a time",
        spread=f"all: {' '.join(f'{error.window:+.4%}' for error in errors)}",
    )
    ttft = Figure(
        "ttft_error_p99",
        round(quantile([abs(error.ttft_ns) for error in errors], 0.99) / 1e3),
        3,
        "ms",
        len(errors),
        f"99th percentile of the error of TTFT, {stamps} receive stamps against the emitter's",
        population="emitted streams on loopback, one at a time",
        spread=f"all: {' '.join(f'{error.ttft_ns / 1e6:+.3f}' for error in errors)} ms",
    )
    bounds = [thresholds.bound(REQUIREMENT, figure.name) for figure in (window, ttft)]
    absent = [figure for figure, bound in zip((window, ttft), bounds, strict=True) if bound is None]
    over = [
        (figure, bound)
        for figure, bound in zip((window, ttft), bounds, strict=True)
        if bound is not None and exact(figure) > exact(bound)
    ]
    if over:
        outcome = Outcome.FAIL
        summary = "; ".join(f"{figure.name} {figure}, {bound} required" for figure, bound in over)
    elif absent:
        outcome = Outcome.INCONCLUSIVE
        summary = f"no ceiling for {' and '.join(figure.name for figure in absent)}"
    else:
        outcome = Outcome.PASS
        summary = f"decode window within {window}, TTFT within {ttft} at the 99th percentile"
    pastes = [toml_to_paste(REQUIREMENT, one.name, "ceiling", 2 * one.scaled, one.decimals, "…") for one in absent]
    return Verdict(
        REQUIREMENT,
        outcome,
        summary,
        rule=RULE,
        figures=(window, ttft),
        bounds=tuple(bound for bound in bounds if bound is not None),
        findings=tuple(
            Finding(f"largest error of the {what}", (error.seq,))
            for what, error in (("decode window", worst), ("TTFT", late))
        ),
        cause="the client machine is busy: its scheduler delays reads; the deployment has no part in this"
        if over
        else "",
        action="free one core of the machine that runs the suite, then run again" if over else "\n".join(pastes),
        evidence=evidence,
    )
