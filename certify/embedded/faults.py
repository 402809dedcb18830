"""The catalogue of lies: what a deployment may do wrong between client and engine, and which requirement must see it.

Each fault bends the traffic of a healthy deployment (`certify.embedded.proxy`). `fails` are the requirements that must
FAIL; `unproven` those that may not PASS, because what would prove them is missing.
"""

import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from certify.embedded.lies import (
    REASONING,
    AfterSomeText,
    Body,
    CutError,
    Lie,
    SilentError,
    delta_of,
    finish_of,
    retotalled,
    text_of,
    with_cached,
    with_delta,
)


@dataclass(frozen=True, slots=True)
class Fault:
    """A named lie (or, with nothing to fail, an oddity that is healthy); `off_arm` belongs into the other arm."""

    name: str
    lie: str
    fails: tuple[str, ...]
    unproven: tuple[str, ...]
    off_arm: bool
    make: Callable[[int, Body], Lie]


_FAULTS: dict[str, Fault] = {}
_HEALTHY: dict[str, Fault] = {}


def _fault(
    name: str, *, fails: tuple[str, ...] = (), unproven: tuple[str, ...] = (), off_arm: bool = False
) -> Callable[[type[Lie]], type[Lie]]:
    def enter(lie: type[Lie]) -> type[Lie]:
        book = _FAULTS if fails or unproven else _HEALTHY
        book[name] = Fault(name, (lie.__doc__ or "").strip(), fails, unproven, off_arm, lie)
        return lie

    return enter


# --- usage ---------------------------------------------------------------------------------------------------------


@_fault("usage-missing", unproven=("PRE-CONTRACT-01", "PRE-CONTRACT-02", "PERF-C1-01"))
class _UsageMissing(Lie):
    """No answer says how many tokens it has."""

    def usage(self, usage: Body) -> Body | None:
        del usage
        return None


@_fault("usage-total-wrong", fails=("PRE-CONTRACT-01", "PRE-CONTRACT-02", "QUAL-ENV-01"))
class _UsageTotalWrong(Lie):
    """The total is one token more than prompt and completion together."""

    def usage(self, usage: Body) -> Body | None:
        return {**usage, "total_tokens": usage["prompt_tokens"] + usage["completion_tokens"] + 1}


@_fault("usage-counts-chunks", fails=("PRE-CONTRACT-02",))
class _UsageCountsChunks(Lie):
    """Tokens are sent two by two, and `usage` counts what was sent."""

    def __init__(self, number: int, memory: Body) -> None:
        super().__init__(number, memory)
        self._sent = 0
        self._held: Body | None = None

    def usage(self, usage: Body) -> Body | None:
        return retotalled({**usage, "completion_tokens": self._sent}) if self.asked.get("stream") else usage

    def chunk(self, chunk: Body) -> list[Body]:
        held, self._held = self._held, None
        texts = {name: text for name, text in delta_of(chunk).items() if name in ("content", *REASONING) and text}
        goes_on = bool(texts) and not finish_of(chunk)
        if goes_on and held is None:
            self._held = chunk
            return []
        sent = [chunk] if held is None else [held, chunk]
        if goes_on and held is not None:
            first = delta_of(held)
            both = {**first, **{name: (first.get(name) or "") + text for name, text in texts.items()}}
            sent = [with_delta(chunk, both)]
        return [self._counted(one) for one in sent]

    def _counted(self, chunk: Body) -> Body:
        self._sent += bool(text_of(chunk))
        return self.counts(chunk)


@_fault("prompt-tokens-off-by-one", unproven=("LCTX-USAGE-01",))
class _PromptTokensOffByOne(Lie):
    """Every second prompt is counted one token too long."""

    def usage(self, usage: Body) -> Body | None:
        return retotalled({**usage, "prompt_tokens": usage["prompt_tokens"] + self.number % 2})


@_fault("context-cut", fails=("LCTX-USAGE-01",))
class _ContextCut(Lie):
    """Of a long prompt only the last 4,000 characters reach the engine, and nobody is told."""

    KEPT = 4_000

    def request(self, body: Body) -> Body:
        messages = [
            {**message, "content": message["content"][-self.KEPT :]} if type(message.get("content")) is str else message
            for message in body.get("messages", ())
        ]
        return {**body, "messages": messages}


# --- streams and errors --------------------------------------------------------------------------------------------


@_fault("stream-cut", fails=("PRE-CONTRACT-01", "PRE-CONTRACT-02"))
class _StreamCut(AfterSomeText):
    """The connection ends in the middle of the stream."""

    def strike(self) -> list[Body]:
        raise CutError


@_fault("silence-midway", fails=("PRE-CONTRACT-01", "PRE-CONTRACT-02"))
class _SilenceMidway(AfterSomeText):
    """In the middle of the stream nothing more comes, and the connection stays open."""

    def strike(self) -> list[Body]:
        raise SilentError


@_fault("error-after-200", fails=("PRE-CONTRACT-01", "PRE-CONTRACT-02"))
class _ErrorAfter200(AfterSomeText):
    """A stream that began with status 200 ends with an error event and the end marker."""

    def __init__(self, number: int, memory: Body) -> None:
        super().__init__(number, memory)
        self._told = False

    def strike(self) -> list[Body]:
        if self._told:
            return []
        self._told = True
        error = {"message": "EngineCore died", "type": "InternalServerError", "param": None, "code": 500}
        return [{"error": error}]


@_fault("html-500", fails=("PRE-CONTRACT-01", "PRE-CONTRACT-02"))
class _Html500(Lie):
    """A gateway answers every chat but the first with status 500 and a page for people."""

    def instead(self) -> tuple[int, str, bytes] | None:
        if self.number < 1:  # else the run refuses the deployment before any gate
            return None
        return 500, "text/html", b"<html><body><h1>502 Bad Gateway</h1><script>alert(1)</script></body></html>"


@_fault("hang", fails=("PRE-CONTRACT-01", "PRE-CONTRACT-02"))
class _Hang(Lie):
    """No chat but the first is ever answered."""

    def instead(self) -> tuple[int, str, bytes] | None:
        if self.number < 1:  # else the run refuses the deployment before any gate
            return None
        raise SilentError


# --- identity ------------------------------------------------------------------------------------------------------


@_fault("model-name-changes", fails=("PRE-IDENT-01",))
class _ModelNameChanges(Lie):
    """After some requests another model's name stands in the answers."""

    STEADY_REQUESTS = 4

    def chunk(self, chunk: Body) -> list[Body]:
        return [self.whole(chunk)]

    def whole(self, answer: Body) -> Body:
        changed = self.number >= self.STEADY_REQUESTS and "model" in answer
        return {**answer, "model": f"{answer['model']}-small"} if changed else answer


# --- thinking ------------------------------------------------------------------------------------------------------


@_fault("thinking-switch-ignored", fails=("PRE-THINK-01",), unproven=("QUAL-ENV-01",))
class _ThinkingSwitchIgnored(Lie):
    """Whatever the request says about thinking is dropped on the way."""

    def request(self, body: Body) -> Body:
        return {name: value for name, value in body.items() if name not in ("chat_template_kwargs", "reasoning_effort")}


@_fault("thinking-leaks", fails=("PRE-THINK-01", "QUAL-ENV-01", "QUAL-SCHEMA-02"))
class _ThinkingLeaks(Lie):
    """The thinking stands in the content, between its tags."""

    def __init__(self, number: int, memory: Body) -> None:
        super().__init__(number, memory)
        self._open = False

    def chunk(self, chunk: Body) -> list[Body]:
        delta = dict(delta_of(chunk))
        thought = "".join(delta.pop(name, None) or "" for name in REASONING)
        if not delta_of(chunk):
            return [chunk]
        content = delta.get("content") or ""
        if thought:
            thought = thought if self._open else f"<think>\n{thought}"
            self._open = True
        if content and self._open:
            content, self._open = f"\n</think>\n\n{content}", False
        return [with_delta(chunk, {**delta, "content": thought + content} if thought or content else delta)]

    def whole(self, answer: Body) -> Body:
        choices = []
        for choice in answer.get("choices", ()):
            message = dict(choice["message"])
            thought = "".join(message.pop(name, None) or "" for name in REASONING)
            if thought:
                message["content"] = f"<think>\n{thought}\n</think>\n\n{message.get('content') or ''}"
            choices.append({**choice, "message": message})
        return {**answer, "choices": choices}


# --- structured output ---------------------------------------------------------------------------------------------


@_fault("schema-ignored", fails=("QUAL-SCHEMA-02",))
class _SchemaIgnored(Lie):
    """The schema is dropped on the way, and the answer has status 200."""

    def request(self, body: Body) -> Body:
        return {name: value for name, value in body.items() if name not in ("response_format", "structured_outputs")}


@_fault("fence-added", fails=("QUAL-SCHEMA-02",))
class _FenceAdded(Lie):
    """JSON under a schema comes inside a code fence."""

    BEFORE, AFTER = "```json\n", "\n```"

    def __init__(self, number: int, memory: Body) -> None:
        super().__init__(number, memory)
        self._begun = False

    def chunk(self, chunk: Body) -> list[Body]:
        if "response_format" not in self.asked or not chunk.get("choices"):
            return [chunk]
        delta = delta_of(chunk)
        text = delta.get("content") or ""
        if text and not self._begun:
            self._begun, text = True, self.BEFORE + text
        if finish_of(chunk) and self._begun:
            text += self.AFTER
        return [with_delta(chunk, {**delta, "content": text})] if text else [chunk]

    def whole(self, answer: Body) -> Body:
        if "response_format" not in self.asked:
            return answer
        choices = [
            {**choice, "message": {**choice["message"], "content": f"{self.BEFORE}{content}{self.AFTER}"}}
            if (content := choice["message"].get("content"))
            else choice
            for choice in answer.get("choices", ())
        ]
        return {**answer, "choices": choices}


# --- speed ---------------------------------------------------------------------------------------------------------


@_fault("slow", fails=("PERF-C1-01",))
class _Slow(Lie):
    """Every stream is slowed to about six tokens a second."""

    S_PER_CHARACTER = 0.025  # a token has four to five characters, also where several come in one chunk

    def chunk(self, chunk: Body) -> list[Body]:
        time.sleep(self.S_PER_CHARACTER * len(text_of(chunk)))
        return [chunk]


@_fault("buffered", unproven=("PERF-C1-01",))
class _Buffered(Lie):
    """A proxy holds every stream back and lets it go at once."""

    def frames(self, frames: Iterator[bytes]) -> Iterator[bytes]:
        yield b"".join(frames)


# --- prefix cache --------------------------------------------------------------------------------------------------


@_fault("cache-never-hits", unproven=("PERF-CACHE-01",))
class _CacheNeverHits(Lie):
    """No prompt finds the prefix cache, and `usage` says so."""

    def request(self, body: Body) -> Body:
        return {**body, "cache_prompt": False, "cache_salt": uuid.uuid4().hex}


@_fault("cache-liar-full", fails=("PERF-CACHE-02",))
class _CacheLiarFull(Lie):
    """Every prompt is said to come from the cache, cold ones too."""

    def usage(self, usage: Body) -> Body | None:
        return with_cached(usage, usage["prompt_tokens"] - 1)


@_fault("cache-liar-warm", fails=("PERF-CACHE-01",))
class _CacheLiarWarm(_CacheNeverHits):
    """Nothing is cached, and every prompt that came before is said to be."""

    def request(self, body: Body) -> Body:
        told = str(body.get("messages"))
        seen = self.memory.setdefault("seen", set())
        self._again = told in seen
        seen.add(told)
        return super().request(body)

    def usage(self, usage: Body) -> Body | None:
        return with_cached(usage, usage["prompt_tokens"] - 1 if self._again else 0)


# --- speculation ---------------------------------------------------------------------------------------------------


@_fault("speculation-off", unproven=("QUAL-SPEC-01",))
class _SpeculationOff(Lie):
    """Nothing shows that anything was drafted."""

    def timings(self, timings: Body) -> Body:
        return {name: value for name, value in timings.items() if not name.startswith("draft")}

    def metrics(self, page: str) -> str:
        return "".join(line for line in page.splitlines(keepends=True) if "spec_decode" not in line)


@_fault("speculation-in-both-arms", fails=("QUAL-SPEC-01",), off_arm=True)
class _SpeculationInBothArms(Lie):
    """The arm without speculation drafts too."""

    DRAFTED = 12

    def timings(self, timings: Body) -> Body:
        return {**timings, "draft_n": self.DRAFTED, "draft_n_accepted": 1}

    def metrics(self, page: str) -> str:
        engine = "vllm" if "vllm:" in page else "llamacpp"
        return f"{page.rstrip()}\n{engine}:spec_decode_num_draft_tokens_total {self.DRAFTED * self.number}\n"


# --- odd, but healthy ----------------------------------------------------------------------------------------------


@_fault("crlf")
class _Crlf(Lie):
    """Frames end in carriage return and line feed."""

    def frames(self, frames: Iterator[bytes]) -> Iterator[bytes]:
        return (frame.replace(b"\n", b"\r\n") for frame in frames)


@_fault("comments")
class _Comments(Lie):
    """Comments keep the stream alive between its events."""

    def frames(self, frames: Iterator[bytes]) -> Iterator[bytes]:
        return (b": keep-alive\n\n" + frame for frame in frames)


@_fault("split-anywhere")
class _SplitAnywhere(Lie):
    """Events are cut into pieces, also within a character."""

    PIECE_BYTES = 61

    def frames(self, frames: Iterator[bytes]) -> Iterator[bytes]:
        for frame in frames:
            for start in range(0, len(frame), self.PIECE_BYTES):
                yield frame[start : start + self.PIECE_BYTES]


@_fault("empty-deltas")
class _EmptyDeltas(Lie):
    """Before every chunk comes one without any text."""

    def chunk(self, chunk: Body) -> list[Body]:
        if not chunk.get("choices"):
            return [chunk]
        empty = {name: value for name, value in with_delta(chunk, {}, finish_reason=None).items() if name != "usage"}
        return [empty, chunk]


FAULTS: Mapping[str, Fault] = MappingProxyType(_FAULTS)
HEALTHY: Mapping[str, Fault] = MappingProxyType(_HEALTHY)


def fault_named(name: str) -> Fault:
    """The fault or healthy variant of that name.

    Raises:
        ValueError: there is none; the message lists them.
    """
    found = FAULTS.get(name) or HEALTHY.get(name)
    if found is None:
        raise ValueError(f"no fault {name[:80]!r}; known are {', '.join([*FAULTS, *HEALTHY])}")
    return found
