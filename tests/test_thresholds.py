"""Thresholds: a bar that would silently apply to nothing is an error."""

from pathlib import Path

import pytest

from certify import thresholds
from certify.thresholds import METRICS, ThresholdError, load, parse, suite_text

GOOD = """
schema = 1
[sets.mine]
extends = "generic"
[sets.mine."PERF-C1-01".decode_rate]
floor = 44.0
unit = "tok/s"
source = "baseline x 0.95"
"""


def test_a_set_extends_the_suites_own() -> None:
    mine = parse(GOOD, "mine", "mine.toml")

    assert str(mine.bound("PERF-C1-01", "decode_rate")) == "floor 44.0 tok/s"
    assert mine.bound("PRE-RULER-01", "decode_rate_error") == load("generic").bound("PRE-RULER-01", "decode_rate_error")


@pytest.mark.parametrize("name", ["generic", "demo"])
def test_every_bound_of_the_suite_has_the_unit_of_its_metric_and_a_source(name: str) -> None:
    bounds = load(name).bounds

    assert {key: bound.unit for key, bound in bounds.items()} == {key: METRICS[key] for key in bounds}
    assert all(bound.source for bound in bounds.values())


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("floor = 44.0", "flor = 44.0"), "unknown key 'flor'"),
        (("tok/s", "tok/min"), "measures in 'tok/s'"),
        (('source = "baseline x 0.95"', ""), "source is missing"),
        (("decode_rate", "decode_speed"), "no gate reads this metric; known: PERF-C1-01.decode_rate"),
        (("PERF-C1-01", "PERF-C9-01"), "no gate reads this metric"),
        (("floor = 44.0", "floor = 44.0\nceiling = 50"), "exactly one"),
        (("floor = 44.0", 'floor = "44"'), "finite number"),
        (("floor = 44.0", "floor = nan"), "finite number"),
        (("floor = 44.0", "floor = true"), "finite number"),
        (("schema = 1", "schema = 2"), "schema = 1"),
        (("schema = 1", "schema = 1\nset = 3"), "unknown key 'set'"),
        (('extends = "generic"', 'extends = "nothing"'), "names no known set"),
        (('extends = "generic"', 'extends = "mine"'), "names no known set"),
        (("[sets.mine]", "[sets.mine"), "not TOML"),
    ],
)
def test_a_mistake_is_one_clear_line(change: tuple[str, str], words: str) -> None:
    with pytest.raises(ThresholdError, match=words.replace("(", r"\(")) as raised:
        parse(GOOD.replace(*change), "mine", "mine.toml")

    assert "\n" not in str(raised.value)
    assert "mine.toml" in str(raised.value)


def test_an_unknown_set_lists_those_that_exist() -> None:
    with pytest.raises(ThresholdError, match="it holds: demo, generic"):
        load("nonesuch")


def test_a_missing_file_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(ThresholdError, match="cannot read thresholds file"):
        load(str(tmp_path / "none.toml"))


def test_what_is_printed_to_paste_can_be_loaded() -> None:
    text = thresholds.toml_to_paste("PERF-C1-01", "decode_rate", "floor", 106400, 3, "this run x 0.95")

    assert (
        str(parse(f"schema = 1\n{text}", "mine", "pasted").bound("PERF-C1-01", "decode_rate")) == "floor 106.400 tok/s"
    )


def test_a_decimal_is_exact() -> None:
    assert suite_text()
    bound = parse(GOOD.replace("44.0", "0.1"), "mine", "x").bound("PERF-C1-01", "decode_rate")

    assert (bound.scaled, bound.decimals) == (1, 1)
