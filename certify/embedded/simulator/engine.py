"""The simulated engine: one request becomes the exact tokens of its answer, and the counters follow."""

import hashlib
import itertools
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

from certify.embedded.simulator.asking import Asking, RefusedError
from certify.embedded.simulator.mind import Call, Key, Reply, reply_to
from certify.embedded.simulator.pace import Pace
from certify.embedded.simulator.prefix_cache import PrefixCache
from certify.embedded.simulator.tokens import rendered, tokens_of

MODEL = "simulated-tp2"
OWNER = "certify-simulator"
VERSION = "0.33.0"
CONTEXT_TOKENS = 1_048_576


@dataclass(frozen=True, slots=True)
class Token:
    """One token of an answer: its kind (reasoning, content, tool, hidden), its text, its tool call if it has one."""

    kind: str
    text: str
    call: int = 0
    opens: Call | None = None


@dataclass(slots=True)
class Totals:
    """What the metrics page counts since the start."""

    prompt_tokens: int = 0
    generation_tokens: int = 0
    prefix_queries: int = 0
    prefix_hits: int = 0
    drafts: int = 0
    draft_tokens: int = 0
    accepted: list[int] = field(default_factory=list)
    finished: dict[str, int] = field(default_factory=dict)
    running: int = 0


@dataclass(frozen=True, slots=True)
class Answering:
    """A request with all that will be answered: `steps` are the tokens of each step, in order."""

    asking: Asking
    prompt_tokens: int
    cached_tokens: int
    steps: tuple[tuple[Token, ...], ...]
    finish_reason: str

    @property
    def reasoning_tokens(self) -> int:
        """How many tokens are thinking."""
        return sum(token.kind == "reasoning" for step in self.steps for token in step)

    @property
    def completion_tokens(self) -> int:
        """How many tokens are generated, the end of turn included."""
        return sum(map(len, self.steps))


class Engine:
    """One arm of the pair. Threads may share it."""

    def __init__(self, *, speculation: bool, pace: Pace) -> None:
        self.speculation = speculation
        self.pace = (
            pace
            if speculation
            else Pace(pace.base_s, pace.prefill_s, pace.attention_s, pace.step_s, pace.crowding, (), pace.scale)
        )
        digest = hashlib.sha256(f"{MODEL}/{speculation}".encode()).hexdigest()[:8]
        self.fingerprint = f"vllm-{VERSION}-tp2-{digest}"
        self.totals = Totals(accepted=[0] * len(self.pace.acceptance))
        self.keys: dict[str, Key] = {}
        self._cache = PrefixCache()
        self._lock = threading.Lock()

    def prompt_of(self, asking: Asking) -> list[str]:
        """The tokens of the prompt, chat template included."""
        tools = [tool.declaration for tool in asking.tools] if asking.tool_choice != "none" else []
        return tokens_of(rendered(asking.turns, tools, thinking=asking.thinking))

    def answer(self, asking: Asking) -> Answering:
        """Everything that the answer will be.

        Raises:
            RefusedError: unknown model, too long a prompt, or an unsupported constraint.
        """
        if asking.model != MODEL:
            message = f"The model `{asking.model[:80]}` does not exist; this deployment serves {MODEL}"
            raise RefusedError(message, status=404, kind="NotFoundError", param="model")
        prompt = self.prompt_of(asking)
        room = CONTEXT_TOKENS - len(prompt)
        if room < 1:
            message = (
                f"This model's maximum context length is {CONTEXT_TOKENS} tokens, the request has {len(prompt)} input "
                "tokens. Shorten the messages"
            )
            raise RefusedError(message, param="input_tokens")
        reply = reply_to(asking, self.keys)
        limit = room if asking.max_tokens is None else min(asking.max_tokens, room)
        tokens, finish = _cut(list(_tokens(reply, asking)), limit, asking)
        with self._lock:
            cached = self._cache.use(prompt, asking.cache_salt, dropped_blocks=1 if self.speculation else 0)
            steps = tuple(self._steps(tokens, seed="".join(prompt[-64:])))
            totals = self.totals
            totals.prompt_tokens += len(prompt)
            totals.prefix_queries += len(prompt)
            totals.prefix_hits += cached
            totals.finished[finish] = totals.finished.get(finish, 0) + 1
        return Answering(asking, len(prompt), cached, steps, finish)

    def _steps(self, tokens: list[Token], seed: str) -> Iterator[tuple[Token, ...]]:
        """The tokens step by step; the first comes from the prefill alone. Counts drafts as it goes."""
        totals, at = self.totals, 1
        yield tuple(tokens[:1])
        for accepted in self.pace.accepted(seed):
            if at >= len(tokens):
                return
            accepted = min(accepted, len(tokens) - at - 1)  # noqa: PLW2901 - the answer ends within the draft
            if self.speculation:
                totals.drafts += 1
                totals.draft_tokens += len(self.pace.acceptance)
                for position in range(accepted):
                    totals.accepted[position] += 1
            yield tuple(tokens[at : at + 1 + accepted])
            at += 1 + accepted

    def count_generated(self, tokens: int) -> None:
        """Tokens that left the engine."""
        with self._lock:
            self.totals.generation_tokens += tokens

    def change_running(self, by: int) -> None:
        """A request began (+1) or ended (-1)."""
        with self._lock:
            self.totals.running += by


def _tokens(reply: Reply, asking: Asking) -> Iterator[Token]:
    """The tokens of a reply, its end of turn not among them."""
    if asking.thinking:
        yield from (Token("reasoning", text) for text in tokens_of(reply.reasoning))
        yield Token("hidden", "</think>")
    content = reply.content
    for stop in asking.stop:
        content = content.partition(stop)[0]
    yield from (Token("content", text) for text in tokens_of(content))
    for index, call in enumerate(reply.calls):
        yield Token("tool", "", index, call)
        yield from (Token("tool", text, index) for text in tokens_of(call.arguments))


def _cut(tokens: list[Token], limit: int, asking: Asking) -> tuple[list[Token], str]:
    """The tokens within the limit, with the end of turn if there is room for it, and the finish reason."""
    if asking.ignore_eos:
        extra = itertools.cycle(Token("content", text) for text in tokens_of(" and so it goes on and on"))
        tokens += itertools.islice(extra, max(0, limit - len(tokens)))
        return tokens[:limit], "length"
    whole = [*tokens, Token("hidden", "<|im_end|>")]
    if len(whole) > limit:
        return whole[:limit], "length"
    return whole, "tool_calls" if any(token.kind == "tool" for token in tokens) else "stop"
