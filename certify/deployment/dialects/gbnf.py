"""A regular expression as a grammar in llama.cpp's GBNF: literals, classes, groups, alternation, repetition."""

import re

_CLASSES = {"d": "0-9", "w": "A-Za-z0-9_", "s": r" \t\n\r"}
_CONTROL = {"n": r"\n", "t": r"\t", "r": r"\r"}
_REPEAT = re.compile(r"[*+?]|\{[0-9]{1,4}(?:,[0-9]{0,4})?\}")


def regex_to_gbnf(pattern: str) -> str:
    r"""A grammar with one rule that matches what `pattern` matches as a whole.

    Raises:
        ValueError: the pattern uses what a grammar cannot say (anchors within, look-around, back-references, `\b`).
    """
    re.compile(pattern)
    inner = pattern.removeprefix("^")
    if inner.endswith("$") and not inner.endswith(r"\$"):
        inner = inner[:-1]
    return f"root ::= {_sequence(inner)}\n"


def _sequence(pattern: str) -> str:
    parts: list[str] = []
    at = 0
    while at < len(pattern):
        token, at = _token(pattern, at)
        repeat = _REPEAT.match(pattern, at)
        if repeat:
            token += repeat.group()
            at = repeat.end()
            if pattern[at : at + 1] in ("?", "+"):
                raise ValueError(f"lazy or possessive repetition at {at} in {pattern!r}")
        parts.append(token)
    return " ".join(parts)


def _token(pattern: str, at: int) -> tuple[str, int]:
    char = pattern[at]
    if char in "^$" or (char == "(" and pattern[at + 1 : at + 2] == "?" and not pattern.startswith("(?:", at)):
        raise ValueError(f"no grammar for {pattern[at : at + 3]!r} at {at} in {pattern!r}")
    if char == "[":
        return _character_class(pattern, at)
    if char == "\\":
        return _escape(pattern[at + 1]), at + 2
    if pattern.startswith("(?:", at):
        return "(", at + 3
    return {".": r"[^\n]", "(": "(", ")": ")", "|": "|"}.get(char) or _literal(char), at + 1


def _escape(name: str) -> str:
    if name in _CLASSES:
        return f"[{_CLASSES[name]}]"
    if name.lower() in _CLASSES:
        return f"[^{_CLASSES[name.lower()]}]"
    if name in _CONTROL:
        return f'"{_CONTROL[name]}"'
    if name.isalnum():
        raise ValueError(f"the escape \\{name} has no grammar")
    return _literal(name)


def _literal(char: str) -> str:
    named = {'"': r"\"", "\\": r"\\", "\n": r"\n", "\t": r"\t", "\r": r"\r"}
    return f'"{named.get(char, char)}"'


def _character_class(pattern: str, at: int) -> tuple[str, int]:
    start = at + 2 if pattern.startswith("[^", at) else at + 1
    out, at = [pattern[at:start]], start
    while at < len(pattern) and (pattern[at] != "]" or at == start):
        if pattern[at] == "\\":
            name = pattern[at + 1]
            if name.isalnum() and name not in _CLASSES and name not in _CONTROL:
                raise ValueError(f"the escape \\{name} has no grammar in a class")
            out.append(_CLASSES.get(name) or _CONTROL.get(name) or _in_class(name))
            at += 2
        else:
            out.append(pattern[at] if pattern[at] == "-" else _in_class(pattern[at]))
            at += 1
    return "".join(out) + "]", at + 1


def _in_class(char: str) -> str:
    return "\\" + char if char in r"\]-[" else char
