"""vLLM's own fields (0.12 and later)."""

from certify.deployment.dialects.common import messages, template_switch
from certify.deployment.dialects.post import Post
from certify.records import ChatRequest, Json, Message, Thinking


def extend(body: dict[str, Json], request: ChatRequest) -> None:
    """Adds to a standard body what only vLLM understands."""
    body["messages"] = messages(request.messages, "reasoning")
    body |= template_switch(request.thinking)
    if request.stream:
        body["stream_options"] = {"include_usage": True, "continuous_usage_stats": True}
    if request.thinking_budget_tokens is not None:
        body["thinking_token_budget"] = request.thinking_budget_tokens
    if request.regex:
        body["structured_outputs"] = {"regex": request.regex}
    if request.ignore_eos:
        body["ignore_eos"] = True
    if request.cache_salt:
        body["cache_salt"] = request.cache_salt


def count_tokens(post: Post, model: str, turns: tuple[Message, ...], thinking: Thinking) -> int | None:
    """Tokens of a chat prompt; `/tokenize` leaves the generation prompt out unless it is asked for."""
    body: dict[str, Json] = {"model": model, "messages": messages(turns, "reasoning"), "add_generation_prompt": True}
    answer = post("/tokenize", body | template_switch(thinking))
    count = answer.get("count") if isinstance(answer, dict) else None
    return count if type(count) is int and count > 0 else None
