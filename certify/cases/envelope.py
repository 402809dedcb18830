"""The envelope that every answer keeps, whatever was asked and whatever the model says.

Seen here is what one exchange shows: status and shape, one finish reason that agrees with the body, content that is
text, no markup of thinking, tools or template in it, `usage`, well-formed tool calls, no broken characters. Whether
thinking came in the majority of an arm, and whether streams equal whole bodies, takes several exchanges.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from certify.cases.laws import usage_faults
from certify.cases.strict import LONGEST_ANSWER, shown
from certify.records import Asked, Exchange, Thinking, ToolCall
from certify.wire.answer import Answer

_OK = 200
_KNOWN_FINISHES = ("stop", "length", "tool_calls")
# The blank run that no right answer of any case comes near: grammars that leave white space unbounded run into it.
_RUN_OF_BLANKS = re.compile(r"\s{64,}")
_REPLACEMENT = "\ufffd"

_MARKUP = (
    (
        "thinking",
        re.compile(
            r"</?think(?:ing)?>|</?(?:seed|mm):think>|◁/?think▷|\[/?THINK\]|<\|/?(?:START|END)_THINKING\|?>"
            r"|<\|channel\|?>|<\|(?:begin|end)_of_thought\|>",
            re.IGNORECASE,
        ),
    ),
    (
        "tool",
        re.compile(
            r"</?(?:[a-z]+:)?tool_calls?>|<function=|</function>|<parameter=|</parameter>|</?arg_(?:key|value)>"
            r"|<\|tool_calls?(?:_section)?(?:_begin|_end)?\|>|<[|｜]tool▁[^<>]{0,40}[|｜]>|</?[|｜]DSML[|｜]"
            r"|\[/?TOOL_CALLS\]|<\|python_tag\|>|<\|(?:plugin|action_start|action_end|interpreter)\|>",
            re.IGNORECASE,
        ),
    ),
    (
        "template",
        re.compile(
            r"<\|[a-z0-9_▁ ]{2,40}\|>|<｜[^｜<>]{1,40}｜>|</?(?:start|end)_of_turn>|</s>|<(?:bos|eos|pad|unk)>"
            r"|\[/?INST\]",
            re.IGNORECASE,
        ),
    ),
)

# A 4xx that names the constraint is an honest gap. One that does not is a failure like any other.
_REFUSING = frozenset({400, 404, 415, 422, 501})
_CONSTRAINT = re.compile(
    r"response_format|json_schema|structured[ _]output|guided|grammar|constrain|\bregex\b|\bschema\b", re.IGNORECASE
)


class Breach(Enum):
    """Which kind of fault a sentence speaks of."""

    INFRASTRUCTURE = "infrastructure"
    PROTOCOL = "protocol"
    BLANKS = "blanks"


@dataclass(frozen=True, slots=True)
class Fault:
    """One departure from the envelope, in one sentence."""

    breach: Breach
    text: str


def envelope_faults(
    asked: Asked, exchange: Exchange, answer: Answer, *, literals: tuple[str, ...] = ()
) -> tuple[str, ...]:
    """Each departure from the envelope that one exchange shows, in one sentence; () when it keeps it.

    `literals` are texts with markup or odd characters that the prompt itself asked for: they are no leak. A refusal
    that names the constraint it cannot serve keeps the envelope.
    """
    return tuple(fault.text for fault in faults(asked, exchange, answer, literals=literals))


def faults(asked: Asked, exchange: Exchange, answer: Answer, *, literals: tuple[str, ...] = ()) -> tuple[Fault, ...]:
    """The same with their kinds; when no answer came, that is the only fault."""
    if refusal(asked, exchange, answer):
        return ()
    if broken := no_answer(exchange, answer):
        return (Fault(Breach.INFRASTRUCTURE, broken),)
    return (
        *(Fault(Breach.PROTOCOL, text) for text in _protocol(asked, answer, literals)),
        *(Fault(Breach.BLANKS, text) for text in _blanks(answer)),
    )


def refusal(asked: Asked, exchange: Exchange, answer: Answer) -> str:
    """The sentence of an honest refusal (a 4xx on a constrained request that names the constraint), else ""."""
    if not asked.constrained or exchange.failure or exchange.status not in _REFUSING or answer.error is None:
        return ""
    if not _CONSTRAINT.search(answer.error.message[:LONGEST_ANSWER]):
        return ""
    return f"HTTP {exchange.status} refuses the constraint: {shown(answer.error.message)}"


def no_answer(exchange: Exchange, answer: Answer) -> str:
    """Why no whole answer came (connection, HTTP status, an error in the stream), "" when one did."""
    if exchange.failure:
        return f"the exchange broke ({exchange.failure.kind.value}): {exchange.failure.message[:200]}"
    told = f": {shown(answer.error.message)}" if answer.error else ""
    if exchange.status != _OK:
        return f"HTTP status {exchange.status} instead of {_OK}{told}"
    if answer.error:
        return f"HTTP status 200, then an error in place of the answer{told}"
    return ""


def blank_run(text: str) -> str:
    """A sentence on a white-space run-away in `text`, "" when there is none."""
    found = _RUN_OF_BLANKS.search(text)
    if not found:
        return ""
    return f"white space runs away: {len(found.group())} blanks in a row from character {found.start()}"


def _protocol(asked: Asked, answer: Answer, literals: tuple[str, ...]) -> Iterator[str]:
    for violation in answer.violations:
        yield f"departs from the documented shape: {violation}"
    if answer.truncated:
        yield "the body is longer than the client keeps"
    yield from _finish(asked, answer)
    yield from _content(asked, answer)
    yield from _leaks(answer, literals)
    yield from _usage(answer)
    yield from _calls(asked, answer)
    yield from _characters(asked, answer, literals)


def _finish(asked: Asked, answer: Answer) -> Iterator[str]:
    if len(answer.finish_reasons) != 1:
        yield f"{len(answer.finish_reasons)} finish reasons came instead of one"
    reason = answer.finish_reason
    if reason and reason not in _KNOWN_FINISHES:
        yield f"finish reason {shown(reason)}: expected stop, length or tool_calls"
    if reason == "tool_calls" and not answer.tool_calls:
        yield "finish reason tool_calls, but no tool call came"
    # With a named tool the call ends with `stop`: OpenAI's own rule, and vLLM's.
    named = asked.tool_choice not in {"", "auto", "none", "required"}
    if reason == "stop" and answer.tool_calls and not named:
        yield f"finish reason stop, but {len(answer.tool_calls)} tool calls came"


def _content(asked: Asked, answer: Answer) -> Iterator[str]:
    cut_in_thinking = bool(answer.reasoning) and answer.finish_reason == "length"
    # A stream need not say anything of a content that never came; a whole body has to say "".
    if answer.content_is_null and not asked.stream and not answer.tool_calls and not cut_in_thinking:
        where = f" ({len(answer.reasoning)} characters came as reasoning)" if answer.reasoning else ""
        yield f"content is null and no tool was called{where}"
    if asked.thinking is Thinking.OFF and answer.reasoning.strip():
        yield f"thinking was asked off, but {len(answer.reasoning)} characters of reasoning came"


def _texts(answer: Answer) -> Iterator[tuple[str, str]]:
    yield "content", answer.content
    for call in answer.tool_calls:
        yield f"arguments of call {call.index}", call.arguments


def _leaks(answer: Answer, literals: tuple[str, ...]) -> Iterator[str]:
    for where, text in _texts(answer):
        searched = _without(text, literals)
        for kind, pattern in _MARKUP:
            if found := pattern.search(searched):
                yield f"{kind} markup {shown(found.group())} leaked into the {where}"
                break


def _without(text: str, literals: tuple[str, ...]) -> str:
    for literal in literals:
        # Inside a JSON string the literal stands escaped.
        text = text.replace(literal, " ").replace(json.dumps(literal, ensure_ascii=False)[1:-1], " ")
    return text


def _usage(answer: Answer) -> Iterator[str]:
    if answer.usage is None:
        yield "no usage came"
        return
    yield from usage_faults(answer.usage)
    came = answer.content or answer.reasoning or answer.tool_calls
    if came and answer.usage.completion_tokens < 1:
        yield f"output came, but usage says completion_tokens {answer.usage.completion_tokens}"


def _calls(asked: Asked, answer: Answer) -> Iterator[str]:
    calls = answer.tool_calls
    if calls and asked.tool_choice == "none":
        yield f"tool_choice none, but {len(calls)} tool calls came"
    indices = [call.index for call in calls]
    if sorted(indices) != list(range(len(calls))):
        yield f"the tool calls have the indices {shown(indices)}, expected 0 to {len(calls) - 1}"
    for call_id, times in Counter(call.call_id for call in calls).items():
        if not call_id:
            yield f"{times} tool calls came without an id"
        elif times > 1:
            yield f"the tool call id {shown(call_id)} came {times} times"
    last = max(indices, default=0)
    for call in calls:
        if call.name not in asked.tools:
            yield f"call {call.index} names the unknown tool {shown(call.name)}, expected one of {shown(asked.tools)}"
        cut = answer.finish_reason == "length" and call.index == last
        if not cut and (fault := _arguments_fault(call)):
            yield fault


def _arguments_fault(call: ToolCall) -> str:
    if len(call.arguments) > LONGEST_ANSWER:
        return f"the arguments of call {call.index} are {len(call.arguments)} characters long"
    try:
        value = json.loads(call.arguments)
    except (ValueError, RecursionError) as error:
        return f"the arguments of call {call.index} are not JSON ({str(error)[:80]}): {shown(call.arguments)}"
    if not isinstance(value, dict):
        return f"the arguments of call {call.index} are not a JSON object: {shown(call.arguments)}"
    return ""


def _characters(asked: Asked, answer: Answer, literals: tuple[str, ...]) -> Iterator[str]:
    for where, raw in _texts(answer):
        text = _without(raw, literals)
        if "\x00" in text:
            yield f"a NUL character in the {where}"
        if answer.finish_reason == "length":
            text = text.rstrip(_REPLACEMENT)  # a cut may fall inside a character
        # A model whose tokens are bytes can say half a character by itself (SmolLM2-135M at temperature 0: in one of
        # five free answers). A grammar lets it say whole ones only, so there it was broken on the way.
        if asked.constrained and _REPLACEMENT in text:
            yield f"a replacement character (U+FFFD) in the {where}: a character was broken on the way"


def _blanks(answer: Answer) -> Iterator[str]:
    for where, text in _texts(answer):
        if run := blank_run(text):
            yield f"{run} in the {where}"
