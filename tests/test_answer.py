import json
import time
from dataclasses import replace

import pytest
from capture_files import exchange
from hypothesis import example, given
from hypothesis import strategies as st

from certify.records import ToolCall, Usage
from certify.wire.answer import Answer, Chunk, ServerError, read_answer

USAGE = {"prompt_tokens": 5, "completion_tokens": 3, "total_tokens": 8}


def chunk(delta=None, finish=None, **beside):
    return {"choices": [{"index": 0, "delta": delta or {}, "finish_reason": finish}], **beside}


def wire(*events) -> bytes:
    return b"".join(b"data: " + (e if isinstance(e, bytes) else json.dumps(e).encode()) + b"\n\n" for e in events)


def streamed(*events, **beside) -> Answer:
    return read_answer(exchange(wire(*events), **beside))


def whole(message, finish="stop", status=200, **beside) -> Answer:
    body = {"choices": [{"index": 0, "message": message, "finish_reason": finish}], "usage": USAGE, **beside}
    return unary(json.dumps(body), status=status)


def unary(body: str | bytes, **beside) -> Answer:
    raw = body if isinstance(body, bytes) else body.encode()
    return read_answer(exchange(raw, content_type="application/json", stream=False, **beside))


def final_usage(usage) -> Answer:
    return streamed(chunk({"content": "a"}, "stop"), {"choices": [], "usage": usage}, b"[DONE]")


# --- text -----------------------------------------------------------------------------------------------------------


def test_a_plain_stream():
    answer = streamed(
        chunk({"role": "assistant", "content": ""}, model="m", system_fingerprint="vllm-0.33.0-tp2-01234567"),
        chunk({"content": "Hel"}),
        chunk({"content": "lo"}, "stop"),
        {"choices": [], "usage": USAGE},
        b"[DONE]",
    )
    assert answer == Answer(
        content="Hello",
        finish_reasons=("stop",),
        usage=Usage(5, 3, 8),
        usages=1,
        done_marker=True,
        chunks=(
            Chunk(0, False, False, False, None),
            Chunk(0, True, False, False, None),
            Chunk(0, True, False, False, None),
        ),
        system_fingerprint="vllm-0.33.0-tp2-01234567",
        model="m",
    )


def test_a_plain_body():
    assert whole({"role": "assistant", "content": "Hello"}) == Answer(
        content="Hello", finish_reasons=("stop",), usage=Usage(5, 3, 8), usages=1
    )


def test_a_chunk_knows_the_read_that_completed_it():
    first, second = wire(chunk({"content": "a"})), wire(chunk({"content": "b"}))
    cut = (len(first) - 1, 1 + len(second))
    assert [part.read for part in read_answer(exchange(first + second, sizes=cut)).chunks] == [1, 1]


@pytest.mark.parametrize(
    ("message", "content", "is_null"),
    [({"content": None}, "", True), ({}, "", True), ({"content": ""}, "", False), ({"content": "x"}, "x", False)],
)
def test_a_null_content_is_not_an_empty_one(message, content, is_null):
    answer = whole(message)
    assert (answer.content, answer.content_is_null, answer.violations) == (content, is_null, ())


def test_a_stream_without_content_has_a_null_content():
    assert streamed(chunk({"content": None}), chunk({"reasoning": "x"}, "stop")).content_is_null


@pytest.mark.parametrize("content", [1, True, ["a"], {"text": "a"}])
def test_content_that_is_not_text_is_a_violation(content):
    assert "content is not text" in whole({"content": content}).violations[0]
    assert "content is not text" in streamed(chunk({"content": content})).violations[0]


@pytest.mark.parametrize(
    ("deltas", "text", "field"),
    [
        ([{"reasoning": "a"}, {"reasoning": "b"}], "ab", "reasoning"),
        ([{"reasoning_content": "a"}, {"reasoning_content": None, "content": "b"}], "a", "reasoning_content"),
        ([{"reasoning": "a", "reasoning_content": "a"}], "a", "both"),
        ([{"reasoning": "", "reasoning_content": None}], "", ""),
    ],
)
def test_reasoning_in_either_field(deltas, text, field):
    answer = streamed(*map(chunk, deltas))
    assert (answer.reasoning, answer.reasoning_field, answer.violations) == (text, field, ())


def test_a_surrogate_pair_cut_between_chunks_is_joined_and_named():
    answer = streamed(
        b'{"choices":[{"index":0,"delta":{"content":"\\ud83d"}}]}',
        b'{"choices":[{"index":0,"delta":{"content":"\\ude00"}}]}',
    )
    assert (answer.content, "surrogates" in answer.violations[0]) == ("😀", True)


def test_a_lone_surrogate_can_be_encoded():
    assert unary('{"choices":[{"index":0,"message":{"content":"a\\ud800"}}]}').content == "a�"


def test_output_after_the_finish_reason_is_a_violation():
    assert "output came after" in streamed(chunk({}, "stop"), chunk({"content": "more"})).violations[0]


def test_only_choice_0_is_the_answer():
    answer = streamed(chunk({"content": "a"}), {"choices": [{"index": 1, "delta": {"content": "b"}}]})
    assert (answer.content, "index 1" in answer.violations[0], len(answer.chunks)) == ("a", True, 1)


# --- usage ----------------------------------------------------------------------------------------------------------


def test_usage_with_all_its_details():
    details = {"prompt_tokens_details": {"cached_tokens": 4}, "completion_tokens_details": {"reasoning_tokens": 2}}
    assert final_usage(USAGE | details).usage == Usage(5, 3, 8, 4, 2)


def test_details_that_are_null_are_not_zero():
    details = {"prompt_tokens_details": None, "completion_tokens_details": {"reasoning_tokens": None}}
    assert final_usage(USAGE | details).usage == Usage(5, 3, 8, None, None)


def test_sglang_tells_reasoning_tokens_at_the_top():
    assert final_usage(USAGE | {"reasoning_tokens": 0}).usage == Usage(5, 3, 8, None, 0)


@pytest.mark.parametrize("wrong", [True, "3", -1, 3.0, [3], 2**60])
@pytest.mark.parametrize("name", ["prompt_tokens", "completion_tokens", "total_tokens"])
def test_a_count_that_is_none_is_a_violation_and_no_usage(name, wrong):
    answer = final_usage(USAGE | {name: wrong})
    assert (answer.usage, answer.usages, f"{name} in usage is not a count" in answer.violations[0]) == (None, 1, True)


def test_a_usage_without_completion_tokens_is_none():
    answer = final_usage({"prompt_tokens": 5})
    assert (answer.usage, answer.violations) == (None, ("usage has no completion_tokens",))


def test_usage_in_the_last_chunk_with_choices_counts():
    answer = streamed(chunk({"content": "a"}), chunk({}, "stop", usage=USAGE), b"[DONE]")
    assert (answer.usage, answer.usages) == (Usage(5, 3, 8), 1)


def test_usage_that_is_null_until_the_end():
    answer = streamed(
        chunk({"content": "a"}, usage=None), chunk({}, "stop", usage=None), {"choices": [], "usage": USAGE}
    )
    assert (answer.usage, answer.usages) == (Usage(5, 3, 8), 1)


def test_running_usage_is_in_the_chunks_and_the_last_one_is_the_usage():
    running = [USAGE | {"completion_tokens": count} for count in (1, 2, 3)]
    answer = streamed(
        chunk({"content": "a"}, usage=running[0]),
        chunk({"content": "b"}, usage=running[1]),
        chunk({"content": "c"}, "stop", usage=running[2]),
        {"choices": [], "usage": USAGE},
    )
    assert [part.completion_tokens for part in answer.chunks] == [1, 2, 3]
    assert (answer.usage, answer.usages, answer.violations) == (Usage(5, 3, 8), 1, ())


def test_running_usage_of_a_stream_that_broke_off_is_not_the_usage():
    answer = streamed(chunk({"content": "a"}, usage=USAGE))
    assert (answer.usage, answer.usages, answer.chunks[0].completion_tokens) == (None, 0, 3)


def test_running_usage_that_falls_is_a_violation():
    answer = streamed(chunk({"content": "a"}, usage=USAGE), {"choices": [], "usage": USAGE | {"completion_tokens": 2}})
    assert "fell from 3 to 2" in answer.violations[0]


def test_two_usages_of_the_whole_are_counted():
    assert streamed(chunk({}, "stop"), {"choices": [], "usage": USAGE}, {"choices": [], "usage": USAGE}).usages == 2


# --- tool calls -----------------------------------------------------------------------------------------------------


def piece(index=None, call_id=None, name=None, arguments=None):
    function = {k: v for k, v in {"name": name, "arguments": arguments}.items() if v is not None}
    return {k: v for k, v in {"index": index, "id": call_id, "function": function}.items() if v is not None}


def test_interleaved_calls_are_put_together_by_index():
    answer = streamed(
        chunk({"tool_calls": [piece(0, "a", "f", ""), piece(1, "b", "g", "")]}),
        chunk({"tool_calls": [piece(1, arguments='{"y":')]}),
        chunk({"tool_calls": [piece(0, arguments='{"x":1}'), piece(1, arguments="2}")]}, "tool_calls"),
    )
    assert answer.tool_calls == (ToolCall(0, "a", "f", '{"x":1}'), ToolCall(1, "b", "g", '{"y":2}'))
    assert ([part.tool for part in answer.chunks], answer.violations) == ([True, True, True], ())


def test_calls_without_an_index_are_put_together_by_id():
    answer = streamed(
        chunk({"tool_calls": [piece(None, "a", "f", "1"), piece(None, "b", "g", "2")]}),
        chunk({"tool_calls": [piece(None, "a", None, "3"), piece(None, None, None, "4")]}),
    )
    assert answer.tool_calls == (ToolCall(0, "a", "f", "134"), ToolCall(1, "b", "g", "2"))
    assert "no index" in answer.violations[0]


def test_calls_in_a_body():
    calls = [piece(None, "a", "f", "{}"), piece(None, "b", "g", "{}")]
    answer = whole({"content": None, "tool_calls": calls}, "tool_calls")
    assert answer.tool_calls == (ToolCall(0, "a", "f", "{}"), ToolCall(1, "b", "g", "{}"))
    assert answer.violations == ()


def test_two_calls_on_one_index_are_named():
    answer = streamed(chunk({"tool_calls": [piece(0, "a", "f", "")]}), chunk({"tool_calls": [piece(0, "b", "g", "")]}))
    assert {"two tool calls share index 0", "a tool call changed its name from 'f' to 'g'"} == set(answer.violations)


def test_arguments_that_are_an_object_are_told_and_kept_as_text():
    answer = whole({"tool_calls": [{"id": "a", "function": {"name": "f", "arguments": {"x": 1}}}]})
    assert (answer.tool_calls[0].arguments, "not text" in answer.violations[0]) == ('{"x": 1}', True)


# --- errors ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "kind", "message"),
    [
        ('{"error":{"message":"m","type":"BadRequestError","param":"x","code":400}}', "BadRequestError", "m"),
        ('{"error":{"message":"m","type":"t","param":null,"code":"context_length_exceeded"}}', "t", "m"),
        ('{"object":"error","message":"m","type":"BadRequest","param":null,"code":400}', "BadRequest", "m"),
        ('{"error":"Unauthorized"}', "", "Unauthorized"),
        ('{"detail":"Not Found"}', "detail", "Not Found"),
        ('{"detail":[{"loc":["body"]}]}', "detail", "[{'loc': ['body']}]"),
        ("<html><head><title>502</title></head><body><h1>Bad</h1></body></html>", "html", "502 Bad"),
        ("404 unknown endpoint", "text", "404 unknown endpoint"),
        ("", "text", "HTTP status 400 with an empty body"),
        ("{}", "text", "{}"),
    ],
)
def test_an_error_status_in_every_shape(body, kind, message):
    answer = unary(body, status=400)
    assert (answer.error, answer.violations, answer.usage) == (ServerError(400, kind, message), (), None)


def test_an_error_in_the_stream_is_not_undone_by_done():
    answer = streamed(chunk({"content": "a"}), {"error": {"message": "died", "type": "X", "code": 500}}, b"[DONE]")
    assert (answer.error, answer.done_marker, answer.finish_reason) == (ServerError(500, "X", "died"), True, "")


@pytest.mark.parametrize(
    ("event", "error"),
    [
        (b'event: error\ndata: {"error":{"message":"m","type":"t"}}\n\n', ServerError(None, "t", "m")),
        (b'event: error\ndata: {"message":"m"}\n\n', ServerError(None, "", "m")),
        (b"event: error\ndata: out of memory\n\n", ServerError(None, "error", "out of memory")),
        (b'data: {"error":"text"}\n\n', ServerError(None, "", "text")),
    ],
)
def test_error_events(event, error):
    assert read_answer(exchange(event)).error == error


def test_an_error_with_status_200_is_named():
    answer = unary('{"error":{"message":"m"}}')
    assert (answer.error, answer.violations) == (ServerError(200, "", "m"), ("an error came with HTTP status 200",))


# --- shape ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("event", "says"),
    [
        (b"{}", "choices is missing"),
        (b'{"choices":null}', "choices is missing"),
        (b'{"choices":[7]}', "a choice is not an object"),
        (b'{"choices":[{"delta":{}}]}', "a choice has no index"),
        (b'{"choices":[{"index":0}]}', "delta is missing"),
        (b'{"choices":[{"index":0,"delta":7}]}', "delta is missing"),
        (b'{"choices":[{"index":0,"delta":{"tool_calls":7}}]}', "tool_calls is not a list"),
        (b'{"choices":[{"index":0,"delta":{"tool_calls":[7]}}]}', "a tool call is not an object"),
        (b'{"choices":[{"index":0,"delta":{},"finish_reason":7}]}', "finish_reason is not a word"),
        (b'{"choices":[],"usage":7}', "usage is not an object"),
        (b'{"choices":[],"usage":{"prompt_tokens_details":7}}', "prompt_tokens_details is not an object"),
        (b'{"choices":[],"model":"a","model":"b"}', "duplicate key 'model'"),
        (b'{"choices":[],"x":NaN}', "NaN is not JSON"),
        (b'{"choices":[],"model":7}', "model is not text"),
        (b"[]", "not a JSON object"),
        (b"{", "an event is not JSON"),
        (b"\xff", "not UTF-8"),
        (b"[" * 100_000, "nested too deeply"),
        (b"[DONE]\n\ndata: x", "went on after [DONE]"),
    ],
)
def test_each_departure_is_named(event, says):
    assert says in " ".join(streamed(event).violations)


def test_a_stream_that_is_not_declared_as_one_is_read_and_named():
    answer = streamed(chunk({"content": "a"}), content_type="text/plain")
    assert (answer.content, "declared as text/plain" in answer.violations[0]) == ("a", True)


def test_a_body_where_a_stream_was_asked_for_is_read_and_named():
    body = json.dumps({"choices": [{"index": 0, "message": {"content": "a"}, "finish_reason": "stop"}]}).encode()
    answer = read_answer(exchange(body, content_type="application/json"))
    assert (answer.content, "a stream was asked for" in answer.violations[0]) == ("a", True)


def test_events_of_other_names_say_nothing():
    stream = b'event: sglext_ids\ndata: {"ids":[1]}\n\n' + wire(chunk({"content": "a"}, "stop"))
    assert (read_answer(exchange(stream)).content, read_answer(exchange(stream)).violations) == ("a", ())


def test_a_body_beyond_the_cap_is_truncated():
    cut = replace(exchange(wire(chunk({"content": "a"}))), body_bytes=10**9)
    assert (read_answer(cut).truncated, read_answer(cut).content) == (True, "a")


def test_nothing_came():
    assert read_answer(exchange(b"", status=None, content_type="")) == Answer()


def test_figures_of_the_engine_are_kept_as_they_are():
    answer = streamed(chunk({}, "stop", timings={"draft_n": 4, "predicted_ms": 1.5}, metrics={"mean_itl_ms": 6.18}))
    assert answer.timings == {"draft_n": 4, "predicted_ms": 1.5, "mean_itl_ms": 6.18}


def test_violations_do_not_grow_without_end():
    assert len(streamed(*({"choices": [], "model": number} for number in range(500))).violations) == 31


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    *(
                        "choices",
                        "index",
                        "delta",
                        "message",
                        "content",
                        "reasoning",
                        "reasoning_content",
                        "tool_calls",
                        "id",
                    ),
                    *("function", "name", "arguments", "finish_reason", "usage", "prompt_tokens", "completion_tokens"),
                    *(
                        "completion_tokens_details",
                        "reasoning_tokens",
                        "error",
                        "code",
                        "type",
                        "detail",
                        "timings",
                        "model",
                    ),
                ]
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=25,
)


@given(JSON, st.sampled_from([None, 200, 204, 302, 400, 500]), st.booleans())
def test_no_json_raises(value, status, stream):
    body = json.dumps(value).encode()
    made = exchange(
        b"data: " + body + b"\n\n" if stream else body, content_type="text/event-stream" * stream, status=status
    )
    answer = read_answer(made)
    assert json.dumps([answer.content, answer.reasoning, *answer.violations]).encode()


@given(st.binary(max_size=200), st.sampled_from(["text/event-stream", "application/json", ""]), st.booleans())
@example(b'{"usage":{"prompt_tokens":' + b"9" * 5000 + b"}}", "application/json", False)
def test_no_bytes_raise(body, content_type, stream):
    answer = read_answer(exchange(body, content_type=content_type, stream=stream))
    assert answer.content.encode() == answer.content.encode(errors="replace")


def test_five_hundred_chunks_are_read_in_milliseconds():
    stream = wire(
        *(chunk({"content": f"token {number} "}, usage=USAGE | {"completion_tokens": number}) for number in range(500))
    )
    made = exchange(stream, sizes=(len(stream) // 500,) * 500)

    def once() -> float:
        began = time.process_time()
        read_answer(made)
        return time.process_time() - began

    assert min(once() for _ in range(7)) < 0.04  # 0.01 alone on a 2-core machine
