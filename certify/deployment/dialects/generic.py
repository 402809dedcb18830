"""Engines without a dialect of their own: the standard fields, and the few others that an engine is known to read."""

from certify.deployment.dialects.common import template_switch
from certify.records import ChatRequest, Json, Thinking

# TensorRT-LLM answers 400 to a field that it does not know, so no engine gets a field on suspicion.
_IGNORE_EOS = ("tensorrt-llm", "lmdeploy")
_CACHE_SALT = ("tensorrt-llm",)
_THINKING_BUDGET = ("tensorrt-llm", "tabbyapi")


def extend(body: dict[str, Json], request: ChatRequest, engine: str) -> None:
    """Adds what the engine is known to understand beyond the standard."""
    if engine == "ds4":
        body |= _typed_switch(request.thinking)
    else:
        body |= template_switch(request.thinking)
    if request.thinking_budget_tokens is not None and engine in _THINKING_BUDGET:
        body["thinking_token_budget"] = request.thinking_budget_tokens
    if request.regex and engine == "tabbyapi":
        body["regex_pattern"] = request.regex
    elif request.regex and engine == "lmdeploy":
        body["response_format"] = {"type": "regex_schema", "regex_schema": request.regex}
    elif request.regex:
        body["response_format"] = {"type": "regex", "regex": request.regex}
    if request.ignore_eos and engine in _IGNORE_EOS:
        body["ignore_eos"] = True
    if request.cache_salt and engine in _CACHE_SALT:
        body["cache_salt"] = request.cache_salt


def _typed_switch(thinking: Thinking) -> dict[str, Json]:
    if thinking is Thinking.UNSAID:
        return {}
    return {"thinking": {"type": "enabled" if thinking is Thinking.ON else "disabled"}}
