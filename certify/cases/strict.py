"""JSON read without leniency: one value and nothing else, each key once, numbers exact, hostile text survived."""

import json
from collections.abc import Iterator
from decimal import Decimal
from itertools import islice
from typing import TypeAlias, Union, cast

from jsonschema import Draft202012Validator

from certify.records import Json

# JSON whose fractions are `Decimal`: 19.99 is 19.99, never 19.990000000000002.
Exact: TypeAlias = Union[bool, int, Decimal, str, list["Exact"], dict[str, "Exact"], None]  # noqa: UP007 - names itself

# The longest right answer of any case lies under 2 KiB. Bounded by size and not by a clock: the same bytes must score
# the same on every machine, and an answer of 64 KiB is read and validated within milliseconds.
LONGEST_ANSWER = 65_536
_FIRST_ERRORS = 50
_SHOWN = 80


class NotStrictJson(ValueError):  # noqa: N818 - it says what the text is
    """Why a text is not strictly one JSON value, in words that finish the sentence "the content ..."."""


def _once(pairs: list[tuple[str, Exact]]) -> dict[str, Exact]:
    found: dict[str, Exact] = {}
    for key, value in pairs:
        if key in found:
            raise NotStrictJson(f"has the key {shown(key)} twice")
        found[key] = value
    return found


def _no_constant(name: str) -> Exact:
    raise NotStrictJson(f"has {name}, which is not JSON")


_DECODER = json.JSONDecoder(object_pairs_hook=_once, parse_float=Decimal, parse_constant=_no_constant)


def read_exact(text: str) -> Exact:
    """The JSON value that `text` is, with JSON white space around it allowed.

    Raises:
        NotStrictJson: prose, a fence, a cut, a duplicate key, NaN, a monster; the message names which.
    """
    if len(text) > LONGEST_ANSWER:
        raise NotStrictJson(f"is {len(text)} characters long, more than the {LONGEST_ANSWER} that are read")
    body = text.strip(" \t\r\n")
    if not body:
        raise NotStrictJson("is empty")
    try:
        return cast("Exact", _DECODER.decode(body))
    except NotStrictJson:
        raise
    except RecursionError:
        raise NotStrictJson("is nested too deeply to be read") from None
    except (ValueError, ArithmeticError) as error:
        raise NotStrictJson(_departure(body, str(error))) from None


def _departure(body: str, parser_says: str) -> str:
    if "```" in body:
        return "has a code fence around or beside the JSON"
    start = min((at for at in (body.find("{"), body.find("[")) if at >= 0), default=-1)
    if start < 0:
        return f"is prose without JSON: {shown(body)}"
    try:
        _, end = _DECODER.raw_decode(body, start)
    except (ValueError, ArithmeticError, RecursionError):
        return f"is not JSON ({parser_says[:_SHOWN]})"
    if start > 0:
        return f"has text before the JSON: {shown(body[:start])}"
    return f"has text after the JSON: {shown(body[end:].strip())}"


def shown(value: object) -> str:
    """A value as JSON for a sentence, cut at 80 characters; controls and lone surrogates stay escaped."""
    text = json.dumps(value, ensure_ascii=False, default=str).encode(errors="backslashreplace").decode()
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"


def child(path: str, key: str | int) -> str:
    """The JSON path of a member: "$.lines[0].price"."""
    if isinstance(key, int):
        return f"{path}[{key}]"
    return f"{path}.{key}" if key.isidentifier() else f"{path}[{shown(key)}]"


def schema_breach(schema: Json, value: Exact) -> str:
    """The first breach of a JSON Schema (Draft 2020-12) in one sentence with its path, "" when there is none.

    Only schemas of our own cases are used, without `pattern` and `uniqueItems`: validation is linear in the answer.
    """
    validator = Draft202012Validator(cast("dict[str, object]", schema))
    try:
        errors = list(islice(validator.iter_errors(_with_floats(value)), _FIRST_ERRORS))
    except RecursionError:
        return "$ is nested too deeply for its schema"
    if not errors:
        return ""
    first = min(errors, key=lambda error: [str(part) for part in error.absolute_path])
    path = "$"
    for part in first.absolute_path:
        path = child(path, part)
    return f"{path} breaks `{first.validator}`: expected {shown(first.validator_value)}, got {shown(first.instance)}"


def _with_floats(value: Exact) -> Json:
    # Draft 2020-12 calls 3.0 an integer, and jsonschema knows that of floats only; exactness is a matter of value.
    match value:
        case Decimal():
            return float(value)
        case list():
            return [_with_floats(item) for item in value]
        case dict():
            return {key: _with_floats(item) for key, item in value.items()}
        case _:
            return value


def first_difference(expected: Json, got: Exact, path: str = "$") -> str:
    """The first place where `got` is not exactly `expected`, in one sentence; "" when they are equal.

    Types are exact (true is not 1, "7" is not 7, 3.0 is not the integer 3); a fraction is compared as the decimal
    that its shortest form spells, so that 12.50 is 12.5; text is compared code point by code point.
    """
    return next(_differences(expected, got, path), "")


def _differences(expected: Json, got: Exact, path: str) -> Iterator[str]:
    match expected, got:
        case dict(), dict():
            yield from _in_objects(expected, got, path)
        case list(), list():
            if len(expected) != len(got):
                yield f"{path}: expected {len(expected)} items, got {len(got)}"
            for place, (wanted, item) in enumerate(zip(expected, got, strict=False)):
                yield from _differences(wanted, item, child(path, place))
        case _:
            if not _same(expected, got):
                yield f"{path}: expected {_typed(expected)}, got {_typed(got)}"


def _in_objects(expected: dict[str, Json], got: dict[str, Exact], path: str) -> Iterator[str]:
    for key, wanted in expected.items():
        if key in got:
            yield from _differences(wanted, got[key], child(path, key))
        else:
            yield f"{child(path, key)}: expected {_typed(wanted)}, got nothing"
    for key in sorted(got.keys() - expected.keys()):
        yield f"{child(path, key)}: expected no such key, got {_typed(got[key])}"


def _same(expected: Json, got: Exact) -> bool:
    if isinstance(expected, float):
        return isinstance(got, Decimal | int) and not isinstance(got, bool) and Decimal(repr(expected)) == got
    return type(expected) is type(got) and expected == got


def _typed(value: object) -> str:
    match value:
        case str():
            return f"the string {shown(value)}"
        case Decimal() | float():
            return f"the number {str(value)[:_SHOWN]}"
        case dict():
            return f"the object {shown(value)}"
        case list():
            return f"the array {shown(value)}"
        case _:
            return shown(value)
