"""Figures, bounds and times as a reader sees them; foreign text as inert Markdown."""

import re
from datetime import UTC, datetime

from certify.records import Bound, Figure, decimal
from certify.visible import visible

_MARKDOWN = frozenset("\\`*_{}[]()<>#!|~&$")
_LINK = re.compile(r"[:.](?=[^\d\s])")  # what GitHub makes a link of: https://…, www.…, a name with a domain


def markdown(text: str, cap: int = 400) -> str:
    """One line of Markdown that shows the text and means nothing: no link, mention, image, HTML or table cell."""
    line = visible(" ".join(text[: 2 * cap].split()), cap)
    inert = "".join(f"&#{ord(character)};" if character in _MARKDOWN else character for character in line)
    return _LINK.sub(lambda match: f"&#{ord(match[0])};", inert).replace("@", "@\u200b")


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
