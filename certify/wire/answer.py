"""What an exchange says: its raw body read into text, reasoning, tool calls, finish reasons, usage and chunks."""

from dataclasses import dataclass, field

from certify.records import Exchange, Json, ToolCall, Usage


@dataclass(frozen=True, slots=True)
class ServerError:
    """An error as the server told it, whatever its shape: HTTP status or code in the stream, type, message."""

    code: int | None
    type: str
    message: str


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

    `content_is_null` tells a null content from an empty one. `finish_reasons` holds every one seen for choice 0 (an
    open set). `usages` counts how many usage objects came that spoke of the whole (1 is right). `timings` are the
    engine's own figures (llama.cpp `timings`, vLLM `metrics`), verbatim. `violations` name each departure from the
    documented shape in one sentence. `truncated` says that the body was cut at the client's cap.
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
    raise NotImplementedError
