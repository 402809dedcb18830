"""The one way in which foreign text reaches a page, a summary or an XML file: visible, capped, and inert."""

import unicodedata
from datetime import UTC, datetime

from certify.records import Bound, Figure, decimal

CAP = 4_000
_BLANKS = frozenset("\u115f\u1160\u3164\uffa0\u2800")  # letters by category, empty on the screen
_MARKDOWN = frozenset("\\`*_{}[]()<>#+-.!|~&:/\"'$=^%")
_MARKS_IN_A_ROW = 2  # more than any living script stacks on one letter in composed form


def visible(text: str, cap: int = CAP) -> str:
    r"""The text with every character that cannot be seen as itself (controls, bidi, unassigned) as `\u{…}`, and cut.

    Line feeds and tabs stay. What was cut is counted.
    """
    shown = text[:cap]
    if not (shown.isascii() and shown.isprintable()):
        shown = _spelled(shown)
    return shown if len(text) <= cap else f"{shown}… ({len(text) - cap} more characters)"


def _spelled(text: str) -> str:
    pieces, marks = [], 0
    for character in text:
        category = unicodedata.category(character)
        marks = marks + 1 if category in {"Mn", "Me"} else 0
        hidden = category[0] == "C" or category in {"Zl", "Zp"} or character in _BLANKS or marks > _MARKS_IN_A_ROW
        pieces.append(f"\\u{{{ord(character):x}}}" if hidden and character not in "\n\t" else character)
    return "".join(pieces)


def markdown(text: str, cap: int = 400) -> str:
    """One line of Markdown that shows the text and means nothing: no link, mention, image, HTML or table cell."""
    line = " ".join(visible(text, cap).split())
    return "".join(
        "@\u200b" if character == "@" else f"&#{ord(character)};" if character in _MARKDOWN else character
        for character in line
    )


def plain_value(figure: Figure) -> str:
    """`45.21 tok/s [44.60, 45.80], n = 5`."""
    interval = ""
    if figure.low_scaled is not None or figure.high_scaled is not None:
        low, high = (
            "…" if end is None else decimal(end, figure.decimals) for end in (figure.low_scaled, figure.high_scaled)
        )
        interval = f" [{low}, {high}]"
    return f"{figure}{interval}, n = {figure.n}"


def plain_bound(bound: Bound) -> str:
    """`≥ 44.0 tok/s`."""
    sign = {"floor": "≥", "ceiling": "≤"}.get(bound.kind, bound.kind)
    return f"{sign} {decimal(bound.scaled, bound.decimals)} {bound.unit}".rstrip()


def instant(at_us: int) -> str:
    """RFC 3339 in UTC, whole seconds, of microseconds since the epoch."""
    return datetime.fromtimestamp(at_us // 1_000_000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def one_line(text: str, cap: int = 400) -> str:
    r"""The text as `visible` shows it, its line feeds and tabs as `\n` and `\t`: a line of ours stays one line."""
    return visible(text, cap).replace("\n", "\\n").replace("\t", "\\t")
