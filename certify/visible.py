"""The one path by which a deployment's text becomes text that a person sees: terminal, page, summary."""

import unicodedata

# Cc control, Cf format (bidi, zero-width), Cs surrogate, Co private, Cn unassigned, Zl/Zp separators.
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def visible(text: str, cap: int = 400) -> str:
    """The text with every control, bidi and invisible character as an escape, cut at `cap` characters.

    Newlines and tabs are escaped too: a line of ours stays one line whatever a server sends.
    """
    shown = "".join(_escape(char) if unicodedata.category(char) in _HIDDEN else char for char in text[:cap])
    return shown + (f"… ({len(text) - cap} characters more)" if len(text) > cap else "")


def _escape(char: str) -> str:
    short = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}.get(char)
    code = ord(char)
    return short or (f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}" if code < 65536 else f"\\U{code:08x}")
