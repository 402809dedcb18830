"""The wire of vLLM 0.33: chunks, bodies, errors and the metrics page, with their quirks (docs/METHODS.md)."""

import json
from collections.abc import Iterator, Sequence

from certify.embedded.simulator.asking import RefusedError
from certify.embedded.simulator.engine import CONTEXT_TOKENS, MODEL, OWNER, Answering, Engine, Token
from certify.records import Json

DONE = b"data: [DONE]\n\n"


def event(value: Json) -> bytes:
    """A server-sent event."""
    return b"data: " + json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode() + b"\n\n"


def models(created: int) -> Json:
    """The answer of /v1/models."""
    card: Json = {
        "id": MODEL,
        "object": "model",
        "created": created,
        "owned_by": OWNER,
        "root": MODEL,
        "parent": None,
        "max_model_len": CONTEXT_TOKENS,
        "permission": [],
    }
    return {"object": "list", "data": [card]}


def error_body(error: RefusedError) -> Json:
    """An error in the nested shape."""
    return {"error": {"message": str(error), "type": error.kind, "param": error.param or None, "code": error.status}}


def usage(answering: Answering, completion_tokens: int, *, cached: bool) -> dict[str, Json]:
    """Token counts; only the final one says what was cached."""
    counts: dict[str, Json] = {
        "prompt_tokens": answering.prompt_tokens,
        "total_tokens": answering.prompt_tokens + completion_tokens,
        "completion_tokens": completion_tokens,
    }
    if cached:
        counts["prompt_tokens_details"] = {"cached_tokens": answering.cached_tokens}
        counts["completion_tokens_details"] = {"reasoning_tokens": answering.reasoning_tokens}
    return counts


class Chunks:
    """The chunks of one stream."""

    def __init__(self, answering: Answering, engine: Engine, request_id: str, created: int) -> None:
        self._answering, self._engine = answering, engine
        self._base: dict[str, Json] = {
            "id": request_id,
            "object": "chat.completion.chunk",
            "created": created,
            "model": MODEL,
        }
        self._sent = 0

    def _chunk(self, choices: list[Json], **more: Json) -> bytes:
        running: dict[str, Json] = {}
        if self._answering.asking.continuous_usage and self._answering.asking.include_usage and choices:
            running = {"usage": usage(self._answering, self._sent, cached=False)}
        return event({**self._base, "choices": choices, **running, **more})

    def role(self) -> bytes:
        """The first chunk: a role and no text."""
        delta: Json = {"role": "assistant", "content": ""}
        return self._chunk([{"index": 0, "delta": delta, "logprobs": None, "finish_reason": None}])

    def step(self, tokens: Sequence[Token], *, last: bool) -> bytes:
        """One step: several tokens in one chunk; b"" where all are hidden and nothing ends."""
        self._sent += len(tokens)
        delta = _delta(tokens)
        if not delta and not last:
            return b""
        reason = self._answering.finish_reason if last else None
        choice: Json = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
        identity: dict[str, Json] = {"system_fingerprint": self._engine.fingerprint}
        final = last and not self._answering.asking.include_usage
        return self._chunk([choice], **(identity if final else {}))

    def tail(self) -> Iterator[bytes]:
        """The usage chunk if it was asked for, and the end marker."""
        if self._answering.asking.include_usage:
            counts = usage(self._answering, self._answering.completion_tokens, cached=True)
            yield self._chunk([], usage=counts, system_fingerprint=self._engine.fingerprint)
        yield DONE


def _delta(tokens: Sequence[Token]) -> dict[str, Json]:
    delta: dict[str, Json] = {}
    for kind in ("reasoning", "content"):
        text = "".join(token.text for token in tokens if token.kind == kind)
        if text:
            delta[kind] = text
    calls: list[Json] = []
    for index in dict.fromkeys(token.call for token in tokens if token.kind == "tool"):
        mine = [token for token in tokens if token.kind == "tool" and token.call == index]
        opening = next((token.opens for token in mine if token.opens), None)
        function: dict[str, Json] = {"name": opening.name} if opening else {}
        function["arguments"] = "".join(token.text for token in mine)
        head: dict[str, Json] = {"id": f"call-{index:04d}", "type": "function"} if opening else {}
        calls.append({"index": index, **head, "function": function})
    return {**delta, "tool_calls": calls} if calls else delta


def whole_body(answering: Answering, engine: Engine, request_id: str, created: int) -> Json:
    """The answer to a request that is not streamed."""
    tokens = [token for step in answering.steps for token in step]
    texts = {kind: "".join(token.text for token in tokens if token.kind == kind) for kind in ("reasoning", "content")}
    calls: list[Json] = [
        {
            "id": f"call-{token.call:04d}",
            "type": "function",
            "function": {
                "name": token.opens.name,
                "arguments": "".join(
                    other.text for other in tokens if other.kind == "tool" and other.call == token.call
                ),
            },
        }
        for token in tokens
        if token.opens
    ]
    message: Json = {
        "role": "assistant",
        "content": texts["content"] or None,
        "reasoning": texts["reasoning"] or None,
        "tool_calls": calls,
    }
    choice: Json = {
        "index": 0,
        "message": message,
        "logprobs": None,
        "finish_reason": answering.finish_reason,
        "stop_reason": None,
    }
    return {
        "id": request_id,
        "object": "chat.completion",
        "created": created,
        "model": MODEL,
        "choices": [choice],
        "usage": usage(answering, answering.completion_tokens, cached=True),
        "system_fingerprint": engine.fingerprint,
    }


def metrics(engine: Engine) -> str:
    """The Prometheus page; speculation's counters exist only where there is speculation."""
    totals = engine.totals
    labels = f'engine="0",model_name="{MODEL}"'
    rows: list[tuple[str, str, str, int]] = [
        ("counter", "prompt_tokens_total", "", totals.prompt_tokens),
        ("counter", "generation_tokens_total", "", totals.generation_tokens),
        ("counter", "prefix_cache_queries_total", "", totals.prefix_queries),
        ("counter", "prefix_cache_hits_total", "", totals.prefix_hits),
        ("gauge", "num_requests_running", "", totals.running),
        ("gauge", "num_requests_waiting", "", 0),
    ]
    if engine.speculation:
        rows += [
            ("counter", "spec_decode_num_drafts_total", "", totals.drafts),
            ("counter", "spec_decode_num_draft_tokens_total", "", totals.draft_tokens),
            ("counter", "spec_decode_num_accepted_tokens_total", "", sum(totals.accepted)),
        ]
        name = "spec_decode_num_accepted_tokens_per_pos_total"
        rows += [("counter", name, f',position="{at}"', count) for at, count in enumerate(totals.accepted)]
    rows += [
        ("counter", "request_success_total", f',finished_reason="{reason}"', count)
        for reason, count in totals.finished.items()
    ]
    lines: list[str] = []
    for kind, name, more, value in rows:
        declared = f"# TYPE vllm:{name} {kind}"
        if declared not in lines:
            lines.append(declared)
        lines.append(f"vllm:{name}{{{labels}{more}}} {float(value)}")
    lines.append(f'vllm:cache_config_info{{block_size="16",enable_prefix_caching="True",{labels}}} 1.0')
    return "\n".join(lines) + "\n"
