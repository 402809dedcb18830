"""Between records and canonical JSON: nothing is coerced, nothing is read twice."""

from dataclasses import dataclass

import pytest

from certify.codec import CodecError, canonical, from_json, parse_json, to_json
from certify.records import Json, Level


@dataclass(frozen=True, slots=True)
class Sheet:
    count: int
    name: str
    done: bool
    level: Level
    rows: tuple[int, ...]
    free: Json
    raw: bytes
    share: int | None = None


GOOD: dict[str, Json] = {
    "count": 7, "name": "n", "done": True, "level": "required", "rows": [1, 2], "free": {"a": [0.5, None]}, "raw": "r",
    "share": None,
}  # fmt: skip


def test_a_record_comes_back_as_it_went() -> None:
    sheet = from_json(Sheet, GOOD)

    assert sheet == Sheet(7, "n", True, Level.REQUIRED, (1, 2), {"a": [0.5, None]}, b"r")
    assert to_json(sheet) == GOOD


@pytest.mark.parametrize(
    "wrong",
    [
        {"count": "7"}, {"count": True}, {"count": 7.0}, {"name": 1}, {"done": 1}, {"done": "true"}, {"level": "much"},
        {"level": 1}, {"rows": ["1"]}, {"rows": [1.5]}, {"share": "1"}, {"raw": 5}, {"extra": 1},
    ],
    ids=str,
)  # fmt: skip
def test_a_value_of_another_type_is_refused(wrong: dict[str, Json]) -> None:
    with pytest.raises(CodecError):
        from_json(Sheet, GOOD | wrong)


@pytest.mark.parametrize("text", ['{"a":1,"a":1}', "NaN", "[Infinity]", "{", "[" * 100_000, ""])
def test_text_that_readers_disagree_about_is_refused(text: str) -> None:
    with pytest.raises(CodecError):
        parse_json(text)


@pytest.mark.parametrize("value", [2**53, float("inf")])
def test_numbers_that_readers_disagree_about_are_refused(value: Json) -> None:
    with pytest.raises(CodecError):
        canonical(value)
