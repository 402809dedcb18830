"""Evidence made by hand: exchanges with raw SSE bodies and stamps, on a schedule that a test can compute from."""

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path

from certify.evidence import EvidenceView, EvidenceWriter, Header
from certify.plan import SCHEMA, Plan, PlanContext, PlannedGate
from certify.records import Arm, Asked, Event, Exchange, Failure, Reads, Sample, Thinking, Trial

MS = 1_000_000


def event(value) -> bytes:
    return b"data: " + json.dumps(value).encode() + b"\n\n"


def chunk(text="", *, finish=None, completion_tokens=None) -> bytes:
    value = {"choices": [{"index": 0, "delta": {"content": text} if text else {}, "finish_reason": finish}]}
    if completion_tokens is not None:
        value["usage"] = {"prompt_tokens": 10, "completion_tokens": completion_tokens}
    return event(value)


def usage_event(prompt, completion, *, cached=None, timings=None) -> bytes:
    usage = {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}
    if cached is not None:
        usage["prompt_tokens_details"] = {"cached_tokens": cached}
    return event({"choices": [], "usage": usage, **({"timings": timings} if timings else {})})


def exchange(
    reads: Iterable[tuple[bytes, int]],
    *,
    ended_ns,
    status=200,
    failure: Failure | None = None,
    stream=True,
    max_tokens=64,
) -> Exchange:
    """The exchange whose body came in these (bytes, ns) reads."""
    reads = list(reads)
    body = b"".join(raw for raw, _ in reads)
    return Exchange(
        asked=Asked(stream, max_tokens, Thinking.OFF, None, True, (), "", False),
        request_sha256="0" * 64,
        request_body="",
        request_bytes=100,
        sent_at_us=1,
        status=status,
        content_type="text/event-stream" if stream else "application/json",
        body=body,
        body_bytes=len(body),
        body_sha256=hashlib.sha256(body).hexdigest(),
        reads=Reads(tuple(len(raw) for raw, _ in reads), tuple(at for _, at in reads)),
        headers_ns=reads[0][1] if reads else None,
        ended_ns=ended_ns,
        failure=failure,
    )


def streamed(
    tokens,
    *,
    ttft_ms=100,
    step_ms=10,
    per_chunk=1,
    running=False,
    prompt=50,
    cached=None,
    said=None,
    words=("alpha", "beta", "gamma", "delta"),
    usage=True,
    finish="length",
    timings=None,
    merged=False,
) -> Exchange:
    """A stream of `tokens` tokens: the first chunk after `ttft_ms`, then one every `step_ms`; usage says `said`.

    `running` puts completion_tokens into every chunk; `merged` delivers everything in two reads at the end.
    """
    reads, at = [], ttft_ms * MS
    for place, first in enumerate(range(0, tokens, per_chunk)):
        done = min(first + per_chunk, tokens)
        at = (ttft_ms + place * step_ms) * MS
        reads.append((chunk(words[place % len(words)] + " ", completion_tokens=done if running else None), at))
    if finish:
        reads.append((chunk(finish=finish), at))
    if usage:
        reads.append((usage_event(prompt, said or tokens, cached=cached, timings=timings), at))
    reads.append((b"data: [DONE]\n\n", at))
    if merged:
        half = len(reads) // 2
        reads = [(b"".join(raw for raw, _ in part), at) for part in (reads[:half], reads[half:])]
    return exchange(reads, ended_ns=at)


def said(text, *, prompt, cached=None, ttft_ms=50, finish="stop") -> Exchange:
    """A streamed answer of one chunk with this text."""
    at = ttft_ms * MS
    body = (chunk(text) if text else b"") + chunk(finish=finish) + usage_event(prompt, 5, cached=cached)
    return exchange([(body + b"data: [DONE]\n\n", at)], ended_ns=at)


def whole(prompt, *, status=200) -> Exchange:
    """An answer that is not a stream, with this many prompt tokens."""
    body = {
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "Yes"}, "finish_reason": "length"}],
        "usage": {"prompt_tokens": prompt, "completion_tokens": 1, "total_tokens": prompt + 1},
    }
    return exchange([(json.dumps(body).encode(), 5 * MS)], ended_ns=5 * MS, status=status, stream=False)


def context(profile="demo", *, declared=None, context_tokens=8192, budget_s=None) -> PlanContext:
    return PlanContext(profile, "seed", "", context_tokens, "generic", None, declared or {}, False, budget_s)


def plan(gates: Iterable[PlannedGate], *, declared=None) -> Plan:
    return Plan(
        schema=SCHEMA, suite_version="0", registry_version="0", judge_version="1", profile="demo", arm=Arm.SERVED,
        base_url="http://127.0.0.1:1", spec_off_url="", model="m", engine="generic", seed="seed", challenge="",
        thresholds_set="demo", thresholds_sha256="0" * 64, declared=declared or {}, context_tokens=8192,
        gates=tuple(gates), absent=(), attached={}, diagnostic=(), locked_at_us=0,
    )  # fmt: skip


def evidence(folder: Path, records: Iterable[Trial | Sample | Event]) -> EvidenceView:
    """A chain that holds these records."""
    path = folder / "evidence.jsonl"
    path.unlink(missing_ok=True)
    kinds = {Trial: "trial", Sample: "sample", Event: "event"}
    with EvidenceWriter.create(path, Header(1, "run-1", "0", "http://127.0.0.1:1", {})) as writer:
        for record in records:
            getattr(writer, kinds[type(record)])(record)
    return EvidenceView(path)
