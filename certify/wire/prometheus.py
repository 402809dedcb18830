"""Prometheus text: its samples by exact name, with their labels."""

import math
import re
from collections.abc import Container, Iterator
from dataclasses import dataclass

LONGEST_LINE = 16 * 1024
_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"')
_ESCAPES = {r"\\": "\\", r"\"": '"', r"\n": "\n"}


@dataclass(frozen=True, slots=True)
class PromSample:
    """One sample: its full name, its labels, its finite value."""

    name: str
    labels: dict[str, str]
    value: float


def name_of(line: str) -> str:
    """The sample name that a line begins with, "" for comments and anything else."""
    match = _NAME.match(line)
    return match.group() if match else ""


def samples(text: str, names: Container[str]) -> Iterator[PromSample]:
    """Every sample of these names with a finite value; lines that are not samples are passed over."""
    for line in text.splitlines():
        name = name_of(line)
        if not name or name not in names or len(line) > LONGEST_LINE:
            continue
        rest, labels = line[len(name) :], {}
        if rest.startswith("{"):
            inside, closed, rest = rest[1:].rpartition("}")
            if not closed:
                continue
            labels = {key: re.sub(r"\\.", _unescape, value) for key, value in _LABEL.findall(inside)}
        fields = rest.split()
        try:
            value = float(fields[0]) if fields else math.nan
        except ValueError:
            continue
        if math.isfinite(value):
            yield PromSample(name, labels, value)


def _unescape(match: re.Match[str]) -> str:
    return _ESCAPES.get(match.group(), match.group())
