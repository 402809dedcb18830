"""Thresholds: every number that decides, each with its unit and its source, in sets that an owner can replace.

A file holds one or more sets:

    schema = 1
    [sets.mine]
    extends = "generic"                         # optional
    [sets.mine."PERF-C1-01".decode_rate]
    floor = 44.0                                # or: ceiling = …
    unit = "tok/s"
    source = "baseline of 2026-11-28 x 0.95"

An unknown key, a metric that no gate reads, another unit than the gate measures in, or a missing source is an error:
a bar that silently applies to nothing is worse than none.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from importlib import resources
from pathlib import Path
from types import MappingProxyType
from typing import Any

from certify.codec import digest
from certify.records import Bound, decimal

SCHEMA = 1
DEFAULT_SET = "generic"

# Every metric that some judge compares, with the unit it is measured in.
METRICS: Mapping[tuple[str, str], str] = MappingProxyType(
    {
        ("PRE-RULER-01", "decode_rate_error"): "%",
        ("PRE-RULER-01", "ttft_error_p99"): "ms",
        ("QUAL-VALUE-01", "share_right"): "%",
        ("QUAL-JSON-01", "share_right"): "%",
        ("QUAL-TOOL-05", "share_right"): "%",
        ("PERF-C1-01", "decode_rate"): "tok/s",
        ("PERF-CACHE-01", "cold_over_warm_ttft"): "x",
        ("LCTX-NEEDLE-01", "share_found"): "%",
    }
)


class ThresholdError(ValueError):
    """A thresholds file that cannot be applied: where, what was found, what was expected."""


@dataclass(frozen=True, slots=True)
class Thresholds:
    """One resolved set. `text` is the file verbatim, `sha256` its digest."""

    name: str
    bounds: Mapping[tuple[str, str], Bound]
    text: str
    sha256: str

    def bound(self, requirement: str, metric: str) -> Bound | None:
        """The bound on a metric, or None where this set has none.

        Raises:
            KeyError: no gate measures such a metric: a mistake in the suite itself.
        """
        if (requirement, metric) not in METRICS:
            raise KeyError(f"{requirement}.{metric} is not in METRICS")
        return self.bounds.get((requirement, metric))


def suite_text() -> str:
    """The thresholds that ship with the suite: the repository's file, or its copy inside the wheel."""
    beside = Path(__file__).resolve().parent.parent / "thresholds.toml"
    inside = resources.files("certify").joinpath("thresholds.toml")
    return inside.read_text(encoding="utf-8") if inside.is_file() else beside.read_text(encoding="utf-8")


def load(choice: str) -> Thresholds:
    """The threshold set that `--thresholds FILE|SET` names.

    A name picks a set of the suite's own file; a path picks the one set of an owner's file, or its `FILE:SET`.

    Raises:
        ThresholdError: one line that says what is wrong, where, and what to write instead.
    """
    file, _, wanted = choice.partition(":")
    if not (file.endswith(".toml") or "/" in file):
        return parse(suite_text(), choice, "the suite's thresholds.toml")
    try:
        text = Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ThresholdError(f"cannot read thresholds file {file}: {error}") from error
    return parse(text, wanted, file)


def parse(text: str, wanted: str, where: str) -> Thresholds:
    """One set of a thresholds file, its `extends` resolved (within the file, then within the suite's own).

    Raises:
        ThresholdError: one line that says what is wrong, where, and what to write instead.
    """
    sets = _sets(text, where)
    if not wanted and len(sets) != 1:
        raise ThresholdError(f"{where} holds {len(sets)} sets ({', '.join(sets) or 'none'}): name one as {where}:SET")
    name = wanted or next(iter(sets))
    if name not in sets:
        raise ThresholdError(f"no threshold set {name!r} in {where}; it holds: {', '.join(sorted(sets)) or 'none'}")
    return Thresholds(name, MappingProxyType(_resolve(name, sets, where, ())), text, digest(text.encode()))


def _sets(text: str, where: str) -> dict[str, dict[str, Any]]:
    try:
        document = tomllib.loads(text, parse_float=Decimal)
    except (tomllib.TOMLDecodeError, InvalidOperation) as error:
        raise ThresholdError(f"{where} is not TOML: {error}") from error
    if document.get("schema") != SCHEMA:
        raise ThresholdError(f"{where}: `schema = {SCHEMA}` expected at the top, got {document.get('schema')!r}")
    if unknown := sorted(set(document) - {"schema", "sets"}):
        raise ThresholdError(f"{where}: unknown key {unknown[0]!r} at the top; expected [sets.NAME]")
    sets = document.get("sets", {})
    if not isinstance(sets, dict) or not all(isinstance(body, dict) for body in sets.values()):
        raise ThresholdError(f"{where}: [sets.NAME] tables expected")
    return sets


def _resolve(
    name: str, sets: dict[str, dict[str, Any]], where: str, seen: tuple[str, ...]
) -> dict[tuple[str, str], Bound]:
    if name in seen:
        raise ThresholdError(f"{where}: sets extend each other in a ring: {' -> '.join((*seen, name))}")
    body = dict(sets[name])
    parent = body.pop("extends", None)
    bounds: dict[tuple[str, str], Bound] = {}
    if parent in sets and parent != name:
        bounds = _resolve(parent, sets, where, (*seen, name))
    elif parent is not None:
        suite = _sets(suite_text(), "the suite's thresholds.toml")
        if parent not in suite or sets == suite:
            raise ThresholdError(f"{where} [sets.{name}]: extends = {parent!r} names no known set")
        bounds = _resolve(parent, suite, "the suite's thresholds.toml", ())
    for requirement, metrics in body.items():
        if not isinstance(metrics, dict):
            raise ThresholdError(
                f'{where} [sets.{name}]: {requirement!r} is no table; expected [sets.{name}."ID".metric]'
            )
        for metric, entry in metrics.items():
            bounds[requirement, metric] = _bound(
                requirement, metric, entry, place=f'{where} [sets.{name}."{requirement}".{metric}]', threshold_set=name
            )
    return bounds


def _bound(requirement: str, metric: str, entry: object, place: str, threshold_set: str) -> Bound:
    unit = METRICS.get((requirement, metric))
    if unit is None:
        known = sorted(f"{one}.{other}" for one, other in METRICS if one == requirement) or sorted(
            {one for one, _ in METRICS}
        )
        raise ThresholdError(f"{place}: no gate reads this metric; known: {', '.join(known)}")
    if not isinstance(entry, dict):
        raise ThresholdError(f"{place}: a table with floor or ceiling, unit and source expected")
    if unknown := sorted(set(entry) - {"floor", "ceiling", "unit", "source"}):
        raise ThresholdError(f"{place}: unknown key {unknown[0]!r}; expected floor or ceiling, unit, source")
    kinds = [kind for kind in ("floor", "ceiling") if kind in entry]
    if len(kinds) != 1:
        raise ThresholdError(f"{place}: exactly one of floor and ceiling expected")
    if entry.get("unit") != unit:
        raise ThresholdError(f"{place}: unit = {entry.get('unit')!r}, but this gate measures in {unit!r}")
    source = entry.get("source")
    if not isinstance(source, str) or not source.strip():
        raise ThresholdError(f"{place}: source is missing; say where the number comes from")
    value = entry[kinds[0]]
    if isinstance(value, bool) or not isinstance(value, (int, Decimal)) or not Decimal(value).is_finite():
        raise ThresholdError(f"{place}: {kinds[0]} must be a finite number, got {value!r}")
    decimals = max(0, -int(Decimal(value).as_tuple().exponent))
    return Bound(metric, kinds[0], int(Decimal(value).scaleb(decimals)), decimals, unit, source.strip(), threshold_set)


def toml_to_paste(  # noqa: PLR0917 - the parts of one table, in its order
    requirement: str, metric: str, kind: str, scaled: int, decimals: int, source: str
) -> str:
    """The TOML that makes a measured value an owner's bound: printed where a required bound is missing."""
    return (
        f'[sets.mine."{requirement}".{metric}]\n{kind} = {decimal(scaled, decimals)}\n'
        f'unit = "{METRICS[requirement, metric]}"\nsource = "{source}"'
    )
