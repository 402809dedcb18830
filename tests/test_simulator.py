import json
import statistics
import time
import urllib.error
import urllib.request

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from certify.cases.scenarios import SCENARIOS
from certify.cases.scoring import Grade
from certify.deployment.client import Deployment
from certify.embedded.simulator import SimulatedDeployment, start_simulated
from certify.embedded.simulator.__main__ import main
from certify.embedded.simulator.asking import RefusedError
from certify.embedded.simulator.mind import needle
from certify.embedded.simulator.pace import Pace
from certify.embedded.simulator.prefix_cache import PrefixCache
from certify.embedded.simulator.shapes import instance_of
from certify.embedded.simulator.tokens import tokens_of
from certify.plan import case_seed
from certify.records import ChatRequest, Message, Thinking
from certify.wire.answer import read_answer
from certify.wire.counters import read_counters

SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "sizes": {"type": "array", "items": {"type": "integer"}, "minItems": 2}},
    "required": ["city", "sizes"],
    "additionalProperties": False,
}
TOOL = {"type": "function", "function": {"name": "look_up", "parameters": SCHEMA}}
ON, OFF = {"chat_template_kwargs": {"enable_thinking": True}}, {"chat_template_kwargs": {"enable_thinking": False}}


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    logs = tmp_path_factory.mktemp("pair")
    with start_simulated("spec-on", logs) as on, start_simulated("spec-off", logs) as off:
        yield on, off


@pytest.fixture(scope="module")
def on(pair):
    return pair[0]


def fetch(deployment, path, body=None):
    raw = body if isinstance(body, bytes | None) else json.dumps(body).encode()
    with urllib.request.urlopen(f"{deployment.base_url}{path}", raw, timeout=60) as answer:
        return answer.read()


def ask(deployment, content="Tell me of the harbour.", **fields):
    body = {"model": "simulated-tp2", "messages": [{"role": "user", "content": content}], "max_tokens": 64, **fields}
    return json.loads(fetch(deployment, "/v1/chat/completions", body))


def stream(deployment, content="Tell me of the harbour.", **fields):
    body = {
        "model": "simulated-tp2",
        "messages": [{"role": "user", "content": content}],
        "max_tokens": 64,
        "stream": True,
        "stream_options": {"include_usage": True},
        **fields,
    }
    text = fetch(deployment, "/v1/chat/completions", body).decode()
    assert text.endswith("data: [DONE]\n\n")
    return [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: {")]


def counters(deployment):
    return read_counters(fetch(deployment, "/metrics").decode())


def joined(chunks, field):
    return "".join(chunk["choices"][0]["delta"].get(field) or "" for chunk in chunks if chunk["choices"])


def test_it_says_what_it_is(on):
    card = json.loads(fetch(on, "/v1/models"))["data"][0]
    assert (card["owned_by"], card["max_model_len"]) == ("certify-simulator", 1_048_576)
    assert json.loads(fetch(on, "/version")) == {"version": "0.33.0"}
    assert fetch(on, "/health") == b""


def test_stream_and_whole_answer_say_the_same_with_the_same_usage(on):
    chunks, whole = stream(on, **OFF), ask(on, **OFF)
    assert chunks[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert chunks[-1]["choices"] == []
    assert joined(chunks, "content") == whole["choices"][0]["message"]["content"]
    assert chunks[-1]["usage"]["completion_tokens"] == whole["usage"]["completion_tokens"] == 64
    assert chunks[-2]["choices"][0]["finish_reason"] == whole["choices"][0]["finish_reason"] == "length"
    assert chunks[-1]["system_fingerprint"].startswith("vllm-0.33.0-tp2-")
    assert "system_fingerprint" not in chunks[0]


def test_speculation_brings_several_tokens_a_chunk_and_counts_them_and_its_absence_neither(pair):
    on, off = pair
    before = counters(on)
    assert len(stream(on, max_tokens=120, **OFF)) < 100
    after = counters(on)
    drafts, accepted = after.drafts - before.drafts, after.accepted_tokens - before.accepted_tokens
    assert after.generation_tokens - before.generation_tokens == 120 == 1 + drafts + accepted
    assert sum(after.accepted_per_position) == after.accepted_tokens
    assert after.draft_tokens == 3 * after.drafts
    assert len(stream(off, max_tokens=120, **OFF)) == 122
    assert counters(off).drafts is None


def test_both_arms_give_the_same_answer_under_different_fingerprints(pair):
    on, off = (ask(arm, **OFF) for arm in pair)
    assert on["choices"] == off["choices"]
    assert on["system_fingerprint"] != off["system_fingerprint"]


@pytest.mark.parametrize(
    ("switch", "thinks"), [(ON, True), (OFF, False), ({}, True), ({"reasoning_effort": "none"}, False)]
)
def test_the_thinking_switch_works(on, switch, thinks):
    answer = ask(on, **switch)
    assert bool(answer["choices"][0]["message"]["reasoning"]) is thinks
    assert bool(answer["usage"]["completion_tokens_details"]["reasoning_tokens"]) is thinks


def test_a_thinking_budget_is_kept(on):
    assert ask(on, thinking_token_budget=8, **ON)["usage"]["completion_tokens_details"]["reasoning_tokens"] == 8


@pytest.mark.parametrize("switch", [ON, OFF], ids=["on", "off"])
def test_a_schema_is_obeyed_streamed_and_not(on, switch):
    fields = {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}}, **switch}
    jsonschema.validate(json.loads(ask(on, **fields, max_tokens=128)["choices"][0]["message"]["content"]), SCHEMA)
    jsonschema.validate(json.loads(joined(stream(on, **fields, max_tokens=128), "content")), SCHEMA)


def test_a_required_tool_is_called_streamed_and_not(on):
    fields = {"tools": [TOOL], "tool_choice": "required", **OFF}
    call = ask(on, **fields)["choices"][0]["message"]["tool_calls"][0]["function"]
    pieces = [
        call["function"]["arguments"]
        for chunk in stream(on, **fields)[:-1]
        for call in chunk["choices"][0]["delta"].get("tool_calls", [])
    ]
    assert call["name"] == "look_up"
    assert "".join(pieces) == call["arguments"]
    jsonschema.validate(json.loads(call["arguments"]), SCHEMA)


def test_a_repeated_prompt_hits_whole_blocks_and_is_faster(on):
    prompt = "warm " + "harbour " * 3000
    began = time.monotonic()
    cold = ask(on, prompt, max_tokens=1)
    between = time.monotonic()
    warm = ask(on, prompt, max_tokens=1)
    ended = time.monotonic()
    tokens = cold["usage"]["prompt_tokens"]
    assert cold["usage"]["prompt_tokens_details"]["cached_tokens"] == 0
    assert warm["usage"]["prompt_tokens_details"]["cached_tokens"] == ((tokens - 1) // 16 - 1) * 16
    assert between - began > ended - between
    salted = ask(on, prompt, max_tokens=1, cache_salt="other")
    assert salted["usage"]["prompt_tokens_details"]["cached_tokens"] == 0


def test_the_counters_agree_with_usage(on):
    before = counters(on)
    usages = [ask(on, f"number {number} " + "of many " * 40)["usage"] for number in (1, 2, 1)]
    after = counters(on)
    assert after.prompt_tokens - before.prompt_tokens == sum(usage["prompt_tokens"] for usage in usages)
    assert after.prefix_hits - before.prefix_hits == sum(u["prompt_tokens_details"]["cached_tokens"] for u in usages)


def test_a_word_is_a_token_and_tokenize_agrees_with_usage(on):
    counted = [ask(on, " ".join(["tree"] * words), max_tokens=1)["usage"]["prompt_tokens"] for words in (10, 1011)]
    assert counted[1] - counted[0] == 1001
    messages = [{"role": "user", "content": " ".join(["tree"] * 10)}]
    assert json.loads(fetch(on, "/tokenize", {"messages": messages}))["count"] == counted[0]


@pytest.mark.slow
def test_a_million_tokens_are_answered_in_seconds(tmp_path):
    with start_simulated("spec-on", tmp_path, time_scale=0.01) as fast:
        began = time.monotonic()
        answer = ask(fast, " ".join(["tree"] * 1_010_000), max_tokens=4)
        assert answer["usage"]["prompt_tokens"] > 1_010_000
        assert time.monotonic() - began < 30
        with pytest.raises(urllib.error.HTTPError, match="400"):
            ask(fast, " ".join(["tree"] * 1_050_000))


def test_the_step_time_is_kept(pair):
    _, off = pair
    began = time.monotonic()
    stream(off, max_tokens=100, **OFF)
    assert 0.006 + 99 * 0.004 <= time.monotonic() - began < 3


@pytest.mark.parametrize(
    ("body", "status", "param"),
    [
        (b"{", 400, None),
        (b"[]", 400, None),
        ({"model": "simulated-tp2"}, 400, "messages"),
        ({"model": "other", "messages": [{"role": "user", "content": "x"}]}, 404, "model"),
        (
            {"model": "simulated-tp2", "messages": [{"role": "user", "content": "x"}], "max_tokens": 0},
            400,
            "max_tokens",
        ),
        ({"model": "simulated-tp2", "messages": [{"role": "user", "content": 7}]}, 400, "messages"),
        ({"messages": [{"role": "u", "content": ""}], "structured_outputs": {"regex": "a"}}, 400, "structured_outputs"),
        ({"messages": [{"role": "u", "content": ""}], "cache_salt": "a/b"}, 400, "cache_salt"),
    ],
)
def test_a_request_that_it_cannot_serve_is_refused_and_it_lives_on(on, body, status, param):
    with pytest.raises(urllib.error.HTTPError) as caught:
        fetch(on, "/v1/chat/completions", body)
    error = json.load(caught.value)["error"]
    assert (caught.value.code, error["code"], error["param"]) == (status, status, param)
    assert error["message"]
    assert fetch(on, "/health") == b""


def test_it_reads_the_needle_that_it_is_asked_for():
    text = "Read a the code of red fox bone is ash elm oak fir and more. " * 1
    assert needle(text + "Now tell me what is the code of red fox bone and answer with four") == "ash elm oak fir"
    assert needle(text + "Now tell me what is the code of blue fox bone and answer") == "There is no such code"
    assert needle("Tell me of bones.") == ""


def test_an_unknown_arm_or_dialect_is_refused_by_name(tmp_path):
    with pytest.raises(ValueError, match="spec-on, spec-off"):
        SimulatedDeployment("both", tmp_path)
    with pytest.raises(ValueError, match="vllm"):
        SimulatedDeployment("spec-on", tmp_path, dialect="klingon")


def test_a_taken_port_is_a_clear_error(on, tmp_path, capsys):
    port = on.base_url.rpartition(":")[2]
    assert main(["--port", port]) == 4
    assert f"port {port} of 127.0.0.1 cannot be served" in capsys.readouterr().err


@given(st.text())
def test_tokens_joined_are_the_text(text):
    assert "".join(tokens_of(text)) == text


@given(st.lists(st.sampled_from(["tree", "stone", "a"]), min_size=1, max_size=200))
def test_tokens_are_additive_over_words(words):
    assert len(tokens_of(" ".join(words))) == len(words)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "integer", "minimum": 7, "multipleOf": 4},
        {"type": "string", "minLength": 60, "maxLength": 70},
        {"enum": ["a", "b"]},
        {"anyOf": [{"type": "string"}, {"type": "null"}]},
        {"type": "object", "properties": {"when": {"type": "string", "format": "date"}}, "required": ["when"]},
        {
            "$defs": {"n": {"type": "object", "properties": {"v": {"type": "integer"}}, "required": ["v"]}},
            "$ref": "#/$defs/n",
        },
    ],
)
def test_what_it_makes_obeys_the_schema(schema):
    jsonschema.validate(instance_of(schema), schema)


@pytest.mark.parametrize("schema", [{"type": "string", "pattern": "^z+$"}, {"type": "rubbish"}, {"$ref": "#/nowhere"}])
def test_a_schema_that_it_cannot_enforce_is_refused(schema):
    with pytest.raises(RefusedError, match="schema"):
        instance_of(schema)


def test_the_least_recently_used_blocks_leave_a_full_cache():
    cache = PrefixCache(block_tokens=2, capacity_blocks=4)
    assert cache.use(list("abcdef"), "", dropped_blocks=0) == 0
    assert cache.use(list("abcdef"), "", dropped_blocks=0) == 4  # 5 of 6 tokens may hit: two blocks of two
    assert cache.use(list("uvwxyz"), "", dropped_blocks=0) == 0  # pushes a and b out
    assert cache.use(list("abcdef"), "", dropped_blocks=0) == 0


def test_the_pace_is_what_it_says():
    pace = Pace(base_s=1, prefill_s=0.1, attention_s=0.01, step_s=2, crowding=0.5, acceptance=(0.75, 0.5), scale=10)
    assert pace.ttft_s(100, 60) == pytest.approx(10 * (1 + 4 + 64))
    assert pace.next_step_s(3) == 40
    drawn = [count for count, _ in zip(pace.accepted("seed"), range(4000), strict=False)]
    assert statistics.mean(drawn) == pytest.approx(0.75 + 0.75 * 0.5, abs=0.05)


@pytest.mark.parametrize("name", sorted(SCENARIOS))
@pytest.mark.parametrize("thinking", [Thinking.ON, Thinking.OFF])
def test_with_the_runs_seed_it_answers_every_scenario_rightly(on, name, thinking):
    fetch(on, "/simulator/seed", {"seed": "s", "challenge": "c"})
    scenario = SCENARIOS[name]
    case = scenario.generate(case_seed("s", "c", scenario.REQUIREMENT, name, 3))
    request = scenario.request(case, thinking=thinking, stream=True, max_tokens=1024, thinking_budget_tokens=64)
    deployment = Deployment(on.base_url)
    deployment.identify()
    exchange = deployment.exchange(request)
    deployment.close()
    score = scenario.score(case, exchange, read_answer(exchange))
    assert (score.grade, score.reason) == (Grade.RIGHT, score.reason)


def test_single_cases_can_be_named_and_a_wrong_name_is_refused(on):
    assert json.loads(fetch(on, "/simulator/seed", {"cases": [["json-prompt", "a"], ["tool-typed", "b"]]})) == {
        "cases": 2
    }
    with pytest.raises(urllib.error.HTTPError, match="400"):
        fetch(on, "/simulator/seed", {"cases": [["no-such", "a"]]})


def test_the_suite_sees_a_vllm_with_two_ranks(on):
    deployment = Deployment(on.base_url)
    identity, _ = deployment.identify()
    answer = read_answer(deployment.exchange(ChatRequest((Message("user", "Hello"),), 16, thinking=Thinking.OFF)))
    count = deployment.tokenize((Message("user", "Hello"),), Thinking.OFF)
    deployment.close()
    assert (identity.engine, identity.version, identity.context_tokens) == ("vllm", "0.33.0", 1_048_576)
    assert identity.simulated
    assert answer.violations == ()
    assert count == answer.usage.prompt_tokens
