"""The strict order of every score: infra, protocol, budget, format, schema, value. Each scenario adds only its form."""

from collections.abc import Callable

from certify.cases.envelope import Breach, blank_run, faults, no_answer, refusal
from certify.cases.scoring import Case, Grade, Score
from certify.cases.strict import Exact, NotStrictJson, first_difference, read_exact, schema_breach, shown
from certify.records import Exchange, Json, Thinking
from certify.wire.answer import Answer

LONGEST_QUOTE = 2_000
RIGHT = Score(Grade.RIGHT, "every value is as it must be")


def graded(
    exchange: Exchange, answer: Answer, judge_form: Callable[[], Score], *, literals: tuple[str, ...] = ()
) -> Score:
    """The score of an answer: what stands before its form, else what `judge_form` says of it.

    A form that fails while the answer was cut by `max_tokens` scores as the cut: BUDGET when thinking took the tokens,
    FORMAT when it did not, or when blanks ran away.
    """
    asked = exchange.asked
    if refused := refusal(asked, exchange, answer):
        return Score(Grade.REFUSED, refused, _quote(answer))
    if broken := no_answer(exchange, answer):
        return Score(Grade.INFRA, broken, _quote(answer))
    protocol = [f.text for f in faults(asked, exchange, answer, literals=literals) if f.breach is Breach.PROTOCOL]
    if protocol:
        more = f" (and {len(protocol) - 1} more)" if len(protocol) > 1 else ""
        return Score(Grade.PROTOCOL, protocol[0] + more, _quote(answer))
    score = judge_form()
    if score.grade is not Grade.FORMAT:
        return score
    return _cut(exchange, answer) or score


def _cut(exchange: Exchange, answer: Answer) -> Score | None:
    for where, text in (("content", answer.content), *(("arguments", call.arguments) for call in answer.tool_calls)):
        if run := blank_run(text):
            return Score(Grade.FORMAT, f"{run} in the {where}", _quote(answer))
    if answer.finish_reason != "length":
        return None
    asked = exchange.asked
    thought = asked.thinking is Thinking.ON or (asked.thinking is Thinking.UNSAID and bool(answer.reasoning))
    if not thought:
        return Score(Grade.FORMAT, f"the answer was cut at max_tokens ({asked.max_tokens})", _quote(answer))
    begun = "the answer was cut" if answer.content or answer.tool_calls else "no answer was begun"
    used = f"thinking took {len(answer.reasoning)} characters of the {asked.max_tokens} tokens allowed"
    return Score(Grade.BUDGET, f"{used}, and {begun}", _quote(answer))


def json_content(case: Case, answer: Answer) -> Score:
    """The score of a content that must be one JSON object equal to the case's truth, under `detail["schema"]`."""
    if answer.tool_calls:
        return Score(Grade.FORMAT, f"{len(answer.tool_calls)} tool calls came where text was asked for", _quote(answer))
    try:
        value = read_exact(answer.content)
    except NotStrictJson as departure:
        where = f" ({len(answer.reasoning)} characters came as reasoning)" if answer.reasoning else ""
        return Score(Grade.FORMAT, f"the content {departure}{'' if answer.content.strip() else where}", _quote(answer))
    return values(case.detail["schema"], case.truth, value, answer)


def values(schema: Json, truth: Json, value: Exact, answer: Answer) -> Score:
    """SCHEMA, VALUE or RIGHT for a value that came in the right form."""
    if not isinstance(value, dict):
        return Score(Grade.FORMAT, f"expected one JSON object, got {shown(value)}", _quote(answer))
    if breach := schema_breach(schema, value):
        return Score(Grade.SCHEMA, breach, _quote(answer))
    if difference := first_difference(truth, value):
        return Score(Grade.VALUE, difference, _quote(answer))
    return RIGHT


def _quote(answer: Answer) -> str:
    calls = "".join(f"\n{call.name}({call.arguments})" for call in answer.tool_calls[:8])
    return (answer.content[:LONGEST_QUOTE] + calls)[:LONGEST_QUOTE]
