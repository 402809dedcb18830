"""The own fields of llama.cpp's server. `cache_prompt` stays as the server has it."""

from certify.deployment.dialects.common import messages, template_switch
from certify.deployment.dialects.gbnf import regex_to_gbnf
from certify.deployment.dialects.post import Post
from certify.records import ChatRequest, Json, Message, Thinking


def extend(body: dict[str, Json], request: ChatRequest) -> None:
    """Adds to a standard body what only llama.cpp understands; it knows no regex, so a pattern becomes a grammar."""
    body |= template_switch(request.thinking)
    if request.thinking_budget_tokens is not None:
        body["thinking_budget_tokens"] = request.thinking_budget_tokens
    if request.regex:
        body["grammar"] = regex_to_gbnf(request.regex)
    if request.ignore_eos:
        body["ignore_eos"] = True


def count_tokens(post: Post, _model: str, turns: tuple[Message, ...], thinking: Thinking) -> int | None:
    """Tokens of a chat prompt: the template applied, then tokenised as chat completions do (BOS, special tokens)."""
    applied = post("/apply-template", {"messages": messages(turns), **template_switch(thinking)})
    prompt = applied.get("prompt") if isinstance(applied, dict) else None
    if not isinstance(prompt, str):
        return None
    answer = post("/tokenize", {"content": prompt, "add_special": True, "parse_special": True})
    tokens = answer.get("tokens") if isinstance(answer, dict) else None
    return len(tokens) if isinstance(tokens, list) and tokens else None
