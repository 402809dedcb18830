"""Conservation laws of one answer: what no honest deployment can break, whatever its model says.

The laws hold across engines (docs/METHODS.md); those over a whole run (against the engine's own counters) are judged
elsewhere.
"""

from collections.abc import Iterator
from itertools import pairwise

from certify.records import Asked, Usage
from certify.wire.answer import Answer


def broken_laws(asked: Asked, answer: Answer) -> tuple[str, ...]:
    """Each law that the answer breaks, in one sentence with its numbers; () when all hold.

    Only speaks of answers that came whole: an exchange that failed, or an HTTP error, has no usage to judge.
    """
    if answer.usage is None:
        return ("the answer has no `usage`: nothing about it can be counted",)
    return (
        *usage_faults(answer.usage),
        *_usages_that_disagree(answer),
        *_limits(asked, answer, answer.usage),
        *_running_usage(answer, answer.usage),
    )


def usage_faults(usage: Usage) -> Iterator[str]:
    """What is wrong with the counts among themselves."""
    for name in ("prompt_tokens", "completion_tokens", "total_tokens", "cached_tokens", "reasoning_tokens"):
        count = getattr(usage, name)
        if count is not None and count < 0:
            yield f"usage says {name} {count}: a count below zero"
    if usage.prompt_tokens == 0:
        yield "usage says prompt_tokens 0, but every chat has a prompt"
    total = usage.prompt_tokens + usage.completion_tokens
    if usage.total_tokens is not None and usage.total_tokens != total:
        yield (
            f"usage says total_tokens {usage.total_tokens}, but prompt {usage.prompt_tokens} + completion "
            f"{usage.completion_tokens} is {total}"
        )
    if (usage.reasoning_tokens or 0) > usage.completion_tokens:
        yield (
            f"usage says reasoning_tokens {usage.reasoning_tokens}, more than its completion_tokens "
            f"{usage.completion_tokens}"
        )
    if (usage.cached_tokens or 0) > usage.prompt_tokens:
        yield f"usage says cached_tokens {usage.cached_tokens}, more than its prompt_tokens {usage.prompt_tokens}"


def _usages_that_disagree(answer: Answer) -> Iterator[str]:
    if answer.usages > 1:
        yield f"{answer.usages} usage objects spoke of the whole answer instead of one"


def _limits(asked: Asked, answer: Answer, usage: Usage) -> Iterator[str]:
    came = len(answer.content) + len(answer.reasoning) + sum(len(call.arguments) for call in answer.tool_calls)
    if came and usage.completion_tokens < 1:
        yield f"{came} characters of output came, but usage says completion_tokens {usage.completion_tokens}"
    if usage.completion_tokens > asked.max_tokens:
        yield (
            f"usage says completion_tokens {usage.completion_tokens}, more than the {asked.max_tokens} allowed by "
            "max_tokens"
        )
    if asked.ignore_eos and answer.finish_reason == "length" and usage.completion_tokens < asked.max_tokens:
        yield (
            f"ignore_eos asked for {asked.max_tokens} tokens and usage says {usage.completion_tokens} with finish "
            "`length`: clamped, most likely by the context window, without a word"
        )


def _running_usage(answer: Answer, usage: Usage) -> Iterator[str]:
    running = [chunk.completion_tokens for chunk in answer.chunks if chunk.completion_tokens is not None]
    fall = next(((before, after) for before, after in pairwise(running) if after < before), None)
    if fall:
        yield f"the running usage falls from {fall[0]} to {fall[1]} tokens within the stream"
    if running and running[-1] != usage.completion_tokens:
        yield (
            f"the running usage ends at {running[-1]} tokens, but the final usage says completion_tokens "
            f"{usage.completion_tokens}"
        )
