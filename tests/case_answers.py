"""Answers built by hand for the tests of cases: what a deployment would have said, without a wire."""

from certify.records import Asked, ChatRequest, Exchange, Failure, Reads, Thinking, ToolCall, Usage
from certify.wire.answer import Answer, ServerError

PROMPT_TOKENS = 90
COMPLETION_TOKENS = 40


def asked(
    *,
    thinking=Thinking.OFF,
    tools=(),
    tool_choice="",
    constrained=False,
    max_tokens=256,
    ignore_eos=False,
    stream=False,
):
    return Asked(
        stream=stream,
        max_tokens=max_tokens,
        thinking=thinking,
        thinking_budget_tokens=None,
        ignore_eos=ignore_eos,
        tools=tuple(tools),
        tool_choice=tool_choice,
        constrained=constrained,
    )


def asked_by(request: ChatRequest):
    return asked(
        thinking=request.thinking,
        tools=[tool.name for tool in request.tools],
        tool_choice=request.tool_choice,
        constrained=request.schema is not None or bool(request.regex),
        max_tokens=request.max_tokens,
    )


def exchange(asked: Asked, *, status: int | None = 200, failure: Failure | None = None):
    return Exchange(
        asked=asked,
        request_sha256="0" * 64,
        request_body="",
        request_bytes=0,
        sent_at_us=0,
        status=status,
        content_type="text/event-stream",
        body=b"",
        body_bytes=0,
        body_sha256="0" * 64,
        reads=Reads(),
        headers_ns=1,
        ended_ns=2,
        failure=failure,
    )


def calls_of(pairs, ids=()):
    named = [*ids, *(f"call_{place}" for place in range(len(ids), len(pairs)))]
    return tuple(ToolCall(place, named[place], name, text) for place, (name, text) in enumerate(pairs))


def answered(content: str | None = "", *, calls=(), ids=(), finish="", reasoning="", usage=None, error="", **rest):
    """A whole answer; the finish reason is what a well-behaved engine would say of its body."""
    return Answer(
        content=content or "",
        content_is_null=content is None,
        reasoning=reasoning,
        reasoning_field="reasoning" if reasoning else "",
        tool_calls=calls_of(calls, ids),
        finish_reasons=(finish or ("tool_calls" if calls else "stop"),),
        usage=usage or Usage(PROMPT_TOKENS, COMPLETION_TOKENS, PROMPT_TOKENS + COMPLETION_TOKENS),
        usages=1,
        error=ServerError(None, "error", error) if error else None,
        done_marker=True,
        **rest,
    )
