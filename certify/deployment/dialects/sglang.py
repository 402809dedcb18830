"""SGLang's own fields. It has no field for a thinking budget."""

from certify.deployment.dialects.common import messages, template_switch
from certify.deployment.dialects.post import Post
from certify.records import ChatRequest, Json, Message, Thinking


def extend(body: dict[str, Json], request: ChatRequest) -> None:
    """Adds to a standard body what only SGLang understands."""
    body |= template_switch(request.thinking)
    if request.stream:
        body["stream_options"] = {"include_usage": True, "continuous_usage_stats": True}
    if request.regex:
        body["regex"] = request.regex
    if request.ignore_eos:
        body["ignore_eos"] = True
    if request.cache_salt:
        body["cache_salt"] = request.cache_salt


def count_tokens(post: Post, model: str, turns: tuple[Message, ...], thinking: Thinking) -> int | None:
    """Tokens of a chat prompt, rendered as chat completions render it."""
    body: dict[str, Json] = {"model": model, "messages": messages(turns)}
    answer = post("/tokenize", body | template_switch(thinking))
    count = answer.get("count") if isinstance(answer, dict) else None
    return count if type(count) is int and count > 0 else None
