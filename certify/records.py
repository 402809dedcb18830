"""What passes between the rooms: frozen dataclasses, pure data, integers for whatever was measured.

Times are integers in nanoseconds since the request was sent, wall-clock instants integers in microseconds since the
epoch (canonical JSON holds no integer beyond 2**53). Figures are decimal: `scaled` / 10 ** `decimals`.
"""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias, Union

Json: TypeAlias = Union[bool, int, float, str, list["Json"], dict[str, "Json"], None]  # noqa: UP007 - it names itself


class Capability(StrEnum):
    """What a deployment may offer; the owner declares it in `deployment.toml`, effects prove it."""

    THINKING = "thinking"
    SPECULATION = "speculation"
    PREFIX_CACHE = "prefix-cache"
    JSON_SCHEMA = "json-schema"
    TOOLS = "tools"
    LOGPROBS = "logprobs"
    METRICS = "metrics"


class Outcome(StrEnum):
    """The verdict on one requirement (docs/METHODS.md defines each)."""

    PASS = "PASS"  # noqa: S105 - a verdict, not a password
    FAIL = "FAIL"
    INCONCLUSIVE = "INCONCLUSIVE"
    ERROR = "ERROR"
    NOT_APPLICABLE = "NOT_APPLICABLE"
    WAIVED = "WAIVED"
    NOT_RUN = "NOT_RUN"


class Level(StrEnum):
    """What a profile asks of a requirement."""

    REQUIRED = "required"  # anything but PASS or NOT_APPLICABLE prevents certification
    GUARDED = "guarded"  # a FAIL prevents certification, anything else is only shown
    REPORTED = "reported"  # shown, never decides
    ABSENT = "absent"  # not in the plan; named under "not covered"


class Thinking(StrEnum):
    """What a request says about thinking."""

    ON = "on"
    OFF = "off"
    UNSAID = "unsaid"


class Arm(StrEnum):
    """Which configuration of the deployment answered: as served, or the launch without speculation."""

    SERVED = "served"
    SPEC_OFF = "spec-off"


# --- what is asked -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Tool:
    """A function that the model may call; `parameters` is its JSON Schema."""

    name: str
    description: str
    parameters: Json


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call, reassembled from its deltas; `arguments` is the text as sent, never parsed here."""

    index: int
    call_id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a chat."""

    role: str
    content: str
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str = ""
    reasoning: str = ""


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """One chat completion to ask for, in the suite's own words; a dialect renders it for an engine.

    `tool_choice` is "", "auto", "none", "required" or the name of a tool. `schema` is a JSON Schema that the answer
    must obey, `regex` a pattern; at most one of the two. `thinking_budget_tokens` caps the thinking where the engine
    has a field for it.
    """

    messages: tuple[Message, ...]
    max_tokens: int
    stream: bool = True
    thinking: Thinking = Thinking.UNSAID
    thinking_budget_tokens: int | None = None
    temperature: float = 0.0
    seed: int | None = None
    tools: tuple[Tool, ...] = ()
    tool_choice: str = ""
    schema: Json = None
    schema_name: str = ""
    regex: str = ""
    stop: tuple[str, ...] = ()
    ignore_eos: bool = False
    cache_salt: str = ""


# --- what happened -----------------------------------------------------------------------------------------------


class FailureKind(StrEnum):
    """Why an exchange did not end as HTTP; an HTTP error status is an answer, not a failure."""

    CONNECT = "connect"  # refused, unresolvable, TLS
    CONNECT_TIMEOUT = "connect-timeout"
    FIRST_BYTE_TIMEOUT = "first-byte-timeout"  # nothing came within the first-token deadline
    SILENCE = "silence"  # the answer began, then nothing came within the silence deadline
    DEADLINE = "deadline"  # the whole exchange outlasted its deadline
    BROKEN = "broken"  # the connection ended before HTTP said so
    PROTOCOL = "protocol"  # the peer does not speak HTTP
    INTERRUPTED = "interrupted"  # the run was stopped while the exchange ran


@dataclass(frozen=True, slots=True)
class Failure:
    """How an exchange broke: its kind, and one line for a person."""

    kind: FailureKind
    message: str


@dataclass(frozen=True, slots=True)
class Reads:
    """The socket reads that carried the body: three arrays of one length, in order of arrival.

    `sizes` are body bytes (after HTTP de-chunking), `user_ns` when the client had them, `kernel_ns` when the kernel
    did (empty where the platform gives no receive stamps); both in ns since the request was sent.
    """

    sizes: tuple[int, ...] = ()
    user_ns: tuple[int, ...] = ()
    kernel_ns: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Asked:
    """The facts of a request that laws and judges need, kept even where its body is too long to keep."""

    stream: bool
    max_tokens: int
    thinking: Thinking
    thinking_budget_tokens: int | None
    ignore_eos: bool
    tools: tuple[str, ...]
    tool_choice: str
    constrained: bool


@dataclass(frozen=True, slots=True)
class Exchange:
    """One request and all of its answer, raw, with its timeline.

    `request_body` is the wire body, or "" when it is longer than 64 KiB (then `request_sha256` and the recipe of the
    trial say how to make it again). `body` is the answer's body as received, cut at the client's cap: `body_bytes`
    and `body_sha256` speak of the whole. `status` is None when no status line came.
    """

    asked: Asked
    request_sha256: str
    request_body: str
    request_bytes: int
    sent_at_us: int
    status: int | None
    content_type: str
    body: bytes
    body_bytes: int
    body_sha256: str
    reads: Reads
    headers_ns: int | None
    ended_ns: int
    failure: Failure | None = None


@dataclass(frozen=True, slots=True)
class TrialId:
    """Which planned execution this is; the repeat of an interrupted trial has a new `repeat`."""

    requirement: str
    case: str
    arm: Arm
    repeat: int


@dataclass(frozen=True, slots=True)
class Trial:
    """An exchange in its place: what it was for, how its request is made again, and what came.

    `serves` names every requirement whose judge reads this trial, `trial_id.requirement` among them. A warm-up trial
    is kept and never counted. `recipe` are the parameters that regenerate the request and its truth (JSON object).
    """

    trial_id: TrialId
    serves: tuple[str, ...]
    warm_up: bool
    recipe: dict[str, Json]
    exchange: Exchange


@dataclass(frozen=True, slots=True)
class Probe:
    """One unscored question to the deployment (a GET or a tiny POST), raw: what preflight saw."""

    name: str
    method: str
    path: str
    status: int | None
    content_type: str
    body: str
    elapsed_ns: int
    failure: Failure | None = None


@dataclass(frozen=True, slots=True)
class Sample:
    """Raw lines of the deployment's own counters (Prometheus text, filtered to families that the suite reads)."""

    name: str
    arm: Arm
    at_us: int
    status: int | None
    text: str


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened to the run itself: a gate that ended, a torn line, a signal, a diagnostic option."""

    name: str
    requirement: str = ""
    detail: dict[str, Json] = field(default_factory=dict)


# --- what it means (derived; never read by a judge) ---------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Usage:
    """Token counts as the server sent them; None where it did not send the field."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int | None = None
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Figure:
    """One number with all that makes it a measurement: unit, n, interval, population, how it was counted."""

    name: str
    scaled: int
    decimals: int
    unit: str
    n: int
    counted: str
    population: str = ""
    low_scaled: int | None = None
    high_scaled: int | None = None
    interval: str = ""
    spread: str = ""

    def __str__(self) -> str:
        return f"{decimal(self.scaled, self.decimals)} {self.unit}".rstrip()


def decimal(scaled: int, decimals: int) -> str:
    """An exact decimal: 44000 with 3 decimals is '44.000'."""
    sign, digits = ("-" if scaled < 0 else ""), str(abs(scaled)).rjust(decimals + 1, "0")
    return sign + (f"{digits[:-decimals]}.{digits[-decimals:]}" if decimals else digits)


@dataclass(frozen=True, slots=True)
class Bound:
    """A threshold as it was applied: its kind ("floor" or "ceiling"), value, unit, and where it comes from."""

    metric: str
    kind: str
    scaled: int
    decimals: int
    unit: str
    source: str
    threshold_set: str

    def __str__(self) -> str:
        return f"{self.kind} {decimal(self.scaled, self.decimals)} {self.unit}".rstrip()


@dataclass(frozen=True, slots=True)
class Finding:
    """One observation behind a verdict, in one sentence, with the evidence sequence numbers that show it.

    `quote` is raw text of the deployment (capped); whoever renders it must treat it as hostile.
    """

    text: str
    evidence: tuple[int, ...] = ()
    quote: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The judge's word on one requirement: pure function of evidence and thresholds.

    `summary` says measured against required in one sentence; `rule` names the decision rule and what it proves;
    `cause` and `action` are what a tired person reads at 3 a.m. `evidence` are sequence numbers, ascending.
    """

    requirement: str
    outcome: Outcome
    summary: str
    rule: str = ""
    figures: tuple[Figure, ...] = ()
    bounds: tuple[Bound, ...] = ()
    findings: tuple[Finding, ...] = ()
    cause: str = ""
    action: str = ""
    evidence: tuple[int, ...] = ()
