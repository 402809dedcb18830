import pytest

from certify.cases.envelope import envelope_faults
from certify.cases.laws import broken_laws
from certify.records import Failure, FailureKind, Thinking, Usage
from certify.wire.answer import Answer, Chunk
from tests.case_answers import answered, asked, exchange

TOOLS = ("add", "sub")


def said(answer, *, status=200, failure=None, literals=(), **facts):
    of = asked(**facts)
    return envelope_faults(of, exchange(of, status=status, failure=failure), answer, literals=literals)


@pytest.mark.parametrize(
    ("answer", "facts"),
    [
        (answered("Hello, world"), {}),
        (answered("Hel", finish="length"), {}),
        (answered("Hi", reasoning="thought"), {"thinking": Thinking.ON}),
        (answered(None, reasoning="thought", finish="length"), {"thinking": Thinking.ON}),
        (answered("", finish="stop"), {}),
        (answered(None, reasoning="ended within"), {"thinking": Thinking.ON, "stream": True}),
        (answered(None, calls=[("add", '{"a":1}'), ("sub", "{}")]), {"tools": TOOLS}),
        (answered("", calls=[("add", "{}")], finish="stop"), {"tools": TOOLS, "tool_choice": "add"}),
        (answered("", calls=[("add", "{}"), ("sub", '{"a')], finish="length"), {"tools": TOOLS}),
        (answered("cut inside a character \ufffd", finish="length"), {"constrained": True}),
        (answered("half a character \ufffd said by the model itself"), {}),
        (answered("if a < b and c > d or x | y: <b>bold</b> [1]" + " " * 63 + "."), {}),
        (Answer(content="no [DONE]", usage=Usage(1, 2), finish_reasons=("stop",)), {}),
    ],
)
def test_an_honest_answer_has_no_fault(answer, facts):
    assert said(answer, **facts) == ()


@pytest.mark.parametrize(
    ("answer", "facts", "fault"),
    [
        (answered("x", violations=("choices is missing",)), {}, "documented shape: choices is missing"),
        (Answer(content="x", usage=Usage(1, 1)), {}, "0 finish reasons"),
        (Answer(content="x", usage=Usage(1, 1), finish_reasons=("stop", "stop")), {}, "2 finish reasons"),
        (answered("x", finish="abort"), {}, 'finish reason "abort"'),
        (answered("x", finish="tool_calls"), {"tools": TOOLS}, "no tool call came"),
        (answered("x", calls=[("add", "{}")], finish="stop"), {"tools": TOOLS, "tool_choice": "auto"}, "1 tool calls"),
        (answered("x", calls=[("add", "{}")]), {"tools": TOOLS, "tool_choice": "none"}, "tool_choice none"),
        (answered(None), {}, "content is null"),
        (answered(None, reasoning="all of it"), {"thinking": Thinking.ON}, "9 characters came as reasoning"),
        (answered("x", reasoning="thought"), {}, "thinking was asked off"),
        (answered("x</think>y"), {}, "thinking markup"),
        (answered("◁think▷"), {}, "thinking markup"),
        (answered("<|channel|>analysis"), {}, "thinking markup"),
        (answered("[THINK]"), {}, "thinking markup"),
        (answered("<function=add>"), {}, "tool markup"),
        (answered("<|tool_calls_section_begin|>"), {}, "tool markup"),
        (answered("<｜DSML｜invoke"), {}, "tool markup"),
        (answered("<｜tool▁calls▁begin｜>"), {}, "tool markup"),
        (answered("<｜begin▁of▁sentence｜>"), {}, "template markup"),
        (answered("<end_of_turn>"), {}, "template markup"),
        (
            answered("", calls=[("add", '{"a":"</tool_call>"}')]),
            {"tools": TOOLS},
            "leaked into the arguments of call 0",
        ),
        (Answer(content="x", finish_reasons=("stop",)), {}, "no usage"),
        (answered("x", usage=Usage(3, 4, 8)), {}, "total_tokens 8, but prompt 3 + completion 4 is 7"),
        (answered("x", usage=Usage(3, 0, 3)), {}, "completion_tokens 0"),
        (answered("", calls=[("mul", "{}")]), {"tools": TOOLS}, "unknown tool"),
        (answered("", calls=[("", "{}")]), {"tools": TOOLS}, "unknown tool"),
        (answered("", calls=[("add", "{}"), ("sub", "{}")], ids=["a", "a"]), {"tools": TOOLS}, "came 2 times"),
        (answered("", calls=[("add", "{}")], ids=[""]), {"tools": TOOLS}, "without an id"),
        (answered("", calls=[("add", '"{}"')]), {"tools": TOOLS}, "not a JSON object"),
        (answered("", calls=[("add", "[" * 50_000)]), {"tools": TOOLS}, "not JSON"),
        (answered("", calls=[("add", "[" * 70_000)]), {"tools": TOOLS}, "70000 characters long"),
        (answered("a\x00b"), {}, "NUL"),
        (answered("a\ufffdb", finish="length"), {"constrained": True}, "U+FFFD"),
        (answered("a" + "\n" * 64), {}, "64 blanks in a row from character 1"),
        (answered("x", truncated=True), {}, "longer than the client keeps"),
        (answered("x", error="engine died"), {}, 'an error in place of the answer: "engine died"'),
    ],
)
def test_each_fault_is_told_in_one_sentence(answer, facts, fault):
    faults = said(answer, **facts)
    assert len(faults) == 1
    assert fault in faults[0]


def test_calls_with_a_gap_in_their_indices_are_a_fault():
    answer = answered("", calls=[("add", "{}"), ("sub", "{}")])
    gap = (answer.tool_calls[0], type(answer.tool_calls[1])(2, "z", "sub", "{}"))
    faults = said(Answer(tool_calls=gap, finish_reasons=("tool_calls",), usage=Usage(1, 1)), tools=TOOLS)
    assert faults == ("the tool calls have the indices [0, 2], expected 0 to 1",)


def test_markup_that_the_prompt_asked_for_is_no_leak_raw_or_escaped():
    literal = 'a "</think>" b'
    assert said(answered(f"copy: {literal}"), literals=(literal,)) == ()
    assert said(answered('{"copy":"a \\"</think>\\" b"}'), literals=(literal,)) == ()
    assert len(said(answered(f"{literal}</think>"), literals=(literal,))) == 1


def test_a_refusal_that_names_the_constraint_keeps_the_envelope_and_no_other_error_does():
    refusing = answered("", error="response_format is not supported")
    assert said(refusing, status=400, constrained=True) == ()
    assert said(refusing, status=400) == ('HTTP status 400 instead of 200: "response_format is not supported"',)
    assert len(said(answered("", error="max_tokens is too large"), status=400, constrained=True)) == 1


def test_a_broken_exchange_is_one_fault_whatever_came_of_it():
    broken = Failure(FailureKind.SILENCE, "nothing came for 30 s")
    assert said(Answer(), status=200, failure=broken) == ("the exchange broke (silence): nothing came for 30 s",)


@pytest.mark.parametrize(
    ("usage", "facts"),
    [
        (Usage(10, 5, 15, 8, 2), {}),
        (Usage(10, 5), {}),
        (Usage(10, 256), {"ignore_eos": True, "finish": "length"}),
        (Usage(10, 200), {"ignore_eos": True, "finish": "stop"}),
        (Usage(10, 200), {"finish": "length"}),
        (Usage(10, 5, 15, 10, 5), {}),
    ],
)
def test_honest_usage_breaks_no_law(usage, facts):
    of = asked(ignore_eos=facts.get("ignore_eos", False))
    assert broken_laws(of, answered("text", usage=usage, finish=facts.get("finish", "stop"))) == ()


@pytest.mark.parametrize(
    ("answer", "ignore_eos", "law"),
    [
        (Answer(content="x", finish_reasons=("stop",)), False, "no `usage`"),
        (answered("x", usage=Usage(10, 5, 14)), False, "total_tokens 14, but prompt 10 + completion 5 is 15"),
        (answered("x", usage=Usage(10, 5, 15, 11)), False, "cached_tokens 11, more than its prompt_tokens 10"),
        (answered("x", usage=Usage(10, 5, 15, 0, 6)), False, "reasoning_tokens 6, more than its completion_tokens 5"),
        (answered("x", usage=Usage(10, 257)), False, "completion_tokens 257, more than the 256 allowed"),
        (answered("four", usage=Usage(10, 0)), False, "4 characters of output came"),
        (answered("x", usage=Usage(0, 5)), False, "prompt_tokens 0"),
        (answered("x", usage=Usage(10, -5)), False, "a count below zero"),
        (answered("x", usage=Usage(10, 255), finish="length"), True, "clamped"),
    ],
)
def test_a_law_that_is_broken_is_told_with_its_numbers(answer, ignore_eos, law):
    broken = broken_laws(asked(ignore_eos=ignore_eos), answer)
    assert law in " ".join(broken)


def chunks(*running):
    return tuple(Chunk(read, True, False, False, tokens) for read, tokens in enumerate(running))


@pytest.mark.parametrize(
    ("running", "broken"),
    [
        ((1, 3, 5), ()),
        ((None, None), ()),
        ((1, None, 5), ()),
        ((2, 1, 5), ("the running usage falls from 2 to 1 tokens within the stream",)),
        ((1, 4), ("the running usage ends at 4 tokens, but the final usage says completion_tokens 5",)),
    ],
)
def test_running_usage_grows_to_the_final_usage(running, broken):
    assert broken_laws(asked(), answered("x", usage=Usage(10, 5), chunks=chunks(*running))) == broken


def test_two_usages_of_the_whole_are_one_too_many():
    answer = Answer(content="x", finish_reasons=("stop",), usage=Usage(10, 5), usages=2)
    assert broken_laws(asked(), answer) == ("2 usage objects spoke of the whole answer instead of one",)
