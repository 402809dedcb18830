"""tool-typed: one call of the right tool among four to eight, every argument of exactly the right type.

The baits: an integer beyond 2**53 (a float loses its last digit), digits that are text (leading zeros), a decimal, a
null, booleans, an enum, an object and an array inside.
"""

from certify.cases.grading import LONGEST_QUOTE, graded, values
from certify.cases.picks import Picks
from certify.cases.scoring import Case, Grade, Score
from certify.cases.strict import NotStrictJson, read_exact, shown
from certify.cases.words import CITIES, PEOPLE
from certify.records import ChatRequest, Exchange, Json, Message, Thinking, Tool
from certify.wire.answer import Answer

NAME = "tool-typed"
REQUIREMENT = "QUAL-TOOL-05"
CONSTRAINED = False

_BEYOND_FLOAT = 2**53
_TEXT: Json = {"type": "string"}
_INTEGER: Json = {"type": "integer"}
_NUMBER: Json = {"type": "number"}
_FLAG: Json = {"type": "boolean"}
_TEXT_OR_NULL: Json = {"anyOf": [_TEXT, {"type": "null"}]}

# The tools that a case may ask for: what they do, and the names of their eight arguments, whose types are the same for
# all: serial (integer), measure (number), code (text of digits), flag, note (text or null), mode (enum), to (object),
# stops (array of integers).
_TARGETS: dict[str, tuple[str, tuple[str, ...], tuple[str, ...]]] = {
    "register_parcel": (
        "Register a parcel for shipping.",
        ("serial", "weight_kg", "postal_code", "fragile", "note", "service", "receiver", "stops"),
        ("economy", "express", "overnight"),
    ),
    "book_transfer": (
        "Book a bank transfer.",
        ("account", "amount", "reference", "urgent", "memo", "method", "payee", "batches"),
        ("wire", "card", "cash"),
    ),
    "schedule_visit": (
        "Schedule a technician's visit.",
        ("ticket", "hours", "badge", "paid", "remark", "slot", "contact", "rooms"),
        ("morning", "noon", "evening"),
    ),
    "log_sample": (
        "Log a laboratory sample.",
        ("sample", "volume_ml", "rack", "sterile", "comment", "storage", "sender", "tests"),
        ("frozen", "cooled", "dry"),
    ),
}
_OTHERS: dict[str, tuple[str, dict[str, Json]]] = {
    "get_weather": ("Weather of a city.", {"city": _TEXT}),
    "convert_currency": ("Convert an amount.", {"amount": _NUMBER, "into": _TEXT}),
    "set_alarm": ("Set an alarm.", {"hour": _INTEGER, "minute": _INTEGER}),
    "find_person": ("Look up a person.", {"name": _TEXT}),
    "cancel_order": ("Cancel an order.", {"order_no": _TEXT}),
    "play_music": ("Play a song.", {"title": _TEXT}),
    "translate_text": ("Translate a text.", {"text": _TEXT, "language": _TEXT}),
    "read_sensor": ("Read a sensor.", {"sensor": _INTEGER}),
}
_NOTES = ("ring twice", "back door", "bring the keys", "before noon", "ask for Ana", "second floor")


def generate(seed: str) -> Case:
    """The case of a seed: a task that one tool fits, with every value spelled out.

    `truth` is {"name", "arguments"}; its integers go beyond 2**53, so it is not RFC 8785 material. `detail["tools"]`
    are the tools as objects with name, description, parameters.
    """
    picks = Picks(seed, NAME)
    target = picks.one(tuple(_TARGETS))
    description, names, modes = _TARGETS[target]
    others = picks.several(tuple(_OTHERS), picks.between(3, 7))
    thousandths = picks.between(1_001, 99_999)
    arguments: dict[str, Json] = dict(
        zip(
            names,
            (
                # Odd, so that the nearest double is another number.
                _BEYOND_FLOAT + 2 * picks.below(2**40) + 1,
                (thousandths - thousandths % 10 + picks.between(1, 9)) / 1_000,
                f"00{picks.digits(4)}",
                picks.flip(),
                picks.one(_NOTES) if picks.flip() else None,
                picks.one(modes),
                {"name": picks.one(PEOPLE), "city": picks.one(CITIES)},
                picks.several(range(1, 60), picks.between(2, 4)),
            ),
            strict=True,
        )
    )
    tools: list[Json] = [
        {"name": target, "description": description, "parameters": _target_parameters(names, modes)},
        *({"name": name, "description": _OTHERS[name][0], "parameters": _closed(_OTHERS[name][1])} for name in others),
    ]
    prompt = (
        f"Task: {description} Call the one tool that fits, exactly once, with these values, each in the type that the "
        f"tool declares, digits exactly as given:\n{_told(arguments)}"
    )
    truth: Json = {"name": target, "arguments": arguments}
    return Case(NAME, seed, prompt, truth, {"tools": picks.shuffled(tools)})


def _told(arguments: dict[str, Json]) -> str:
    lines = []
    for name, value in arguments.items():
        match value:
            case bool():
                text = "yes" if value else "no"
            case None:
                text = "none (null)"
            case dict():
                text = ", ".join(f"{key} {part}" for key, part in value.items())
            case list():
                text = ", ".join(str(part) for part in value) + " (in this order)"
            case _:
                text = str(value)
        lines.append(f"{name}: {text}")
    return "\n".join(lines)


def _target_parameters(names: tuple[str, ...], modes: tuple[str, ...]) -> Json:
    types: tuple[Json, ...] = (
        _INTEGER,
        _NUMBER,
        _TEXT,
        _FLAG,
        _TEXT_OR_NULL,
        {"type": "string", "enum": [*modes]},
        _closed({"name": _TEXT, "city": _TEXT}),
        {"type": "array", "items": _INTEGER},
    )
    return _closed(dict(zip(names, types, strict=True)))


def _closed(properties: dict[str, Json]) -> Json:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _tools(case: Case) -> tuple[Tool, ...]:
    listed = case.detail["tools"]
    if not isinstance(listed, list):
        raise TypeError(f"the tools of case {case.seed} are not a list")
    return tuple(
        Tool(str(tool["name"]), str(tool["description"]), tool["parameters"])
        for tool in listed
        if isinstance(tool, dict)
    )


def request(
    case: Case, *, thinking: Thinking, stream: bool, max_tokens: int, thinking_budget_tokens: int | None
) -> ChatRequest:
    """The task with its tools, left to the model's choice (`auto`)."""
    return ChatRequest(
        messages=(Message("user", case.prompt),),
        max_tokens=max_tokens,
        stream=stream,
        thinking=thinking,
        thinking_budget_tokens=thinking_budget_tokens,
        tools=_tools(case),
        tool_choice="auto",
    )


def score(case: Case, exchange: Exchange, answer: Answer) -> Score:
    """The strict score: one call, the right name, arguments valid under the tool's schema and equal to the truth."""
    return graded(exchange, answer, lambda: _judge_call(case, answer))


def _judge_call(case: Case, answer: Answer) -> Score:
    if not isinstance(case.truth, dict):
        raise TypeError(f"the truth of case {case.seed} is not an object")
    if len(answer.tool_calls) != 1:
        instead = f": the content is {shown(answer.content)}" if not answer.tool_calls else ""
        return Score(
            Grade.FORMAT, f"expected exactly one tool call, got {len(answer.tool_calls)}{instead}", _quote(answer)
        )
    call = answer.tool_calls[0]
    try:
        arguments = read_exact(call.arguments)
    except NotStrictJson as departure:
        return Score(Grade.FORMAT, f"the text of the arguments {departure}", _quote(answer))
    if call.name != case.truth["name"]:
        return Score(
            Grade.VALUE, f"expected a call of {case.truth['name']}, got one of {shown(call.name)}", _quote(answer)
        )
    schema = next(tool.parameters for tool in _tools(case) if tool.name == call.name)
    return values(schema, case.truth["arguments"], arguments, answer)


def _quote(answer: Answer) -> str:
    calls = "\n".join(f"{call.name}({call.arguments})" for call in answer.tool_calls[:8])
    return f"{answer.content}\n{calls}".strip()[:LONGEST_QUOTE]
