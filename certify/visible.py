"""The one path by which a deployment's text becomes text that a person sees: terminal, page, summary."""

import unicodedata

# Cc control, Cf format (bidi, zero-width), Cs surrogate, Co private, Cn unassigned, Zl/Zp separators.
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_BLANKS = frozenset("\u115f\u1160\u3164\uffa0\u2800")  # letters by category, empty on the screen
_MARKS_IN_A_ROW = 2  # more than living scripts stack on one composed letter; piles of them cover other lines


def visible(text: str, cap: int = 400, *, lines: bool = False) -> str:
    """The text with every control, bidi and invisible character as an escape, cut at `cap` characters.

    Newlines and tabs are escaped too: a line of ours stays one line whatever a server sends; with `lines` they stay.
    """
    shown = text[:cap]
    if not (shown.isascii() and shown.isprintable()):
        shown = _escaped(shown, "\n\t" if lines else "")
    return shown + (f"… ({len(text) - cap} characters more)" if len(text) > cap else "")


def _escaped(text: str, kept: str) -> str:
    pieces, marks = [], 0
    for char in text:
        category = unicodedata.category(char)
        marks = marks + 1 if category in {"Mn", "Me"} else 0
        hidden = category in _HIDDEN or char in _BLANKS or marks > _MARKS_IN_A_ROW
        pieces.append(_escape(char) if hidden and char not in kept else char)
    return "".join(pieces)


def _escape(char: str) -> str:
    short = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}.get(char)
    code = ord(char)
    return short or (f"\\x{code:02x}" if code <= 0xFF else f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}")  # noqa: PLR2004
