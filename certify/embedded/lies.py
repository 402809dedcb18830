"""What a fault may change on the way between client and deployment: one `Lie` speaks for one request."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, ClassVar

Body = dict[str, Any]
REASONING = ("reasoning", "reasoning_content")


class CutError(Exception):
    """The connection ends here, without an end of the answer."""


class SilentError(Exception):
    """From here on nothing comes, and the connection stays."""


class Lie:
    """Tells the truth; every fault overrides what it bends.

    `number` counts the chat requests before this one, `memory` is shared by all requests of one proxy.
    """

    asked: Body

    def __init__(self, number: int, memory: Body) -> None:
        self.number, self.memory = number, memory
        self.asked = {}

    def request(self, body: Body) -> Body:
        """The chat request that the deployment gets."""
        return body

    def instead(self) -> tuple[int, str, bytes] | None:
        """Status, content type and body of an answer that the deployment never sees the request of."""
        return None

    def usage(self, usage: Body) -> Body | None:
        """The token counts, of a stream or of a whole answer; None drops them."""
        return usage

    def timings(self, timings: Body) -> Body:
        """llama.cpp's own figures."""
        return timings

    def chunk(self, chunk: Body) -> list[Body]:
        """One chunk of a stream, as none, one or more."""
        return [chunk]

    def whole(self, answer: Body) -> Body:
        """An answer that is not streamed."""
        return answer

    def frames(self, frames: Iterator[bytes]) -> Iterator[bytes]:
        """The bytes of a stream, one item an event."""
        return frames

    def metrics(self, page: str) -> str:
        """The metrics page."""
        return page

    def counts(self, message: Body) -> Body:
        """A chunk or whole answer with the hooks for counts applied."""
        if isinstance(message.get("usage"), dict):
            told = self.usage(message["usage"])
            message = {**message, "usage": told} if told else {k: v for k, v in message.items() if k != "usage"}
        if isinstance(message.get("timings"), dict):
            message = {**message, "timings": self.timings(message["timings"])}
        return message


def delta_of(chunk: Body) -> Body:
    """The delta of a chunk's first choice, an empty one where there is none."""
    choices = chunk.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else {}
    delta = first.get("delta") if isinstance(first, dict) else None
    return delta if isinstance(delta, dict) else {}


def with_delta(chunk: Body, delta: Body, **choice: object) -> Body:
    """The chunk with another delta (and other members of its first choice)."""
    first, *others = chunk["choices"]
    return {**chunk, "choices": [{**first, "delta": delta, **choice}, *others]}


def text_of(chunk: Body) -> str:
    """The text that a chunk brings, thinking included."""
    delta = delta_of(chunk)
    return "".join(delta[name] for name in ("content", *REASONING) if isinstance(delta.get(name), str))


def finish_of(chunk: Body) -> str:
    """The finish reason in a chunk, or ""."""
    choices = chunk.get("choices")
    return (choices[0].get("finish_reason") or "") if isinstance(choices, list) and choices else ""


def retotalled(usage: Body) -> Body:
    """The counts with a total that fits them."""
    return {**usage, "total_tokens": usage["prompt_tokens"] + usage["completion_tokens"]}


def with_cached(usage: Body, tokens: int) -> Body:
    """The counts with so many cached tokens."""
    return {**usage, "prompt_tokens_details": {**(usage.get("prompt_tokens_details") or {}), "cached_tokens": tokens}}


class AfterSomeText(Lie, ABC):
    """A fault that strikes once some chunks with text have passed."""

    STRIKES_AFTER: ClassVar[int] = 2

    def __init__(self, number: int, memory: Body) -> None:
        super().__init__(number, memory)
        self._passed = 0

    @abstractmethod
    def strike(self) -> list[Body]:
        """What comes instead of the rest."""

    def chunk(self, chunk: Body) -> list[Body]:
        """Counts, and strikes."""
        if self._passed >= self.STRIKES_AFTER:
            return self.strike()
        self._passed += bool(text_of(chunk))
        return [chunk]
