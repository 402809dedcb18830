"""What the ruler's emitter was told to send and what it says it sent: its schedule, and the stamps in its chunks."""

import json
import re
from dataclasses import dataclass

from certify.records import Json

EMITTED_NS = "x_emitted_ns"
EMITTED_US = "x_emitted_us"
RECEIVED_NS = "x_received_ns"
TOKENS = "x_tokens"

MAX_CHUNKS = 1_000_000
_PATH = re.compile(r"/s/(\d{1,12})-(\d{1,12})-(\d{1,6})-(\d{1,7})(?=/|$)")


@dataclass(frozen=True, slots=True)
class Schedule:
    """A stream whose truth is known: the first chunk `ttft_us` after the request, then one every `itl_us`.

    `chunks` chunks come, of `tokens_per_chunk` tokens each, unless the request's `max_tokens` ends them before.
    """

    ttft_us: int
    itl_us: int
    tokens_per_chunk: int = 1
    chunks: int = 200

    def __post_init__(self) -> None:
        if self.ttft_us < 0 or self.itl_us < 0 or self.tokens_per_chunk < 1 or not 1 <= self.chunks <= MAX_CHUNKS:
            raise ValueError(f"not a schedule: {self!r}; times from 0, tokens from 1, chunks from 1 to {MAX_CHUNKS}")

    @property
    def path(self) -> str:
        """The path prefix under which an emitter serves this schedule."""
        return f"/s/{self.ttft_us}-{self.itl_us}-{self.tokens_per_chunk}-{self.chunks}"

    @property
    def decode_tok_s(self) -> float:
        """Tokens after the first chunk over the time that they take, in tokens per second (infinite at 0 µs)."""
        return self.tokens_per_chunk * 1e6 / self.itl_us if self.itl_us else float("inf")


def schedule_of(path: str) -> Schedule | None:
    """The schedule that a request path names, or None."""
    found = _PATH.match(path)
    if not found:
        return None
    try:
        return Schedule(*(int(part) for part in found.groups()))
    except ValueError:
        return None


@dataclass(frozen=True, slots=True)
class Emissions:
    """The emitter's own account of one stream, in ns on its monotonic clock (zero is its start).

    `received_ns` is when it had read the whole request; `emitted_ns[i]` is taken right before the send of the i-th
    chunk that carries tokens, `tokens[i]` how many. Only differences mean anything to another process.
    `emitted_us` are the same instants on the wall clock, in µs since the epoch.
    """

    received_ns: int | None
    emitted_ns: tuple[int, ...]
    emitted_us: tuple[int, ...]
    tokens: tuple[int, ...]


def _stamped(line: bytes) -> dict[str, Json] | None:
    if not line.startswith(b"data:") or EMITTED_NS.encode() not in line:
        return None
    try:
        event = json.loads(line[5:])
    except (ValueError, RecursionError):
        return None
    return event if isinstance(event, dict) else None


def read_emissions(body: bytes) -> Emissions:
    """The stamps in the body of an emitter's stream; what carries none is passed over, nothing is raised."""
    received: int | None = None
    rows: list[tuple[int, int, int]] = []
    for line in body.splitlines():
        event = _stamped(line)
        if event is None:
            continue
        row = tuple(event.get(key) for key in (EMITTED_NS, EMITTED_US, TOKENS))
        match row, event.get(RECEIVED_NS):
            case (int(ns), int(us), int(tokens)), int(came):
                received = came if received is None else received
                rows.append((ns, us, tokens))
    ns_, us_, tokens_ = zip(*rows, strict=True) if rows else ((), (), ())
    return Emissions(received, ns_, us_, tokens_)
