import re

import pytest

from certify.deployment.dialects import count_tokens, render
from certify.deployment.dialects.gbnf import regex_to_gbnf
from certify.records import ChatRequest, Message, Thinking, Tool, ToolCall

TURN = (Message("user", "Hello"),)
SCHEMA = {"type": "object"}
EVERYTHING = ChatRequest(
    TURN,
    max_tokens=9,
    thinking=Thinking.ON,
    thinking_budget_tokens=64,
    seed=3,
    regex="a+",
    stop=("x",),
    ignore_eos=True,
    cache_salt="s",
)
STANDARD = {"model": "m", "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 9, "temperature": 0.0}
SWITCH = {"chat_template_kwargs": {"thinking": True, "enable_thinking": True}}
USAGE = {"stream": True, "stream_options": {"include_usage": True}}
RUNNING = {"stream": True, "stream_options": {"include_usage": True, "continuous_usage_stats": True}}
REST = {"seed": 3, "stop": ["x"]}


@pytest.mark.parametrize("engine", ["vllm", "sglang", "llama.cpp", "generic", "tensorrt-llm", "ds4"])
def test_a_plain_request_is_standard_for_every_engine(engine):
    assert render(ChatRequest(TURN, 9, stream=False), "m", engine) == STANDARD


@pytest.mark.parametrize(
    ("engine", "own"),
    [
        (
            "vllm",
            RUNNING
            | SWITCH
            | {
                "thinking_token_budget": 64,
                "structured_outputs": {"regex": "a+"},
                "ignore_eos": True,
                "cache_salt": "s",
            },
        ),
        ("sglang", RUNNING | SWITCH | {"regex": "a+", "ignore_eos": True, "cache_salt": "s"}),
        (
            "llama.cpp",
            USAGE | SWITCH | {"thinking_budget_tokens": 64, "grammar": 'root ::= "a"+\n', "ignore_eos": True},
        ),
        ("generic", USAGE | SWITCH | {"response_format": {"type": "regex", "regex": "a+"}}),
        ("ds4", USAGE | {"thinking": {"type": "enabled"}, "response_format": {"type": "regex", "regex": "a+"}}),
        (
            "tensorrt-llm",
            USAGE
            | SWITCH
            | {
                "thinking_token_budget": 64,
                "response_format": {"type": "regex", "regex": "a+"},
                "ignore_eos": True,
                "cache_salt": "s",
            },
        ),
    ],
)
def test_each_engine_has_its_own_fields(engine, own):
    assert render(EVERYTHING, "m", engine) == STANDARD | REST | own


@pytest.mark.parametrize(("thinking", "on"), [(Thinking.ON, True), (Thinking.OFF, False)])
def test_the_thinking_switch_has_both_keys(thinking, on):
    body = render(ChatRequest(TURN, 9, thinking=thinking), "m", "vllm")
    assert body["chat_template_kwargs"] == {"thinking": on, "enable_thinking": on}


@pytest.mark.parametrize("engine", ["vllm", "sglang", "llama.cpp", "generic"])
def test_a_schema_is_strict(engine):
    body = render(ChatRequest(TURN, 9, schema=SCHEMA, schema_name="city"), "m", engine)
    assert body["response_format"] == {
        "type": "json_schema",
        "json_schema": {"name": "city", "strict": True, "schema": SCHEMA},
    }


@pytest.mark.parametrize(
    ("choice", "sent"),
    [
        ("auto", "auto"),
        ("required", "required"),
        ("none", "none"),
        ("f", {"type": "function", "function": {"name": "f"}}),
    ],
)
def test_tools_and_their_choice(choice, sent):
    body = render(ChatRequest(TURN, 9, tools=(Tool("f", "does", SCHEMA),), tool_choice=choice), "m", "vllm")
    function = {"name": "f", "description": "does", "parameters": SCHEMA}
    assert (body["tools"], body["tool_choice"]) == ([{"type": "function", "function": function}], sent)


@pytest.mark.parametrize(("engine", "field"), [("vllm", "reasoning"), ("sglang", "reasoning_content")])
def test_a_turn_with_calls_reasoning_and_its_result(engine, field):
    turns = (
        Message("assistant", "", tool_calls=(ToolCall(0, "c1", "f", "{}"),), reasoning="hm"),
        Message("tool", "42", tool_call_id="c1"),
    )
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    assert render(ChatRequest(turns, 9), "m", engine)["messages"] == [
        {"role": "assistant", "content": None, "tool_calls": [call], field: "hm"},
        {"role": "tool", "content": "42", "tool_call_id": "c1"},
    ]


def test_llamacpp_tokens_are_counted_in_two_steps():
    asked = []

    def post(path, body, /):
        asked.append((path, body))
        return {"/apply-template": {"prompt": "<s>Hello"}, "/tokenize": {"tokens": [1, 2, 3]}}[path]

    assert count_tokens(post, "m", "llama.cpp", TURN, Thinking.OFF) == 3
    assert asked[0][1]["chat_template_kwargs"] == {"thinking": False, "enable_thinking": False}
    assert asked[1][1] == {"content": "<s>Hello", "add_special": True, "parse_special": True}


@pytest.mark.parametrize("engine", ["vllm", "sglang", "llama.cpp", "generic"])
@pytest.mark.parametrize("answer", [None, [], {}, {"count": True}, {"count": "7"}, {"prompt": 7}, {"tokens": {}}])
def test_a_count_that_is_none_is_none(engine, answer):
    assert count_tokens(lambda _path, _body, /: answer, "m", engine, TURN, Thinking.UNSAID) is None


@pytest.mark.parametrize(
    ("pattern", "rule"),
    [
        ("abc", '"a" "b" "c"'),
        (r"^AFA-\d{4}$", '"A" "F" "A" "-" [0-9]{4}'),
        ("(?:a|b)+", '( "a" | "b" )+'),
        (r"[^\]\w-]?", r"[^\]A-Za-z0-9_-]?"),
        (r"a.\.", r'"a" [^\n] "."'),
        (r"\S\n", r'[^ \t\n\r] "\n"'),
        ('"', r'"\""'),
    ],
)
def test_a_pattern_as_a_grammar(pattern, rule):
    assert regex_to_gbnf(pattern) == f"root ::= {rule}\n"


@pytest.mark.parametrize("pattern", [r"(?=a)b", r"(a)\1", r"\bx", "a^b", "a+?", r"[\b]"])
def test_what_a_grammar_cannot_say_is_refused(pattern):
    with pytest.raises(ValueError, match=r"grammar|repetition"):
        regex_to_gbnf(pattern)


def test_what_is_no_pattern_is_refused():
    with pytest.raises(re.error):
        regex_to_gbnf("(")
