"""How a request is spelled for each engine."""

from certify.deployment.dialects import generic, llamacpp, sglang, vllm
from certify.deployment.dialects.common import standard_body
from certify.deployment.dialects.post import Post
from certify.records import ChatRequest, Json, Message, Thinking

__all__ = ["count_tokens", "render"]

_EXTENSIONS = {"vllm": vllm.extend, "sglang": sglang.extend, "llama.cpp": llamacpp.extend}
_COUNTERS = {"vllm": vllm.count_tokens, "sglang": sglang.count_tokens, "llama.cpp": llamacpp.count_tokens}


def render(request: ChatRequest, model: str, engine: str) -> dict[str, Json]:
    """The wire body of a request for an engine (a name as in `Identity.engine`)."""
    body = standard_body(request, model)
    extend = _EXTENSIONS.get(engine)
    if extend is None:
        generic.extend(body, request, engine)
    else:
        extend(body, request)
    return body


def count_tokens(post: Post, model: str, engine: str, messages: tuple[Message, ...], thinking: Thinking) -> int | None:
    """The prompt tokens that the engine's own tokenizer counts; None where it offers none, or no count came."""
    count = _COUNTERS.get(engine)
    return count(post, model, messages, thinking) if count else None
