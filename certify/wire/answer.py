"""What an exchange says: its raw body read into text, reasoning, tool calls, finish reasons, usage and chunks."""

from dataclasses import dataclass, field

from certify.records import Exchange, Json, ToolCall, Usage
from certify.wire import server_error
from certify.wire.chunks import ChoiceReader
from certify.wire.hostile import LooseJson, Violations, shown
from certify.wire.server_error import ServerError
from certify.wire.sse import SseEvent, SseParser
from certify.wire.tokens import read_usage

__all__ = ["Answer", "Chunk", "ServerError", "read_answer"]

HTTP_OK = 200
HTTP_ERROR = 400


@dataclass(frozen=True, slots=True)
class Chunk:
    """One SSE event that carried a choice, in order.

    `read` indexes `Exchange.reads` (the read that completed the event). `content`, `reasoning` and `tool` say whether
    it carried such text (non-empty). `completion_tokens` is its running usage where the server sends it.
    """

    read: int
    content: bool
    reasoning: bool
    tool: bool
    completion_tokens: int | None

    @property
    def carries(self) -> bool:
        """Whether the chunk brought any output of the model."""
        return self.content or self.reasoning or self.tool


@dataclass(frozen=True, slots=True)
class Answer:
    """A chat completion, streamed or not, as the server sent it.

    `content_is_null` tells a null content from an empty one (in a stream: no delta had a content text, not even an
    empty one). `finish_reasons` holds every one seen for choice 0 (an open set). `usages` counts how many usage
    objects came that spoke of the whole (1 is right): those in chunks without choices or, where there is none, one
    for a usage that came with or after the finish reason. A running usage before that never becomes `usage`; it is in
    `Chunk.completion_tokens`. `timings` are the engine's own figures (the members of llama.cpp's `timings` and vLLM's
    `metrics`), verbatim. `violations` name each departure from the documented shape in one sentence. `truncated` says
    that the body was cut at the client's cap.
    """

    content: str = ""
    content_is_null: bool = False
    reasoning: str = ""
    reasoning_field: str = ""  # "reasoning", "reasoning_content", "both" or ""
    tool_calls: tuple[ToolCall, ...] = ()
    finish_reasons: tuple[str, ...] = ()
    usage: Usage | None = None
    usages: int = 0
    error: ServerError | None = None
    done_marker: bool = False
    chunks: tuple[Chunk, ...] = ()
    timings: dict[str, Json] = field(default_factory=dict)
    system_fingerprint: str = ""
    model: str = ""
    violations: tuple[str, ...] = ()
    truncated: bool = False

    @property
    def finish_reason(self) -> str:
        """The last finish reason, "" when none came."""
        return self.finish_reasons[-1] if self.finish_reasons else ""


def read_answer(exchange: Exchange) -> Answer:
    """The answer in an exchange; whatever is wrong with it is in the answer, nothing is raised."""
    reader = _Reader()
    if exchange.status is None and not exchange.body:
        return reader.answer(exchange)
    streamed = "event-stream" in exchange.content_type.lower()
    if not streamed and exchange.asked.stream and _looks_like_events(exchange.body):
        reader.note(f"the stream is declared as {shown(exchange.content_type)}, not as text/event-stream")
        streamed = True
    if streamed:
        _read_stream(reader, exchange)
    else:
        _read_body(reader, exchange)
    if exchange.status is not None and exchange.status != HTTP_OK and reader.error is None:
        reader.error = server_error.from_text(exchange.body, exchange.status)
    return reader.answer(exchange)


def _looks_like_events(body: bytes) -> bool:
    return body[:100].lstrip(b"\xef\xbb\xbf\r\n ").startswith((b"data:", b"event:", b":", b"id:", b"retry:"))


def _read_stream(reader: "_Reader", exchange: Exchange) -> None:
    if not exchange.asked.stream:
        reader.note("a stream came though none was asked for")
    parser, body, start, read = SseParser(), exchange.body, 0, 0
    for read, size in enumerate(exchange.reads.sizes):
        for event in parser.feed(body[start : start + size], read):
            reader.event(event)
        start += size
    for event in (*parser.feed(body[start:], read), *parser.finish()):
        reader.event(event)


def _read_body(reader: "_Reader", exchange: Exchange) -> None:
    failed = exchange.status is not None and exchange.status >= HTTP_ERROR
    try:
        value = reader.json.parse(exchange.body.decode("utf-8-sig"))
    except ValueError as error:
        if not failed:
            reader.note(f"the body is not JSON: {shown(str(error))}")
        reader.error = server_error.from_text(exchange.body, exchange.status)
        return
    if exchange.asked.stream and not failed:
        reader.note("one JSON body came though a stream was asked for")
    reader.error = server_error.from_json(value, exchange.status)
    if not failed:
        reader.whole(value)


class _Reader:
    """What has been understood so far."""

    def __init__(self) -> None:
        self._violations = Violations()
        self.note = self._violations.note
        self.json = LooseJson(self.note)
        self.error: ServerError | None = None
        self._choice = ChoiceReader(self.note)
        self._chunks: list[Chunk] = []
        self._final: list[Usage | None] = []  # usage objects in chunks without choices
        self._closing: list[Usage | None] = []  # usage objects with or after the finish reason
        self._running = -1
        self._done = False
        self._timings: dict[str, Json] = {}
        self._fingerprint = ""
        self._model = ""

    def event(self, event: SseEvent) -> None:
        """Takes in one event of a stream."""
        data = event.data.strip()
        if event.flaw:
            self.note(f"an event is {event.flaw}")
        if self._done:
            self.note(f"the stream went on after [DONE]: {shown(data)}")
            return
        if data == "[DONE]":
            self._done = True
            return
        try:
            value = self.json.parse(data)
        except ValueError as error:
            if event.name == "error":
                self.error = ServerError(None, "error", shown(data, 2000))
            elif event.flaw != "unterminated":
                self.note(f"an event is not JSON: {shown(str(error))}: {shown(data)}")
            return
        error_told = server_error.from_json(value, None, certain=event.name == "error")
        if error_told is not None:
            self.error = self.error or error_told
        elif event.name in ("", "message") or (isinstance(value, dict) and "choices" in value):
            self._chunk(value, event.stamp)

    def whole(self, value: Json) -> None:
        """Takes in the body of an answer that is not a stream."""
        if not isinstance(value, dict):
            self.note(f"the body is not a JSON object: {shown(value)}")
            return
        if self.error is not None:
            self.note("an error came with HTTP status 200")
            return
        self._facts(value)
        choice = self._own_choice(value)
        if choice is None:
            if value.get("choices") == []:
                self.note("the answer has no choice")
        else:
            self._choice.message(choice)
        if value.get("usage") is not None:
            self._final.append(read_usage(value["usage"], self.note))

    def answer(self, exchange: Exchange) -> Answer:
        """What it all comes to."""
        truncated = exchange.body_bytes > len(exchange.body)
        if truncated:
            self.note(f"the body is longer than the {len(exchange.body)} bytes that are kept")
        of_the_whole = self._final or self._closing[-1:]
        choice = self._choice
        return Answer(
            content=choice.content(),
            content_is_null=choice.seen and not choice.content_came,
            reasoning=choice.reasoning(),
            reasoning_field=choice.reasoning_field,
            tool_calls=choice.tool_calls(),
            finish_reasons=tuple(choice.finish_reasons),
            usage=of_the_whole[-1] if of_the_whole else None,
            usages=len(of_the_whole),
            error=self.error,
            done_marker=self._done,
            chunks=tuple(self._chunks),
            timings=self._timings,
            system_fingerprint=self._fingerprint,
            model=self._model,
            violations=self._violations.sentences(),
            truncated=truncated,
        )

    def _chunk(self, value: Json, read: int) -> None:
        if not isinstance(value, dict):
            self.note(f"an event is not a JSON object: {shown(value)}")
            return
        self._facts(value)
        choice = self._own_choice(value)
        carried = (False, False, False) if choice is None else self._choice.delta(choice)
        sent, usage = value.get("usage"), None
        if sent is not None:
            usage = read_usage(sent, self.note)
            self._keep_usage(usage, with_choices=bool(value.get("choices")))
        if choice is not None:
            self._chunks.append(Chunk(read, *carried, usage.completion_tokens if usage else None))

    def _keep_usage(self, usage: Usage | None, *, with_choices: bool) -> None:
        if usage is not None:
            if usage.completion_tokens < self._running:
                self.note(f"completion_tokens fell from {self._running} to {usage.completion_tokens} within the stream")
            self._running = usage.completion_tokens
        if not with_choices:
            self._final.append(usage)
        elif self._choice.finish_reasons:
            self._closing.append(usage)

    def _own_choice(self, value: dict[str, Json]) -> dict[str, Json] | None:
        choices = value.get("choices")
        if not isinstance(choices, list):
            self.note(f"choices is missing or not a list: {shown(choices)}")
            return None
        own = None
        for choice in choices:
            if not isinstance(choice, dict):
                self.note(f"a choice is not an object: {shown(choice)}")
                continue
            index = choice.get("index")
            if type(index) is not int:
                self.note(f"a choice has no index: {shown(index)}")
                index = 0
            if index != 0:
                self.note(f"a choice with index {shown(index)} came though one choice was asked for")
            elif own is not None:
                self.note("choice 0 came twice in one object")
            else:
                own = choice
        return own

    def _facts(self, value: dict[str, Json]) -> None:
        for name in ("timings", "metrics"):
            figures = value.get(name)
            if isinstance(figures, dict):
                self._timings.update(self.json.plain(figures))
        self._fingerprint = self._text(value, "system_fingerprint") or self._fingerprint
        self._model = self._text(value, "model") or self._model

    def _text(self, value: dict[str, Json], name: str) -> str:
        text = value.get(name)
        if isinstance(text, str):
            return shown(text, 200)
        if text is not None:
            self.note(f"{name} is not text: {shown(text)}")
        return ""
