"""Every recorded exchange of real engines, against a reading that shares no code with the suite's."""

import json
from typing import Any

import pytest
from capture_files import ALL, CHAT, KEPT, Capture, captures, metrics_page

from certify.records import ToolCall, Usage
from certify.wire.answer import Answer, read_answer
from certify.wire.counters import read_counters, relevant_lines

EXPECTED = json.loads((KEPT / "expected.json").read_text())
BY_NAME = {capture.name: capture for capture in captures(KEPT)}


def naive(capture: Capture) -> dict[str, Any]:
    """Split at line ends, json.loads, join: no events, no stamps, no distrust."""
    body = capture.text
    if not capture.streamed:
        value = json.loads(body)
        choice = value["choices"][0] if value.get("choices") else {}
        return fields([choice.get("message", {})], [choice], [value.get("usage")])
    values = [json.loads(line[5:]) for line in body.splitlines() if line.startswith("data:") and "[DONE]" not in line]
    choices = [choice for value in values for choice in value.get("choices", []) if choice["index"] == 0]
    return fields(
        [choice.get("delta", {}) for choice in choices],
        choices,
        [value.get("usage") for value in values if value.get("usage")],
    )


def fields(parts: list[Any], choices: list[Any], usages: list[Any]) -> dict[str, Any]:
    calls: dict[int, list[str]] = {}
    for part in parts:
        for position, sent in enumerate(part.get("tool_calls") or []):
            call = calls.setdefault(sent.get("index", position), ["", "", ""])
            call[0] += sent.get("id") or ""
            call[1] += sent["function"].get("name") or ""
            call[2] += sent["function"].get("arguments") or ""
    usage = usages[-1] if usages else None
    return {
        "content": "".join(part.get("content") or "" for part in parts),
        "reasoning": "".join(part.get("reasoning") or part.get("reasoning_content") or "" for part in parts),
        "finish": [choice["finish_reason"] for choice in choices if choice.get("finish_reason")],
        "usage": usage and counts(usage),
        "tools": [[index, *call] for index, call in sorted(calls.items())],
    }


def counts(usage: dict[str, Any]) -> list[int | None]:
    return [
        usage.get("prompt_tokens"),
        usage.get("completion_tokens"),
        usage.get("total_tokens"),
        (usage.get("prompt_tokens_details") or {}).get("cached_tokens"),
        (usage.get("completion_tokens_details") or {}).get("reasoning_tokens"),
    ]


def naive_message(capture: Capture) -> str:
    value = json.loads(capture.text)
    inner = value.get("error", value)
    return inner if isinstance(inner, str) else inner.get("message") or inner["detail"]


def told(answer: Answer) -> dict[str, Any]:
    usage = answer.usage
    return {
        "content": answer.content,
        "reasoning": answer.reasoning,
        "finish": list(answer.finish_reasons),
        "usage": usage and counted(usage),
        "tools": [listed(call) for call in answer.tool_calls],
    }


def counted(usage: Usage) -> list[int | None]:
    return [
        usage.prompt_tokens,
        usage.completion_tokens,
        usage.total_tokens,
        usage.cached_tokens,
        usage.reasoning_tokens,
    ]


def listed(call: ToolCall) -> list[Any]:
    return [call.index, call.call_id, call.name, call.arguments]


def by_kind(found: list[Capture]) -> dict[str, list[Capture]]:
    kinds: dict[str, list[Capture]] = {"chat": [], "refused": [], "completions": [], "other": []}
    for capture in found:
        refused = capture.exchange.status != 200
        kind = {CHAT: "chat", "/v1/completions": "completions"}.get(capture.path, "other")
        kinds["refused" if refused else kind].append(capture)
    return kinds


@pytest.fixture(scope="module")
def recorded() -> dict[str, list[Capture]]:
    if not ALL.is_dir():
        pytest.skip(f"the whole set of recorded traffic is not beside this checkout ({ALL.parent.name}/{ALL.name})")
    return by_kind(captures(ALL))


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_a_kept_capture_says_exactly_this(name):
    answer = read_answer(BY_NAME[name].exchange)
    error = answer.error and [answer.error.code, answer.error.type, answer.error.message]
    assert told(answer) | {"error": error, "violations": list(answer.violations)} == EXPECTED[name]


def test_every_kept_capture_is_expected():
    assert set(BY_NAME) == set(EXPECTED)


@pytest.mark.may_skip
def test_every_chat_completion_reads_as_naively(recorded):
    assert len(recorded["chat"]) > 250
    for capture in recorded["chat"]:
        assert told(read_answer(capture.exchange)) == naive(capture), capture


@pytest.mark.may_skip
def test_no_chat_completion_departs_from_the_documented_shape_but_those_with_two_choices(recorded):
    departed = {capture.name for capture in recorded["chat"] if read_answer(capture.exchange).violations}
    assert len(departed) == 2
    assert all("n2" in name for name in departed)


@pytest.mark.may_skip
def test_every_chunk_lies_in_a_read_that_holds_its_end(recorded):
    streams = [capture for capture in recorded["chat"] if capture.streamed]
    for capture in streams:
        answer, sizes = read_answer(capture.exchange), capture.exchange.reads.sizes
        assert [chunk.read for chunk in answer.chunks] == sorted(chunk.read for chunk in answer.chunks), capture
        assert sum(sizes) == len(capture.exchange.body), capture
        assert all(0 <= chunk.read < len(sizes) for chunk in answer.chunks), capture
        assert len(answer.chunks) == capture.text.count('"index":0,"delta"') or "llamacpp" in capture.name, capture


@pytest.mark.may_skip
def test_every_refusal_is_an_error_and_nothing_else(recorded):
    assert len(recorded["refused"]) > 60
    for capture in recorded["refused"]:
        answer = read_answer(capture.exchange)
        assert answer.error is not None, capture
        assert answer.error.code == capture.exchange.status, capture
        assert answer.error.message == naive_message(capture), capture
        assert (answer.content, answer.usage, answer.finish_reasons, answer.violations) == ("", None, (), ()), capture


@pytest.mark.may_skip
def test_a_text_completion_has_usage_and_finish_and_is_named_as_no_chat(recorded):
    broken_off = {"sse-client-abort.txt", "worker-killed.txt"}
    for capture in recorded["completions"]:
        answer, expected = read_answer(capture.exchange), naive(capture)
        assert told(answer) | {"usage": None} == expected | {"usage": None}, capture
        assert (answer.usage is None) == (capture.name.rpartition("/")[2] in broken_off), capture
        assert any("is missing or not an object" in sentence for sentence in answer.violations), capture


@pytest.mark.may_skip
def test_what_is_no_completion_has_no_text_and_says_why(recorded):
    for capture in recorded["other"]:
        answer = read_answer(capture.exchange)
        assert (answer.content, answer.usage, answer.finish_reasons) == ("", None, ()), capture
        assert answer.violations, capture


@pytest.mark.may_skip
def test_the_killed_worker_ends_in_an_error_and_done_without_finish_or_usage(recorded):
    killed = next(capture for capture in recorded["completions"] if "worker-killed" in capture.name)
    answer = read_answer(killed.exchange)
    assert (answer.error.code, answer.error.type, answer.done_marker) == (500, "InternalServerError", True)
    assert (answer.finish_reasons, answer.usage) == ((), None)


@pytest.mark.may_skip
def test_the_counters_of_every_page_are_those_of_a_plain_search(recorded):
    pages = [path for path in sorted(ALL.rglob("*")) if path.name.startswith(("metrics-", "get_metrics"))]
    assert recorded
    assert len(pages) > 100
    for path in pages:
        page = metrics_page(path)
        counters = read_counters(relevant_lines(page))
        assert counters == read_counters(page), path
        assert counters.generation_tokens == plain(
            page, "vllm:generation_tokens_total", "llamacpp:tokens_predicted_total"
        ), path
        assert (counters.accepted_tokens or 0) == sum(counters.accepted_per_position), path


def plain(page: str, *names: str) -> int:
    lines = [
        line for line in page.splitlines() if line.startswith(tuple(f"{name}{end}" for name in names for end in "{ "))
    ]
    return sum(int(float(line.split()[-1])) for line in lines)
