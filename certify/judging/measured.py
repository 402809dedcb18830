"""Raw exchanges as measurements: the answer re-read, its timeline in nanoseconds, and what makes it no measurement."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from certify.evidence import EvidenceView
from certify.judging.reading import HTTP_OK, interrupted, planned_id, quote, read
from certify.records import Exchange, Figure, Finding, Json, Outcome, TrialId
from certify.wire.answer import Answer, Chunk
from certify.wire.timing import stamps_ns

NS_PER_S = 1_000_000_000
NS_PER_MS = 1_000_000
HTTP_TOO_MANY = 429
HTTP_SERVER_ERROR = 500

# A decode window thinner than this says more about delivery than about decoding: after a prompt of 1,010,530 tokens
# a real vLLM 0.26.0 sent 16 tokens as two chunks 0.6 ms apart, "24,752 tok/s" (its own figure was 162).
MIN_WINDOW_CHUNKS = 8
MIN_WINDOW_NS = 50 * NS_PER_MS
MERGED_READS = 2
MERGED_TOKENS = 16


@dataclass(frozen=True, slots=True)
class Measured:
    """One trial as its judge sees it; `trial_id.repeat` is the planned one, also where a replacement carried it out."""

    seq: int
    trial_id: TrialId
    recipe: Mapping[str, Json]
    exchange: Exchange
    answer: Answer


def measured(view: EvidenceView, requirement: str) -> list[Measured]:
    """Every exchange that serves a requirement, in order, but those that an interruption cut (others replaced them)."""
    return [
        Measured(seq, planned_id(trial.trial_id), trial.recipe, trial.exchange, read(trial.exchange))
        for seq, trial in view.trials(requirement)
        if not interrupted(trial)
    ]


@dataclass(frozen=True, slots=True)
class Flaw:
    """Why an exchange is no measurement: FAIL when the deployment broke it, ERROR when it cannot be measured."""

    outcome: Outcome
    text: str
    seq: int
    quote: str = ""

    def finding(self) -> Finding:
        """The flaw as an observation behind a verdict."""
        return Finding(self.text, (self.seq,), self.quote)


def flaw(one: Measured) -> Flaw | None:  # noqa: PLR0911 - one return a reason reads best
    """What makes this exchange unusable, or None. A failed request is a FAIL, never a dropped trial."""
    exchange, answer = one.exchange, one.answer
    error = answer.error
    shown = quote(error.message) if error else ""
    if exchange.failure is not None:
        return Flaw(Outcome.FAIL, f"the exchange broke ({exchange.failure.kind.value})", one.seq, shown)
    status = exchange.status
    if status is None or status == HTTP_TOO_MANY or status >= HTTP_SERVER_ERROR:
        return Flaw(Outcome.FAIL, f"the deployment failed the request: HTTP status {status}", one.seq, shown)
    if status != HTTP_OK:
        return Flaw(Outcome.ERROR, f"the deployment refused the request: HTTP status {status}", one.seq, shown)
    if error is not None:
        return Flaw(Outcome.FAIL, "the answer broke off with an error after HTTP status 200", one.seq, shown)
    if not answer.finish_reason:
        return Flaw(Outcome.FAIL, "the answer stopped without a finish reason", one.seq)
    if answer.usage is None:
        return Flaw(Outcome.ERROR, "the answer has no usage: its tokens cannot be counted", one.seq)
    return None


def worst(flaws: list[Flaw]) -> Outcome:
    """FAIL where any exchange failed, else ERROR."""
    return Outcome.FAIL if any(one.outcome is Outcome.FAIL for one in flaws) else Outcome.ERROR


@dataclass(frozen=True, slots=True)
class Timeline:
    """When the output of one streamed answer came, and how many of its tokens lie in the decode window.

    The window runs from the read with the first output to the read with the last. `tokens_low` and `tokens_high`
    bound the tokens that came after the first read: equal where the server tells running counts or sends one token a
    chunk. `void` says why the window is no measurement ("" when it is one).
    """

    ttft_ns: int | None
    window_ns: int
    tokens_low: int
    tokens_high: int
    void: str


def timeline(one: Measured) -> Timeline:
    """The timeline by kernel receive stamps where there are any, else by those of the client."""
    stamps = stamps_ns(one.exchange)
    chunks = [chunk for chunk in one.answer.chunks if chunk.carries and chunk.read < len(stamps)]
    if not chunks:
        return Timeline(None, 0, 0, 0, "no output came as a stream")
    first, last = stamps[chunks[0].read], stamps[chunks[-1].read]
    total = one.answer.usage.completion_tokens if one.answer.usage else 0
    low, high = _window_tokens(chunks, total, one.answer.timings)
    return Timeline(first, last - first, low, high, _window_void(chunks, last - first, total))


def _window_tokens(chunks: list[Chunk], total: int, timings: Mapping[str, Json]) -> tuple[int, int]:
    in_first = [chunk for chunk in chunks if chunk.read == chunks[0].read]
    before, after = in_first[-1].completion_tokens, chunks[-1].completion_tokens
    if before is not None and after is not None:
        return after - before, after - before
    one_a_chunk = "predicted_n" in timings and not timings.get("draft_n")  # llama.cpp without drafts
    later = len(chunks) - len(in_first)  # each chunk brings at least one token
    most = max(total - len(in_first), 0)
    return (most, most) if one_a_chunk else (min(later, most), most)


def _window_void(chunks: list[Chunk], window_ns: int, total: int) -> str:
    reads = len({chunk.read for chunk in chunks})
    if reads <= MERGED_READS and total >= MERGED_TOKENS:
        return f"{total} tokens arrived in {reads} reads: the delivery was merged"
    if len(chunks) < MIN_WINDOW_CHUNKS:
        return f"{len(chunks)} chunks with output; {MIN_WINDOW_CHUNKS} are needed"
    if window_ns < MIN_WINDOW_NS:
        return f"the output spans {window_ns / NS_PER_MS:.1f} ms; {MIN_WINDOW_NS // NS_PER_MS} ms are needed"
    return ""


def server_rate(answer: Answer) -> float | None:
    """The engine's own decode rate in tok/s, from llama.cpp `timings` or vLLM `metrics`; None where it sends neither.

    vLLM's `tokens_per_second` is not it: that one divides by the time to first token as well.
    """
    rate, gap_ms = answer.timings.get("predicted_per_second"), answer.timings.get("mean_itl_ms")
    if isinstance(rate, int | float) and not isinstance(rate, bool) and math.isfinite(rate) and rate > 0:
        return float(rate)
    if isinstance(gap_ms, int | float) and not isinstance(gap_ms, bool) and math.isfinite(gap_ms) and gap_ms > 0:
        return 1000.0 / gap_ms
    return None


def degenerate(text: str) -> str:
    """Why a text cannot be an honest answer of many tokens ("" when it can): empty, or one word or sign throughout."""
    words = text.split()
    signs = set("".join(words))
    if not words:
        return "the text is empty"
    if len(signs) <= 2 and len("".join(words)) >= 32:  # noqa: PLR2004 - "!!!!…", or one sign and its space
        return f"the text is {len(''.join(words))} times the same sign"
    if len(set(words)) == 1 and len(words) >= 8:  # noqa: PLR2004 - shorter answers may repeat a word
        return f"the text is {len(words)} times the same word"
    return ""


def scaled(value: float, decimals: int) -> int:
    """A measured number as the integer that a figure holds."""
    return round(value * 10.0**decimals)


def figure(
    name: str,
    value: float,
    decimals: int,
    unit: str,
    *,
    n: int,
    counted: str,
    population: str = "",
    half_width: float | None = None,
    bounds: tuple[float, float] | None = None,
    interval: str = "",
    spread: str = "",
) -> Figure:
    """A figure from measured numbers; its interval is `bounds`, or the value and `half_width` on both sides."""
    if half_width is not None and math.isfinite(half_width):
        bounds = (value - half_width, value + half_width)
    low, high = (scaled(bounds[0], decimals), scaled(bounds[1], decimals)) if bounds else (None, None)
    return Figure(
        name,
        scaled(value, decimals),
        decimals,
        unit,
        n,
        counted,
        population,
        low,
        high,
        interval if bounds else "",
        spread,
    )


def with_uncertainty(value: float, half_width: float) -> str:
    """A value and its uncertainty, rounded to two digits of the latter: '65.8 ± 1.3'."""
    if not math.isfinite(half_width) or half_width <= 0:
        return f"{value:.4g}"
    places = max(0, 1 - math.floor(math.log10(half_width)))
    return f"{value:.{places}f} ± {half_width:.{places}f}"


def text(parameters: Mapping[str, Json], name: str) -> str:
    """A text among the parameters of a planned gate, "" where it has none."""
    value = parameters.get(name)
    return value if isinstance(value, str) else ""
