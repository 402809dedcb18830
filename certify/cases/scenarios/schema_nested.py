"""schema-nested: an answer under a JSON Schema of three levels, with enum, const, nullable anyOf and arrays."""

from certify.cases.grading import graded, json_content
from certify.cases.picks import Picks
from certify.cases.scoring import Case, Score
from certify.cases.words import CITIES, GOODS, PEOPLE
from certify.records import ChatRequest, Exchange, Json, Message, Thinking
from certify.wire.answer import Answer

NAME = "schema-nested"
REQUIREMENT = "QUAL-SCHEMA-02"
CONSTRAINED = True

_KINDS = ("delivery", "return", "repair", "exchange")
_PRIORITIES = ("low", "normal", "high", "critical")
_CHANNELS = ("web", "phone", "shop", "mail")
_NOTES = ("gift wrap", "handle with care", "leave at door", "call first", "no plastic", "sign on receipt")
# Long enough for every value; it keeps a weak model under a grammar from writing one string until max_tokens.
_LONGEST = {"code": 8, "name": 24, "city": 16, "item": 16, "note": 20}
_MOST_LINES = 2


def generate(seed: str) -> Case:
    """The case of a seed: a shipment described in plain lines, to be told as a nested object."""
    picks = Picks(seed, NAME)
    kind, priorities, channels = picks.one(_KINDS), picks.several(_PRIORITIES, 3), picks.several(_CHANNELS, 3)
    priority, channel = picks.one(priorities), picks.one(channels)
    code, name, city, vip = f"0{picks.digits(4)}", picks.one(PEOPLE), picks.one(CITIES), picks.flip()
    lines = [
        (item, picks.between(1, 99), picks.one(_NOTES) if picks.flip() else None)
        for item in picks.several(GOODS, picks.between(1, _MOST_LINES))
    ]
    told = "\n".join(
        f"line {place}: item {item}; count {count}; note {note or 'none'}"
        for place, (item, count, note) in enumerate(lines, 1)
    )
    prompt = (
        f"Write this {kind} as one JSON object in the given schema: kind, routing (priority, channel), customer (code, "
        "name, address with city; vip), lines (item, count, note) in the order below. Text exactly as written, counts "
        "as integers, vip as boolean, null where a note is none.\n\n"
        f"kind {kind}; priority {priority}; channel {channel}\n"
        f"customer code {code}; name {name}; city {city}; vip {'yes' if vip else 'no'}\n"
        f"{told}"
    )
    truth: Json = {
        "kind": kind,
        "routing": {"priority": priority, "channel": channel},
        "customer": {"code": code, "name": name, "address": {"city": city}, "vip": vip},
        "lines": [{"item": item, "count": count, "note": note} for item, count, note in lines],
    }
    return Case(NAME, seed, prompt, truth, {"schema": _schema(kind, priorities, channels)})


def _schema(kind: str, priorities: list[str], channels: list[str]) -> Json:
    text: dict[str, Json] = {name: {"type": "string", "maxLength": longest} for name, longest in _LONGEST.items()}
    return _closed(
        {
            "kind": {"const": kind},
            "routing": _closed(
                {
                    "priority": {"type": "string", "enum": [*priorities]},
                    "channel": {"type": "string", "enum": [*channels]},
                }
            ),
            "customer": _closed(
                {
                    "code": text["code"],
                    "name": text["name"],
                    "address": _closed({"city": text["city"]}),
                    "vip": {"type": "boolean"},
                }
            ),
            "lines": {
                "type": "array",
                "minItems": 1,
                "maxItems": _MOST_LINES,
                "items": _closed(
                    {
                        "item": text["item"],
                        "count": {"type": "integer"},
                        "note": {"anyOf": [text["note"], {"type": "null"}]},
                    }
                ),
            },
        }
    )


def _closed(properties: dict[str, Json]) -> Json:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def request(
    case: Case, *, thinking: Thinking, stream: bool, max_tokens: int, thinking_budget_tokens: int | None
) -> ChatRequest:
    """The question with its schema, which the server must enforce or refuse."""
    return ChatRequest(
        messages=(Message("user", case.prompt),),
        max_tokens=max_tokens,
        stream=stream,
        thinking=thinking,
        thinking_budget_tokens=thinking_budget_tokens,
        schema=case.detail["schema"],
        schema_name="shipment",
    )


def score(case: Case, exchange: Exchange, answer: Answer) -> Score:
    """The strict score: the content is one JSON object, valid under the schema (Draft 2020-12), every value right."""
    return graded(exchange, answer, lambda: json_content(case, answer))
