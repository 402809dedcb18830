"""Reading what a server may send: JSON with duplicate keys, broken surrogates, absurd depth; sentences about it."""

import json
import math
from collections.abc import Callable
from typing import cast

from certify.records import Json

MOST_VIOLATIONS = 30
DEEPEST_FIGURES = 8
LONGEST_SHOWN = 120

Note = Callable[[str], None]


def whole_text(text: str) -> str:
    """The text with surrogate pairs joined and lone surrogates as U+FFFD, so that it can always be encoded."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def shown(value: object, longest: int = LONGEST_SHOWN) -> str:
    """A value of the server in a sentence: text as it is, the rest as Python writes it, cut to `longest` characters."""
    if not isinstance(value, str):
        try:
            value = repr(value)
        except (RecursionError, ValueError):
            value = f"a {type(value).__name__} that cannot be shown"
    text = whole_text(value[: longest + 1])
    return text if len(text) <= longest else text[: longest - 1] + "…"


class Violations:
    """Departures from the documented shape: each sentence once, and not without end."""

    def __init__(self) -> None:
        self._sentences: dict[str, None] = {}
        self._more = False

    def note(self, sentence: str) -> None:
        """Keeps the sentence if it is new and there is room."""
        if len(self._sentences) < MOST_VIOLATIONS or sentence in self._sentences:
            self._sentences[sentence] = None
        else:
            self._more = True

    def sentences(self) -> tuple[str, ...]:
        """All of them in order, with a last one that says so if there were more."""
        return (*self._sentences, *(("there were more departures than are named here",) if self._more else ()))


class LooseJson:
    """A JSON reader that reads on where it can and notes what a strict one would have refused."""

    def __init__(self, note: Note) -> None:
        """`note` takes a sentence for every duplicate key and every number that is not JSON."""
        self._note = note
        self._decoder = json.JSONDecoder(object_pairs_hook=self._object, parse_constant=self._constant)

    def parse(self, text: str) -> Json:
        """The value; the last of duplicate keys wins, NaN and the infinities are null.

        Raises:
            ValueError: not JSON, too deep, or an integer of absurd length.
        """
        try:
            return cast("Json", self._decoder.decode(text))
        except RecursionError:
            raise ValueError("nested too deeply") from None

    def plain(self, figures: dict[str, Json]) -> dict[str, Json]:
        """Figures as they are, made safe to keep: finite numbers, whole text, at most eight levels."""
        return {shown(key, 200): self._plain(value, 1) for key, value in figures.items()}

    def _plain(self, value: Json, depth: int) -> Json:
        if depth > DEEPEST_FIGURES:
            self._note("the engine's own figures are nested too deeply")
            return None
        match value:
            case dict():
                return {shown(key, 200): self._plain(member, depth + 1) for key, member in value.items()}
            case list():
                return [self._plain(member, depth + 1) for member in value]
            case str():
                return whole_text(value)
            case float() if not math.isfinite(value):
                return None
        return value

    def _object(self, pairs: list[tuple[str, Json]]) -> dict[str, Json]:
        members = dict(pairs)
        if len(members) != len(pairs):
            keys = [key for key, _ in pairs]
            self._note(f"duplicate key {shown(next(key for key in keys if keys.count(key) > 1))!r}")
        return members

    def _constant(self, name: str) -> Json:
        self._note(f"{name} is not JSON")
        return None
