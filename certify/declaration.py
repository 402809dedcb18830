"""What the owner declares of a deployment (`deployment.toml`): compared with what is seen, never taken for it."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from certify.records import Capability, Json

_TEXTS = ("model", "engine", "launch_configuration")
_COUNTS = ("tp", "max_context", "max_sequences")
_LISTS = ("nodes",)
_TABLES = ("capabilities", "pins")


class DeclarationError(ValueError):
    """A deployment file that cannot be read: which key, what was found, what was expected."""


@dataclass(frozen=True, slots=True)
class Declaration:
    """An owner's declaration; "" or None where nothing is declared. `capabilities` maps names to presence."""

    model: str = ""
    engine: str = ""
    launch_configuration: str = ""
    tp: int | None = None
    max_context: int | None = None
    max_sequences: int | None = None
    nodes: tuple[str, ...] = ()
    capabilities: Mapping[str, bool] = field(default_factory=lambda: MappingProxyType({}))
    pins: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    def to_json(self) -> dict[str, Json]:
        """Capability names at the top (judges look them up there), then whatever else is declared."""
        declared: dict[str, Json] = dict(self.capabilities)
        for key in (*_TEXTS, *_COUNTS):
            if (value := getattr(self, key)) not in ("", None):
                declared[key] = value
        if self.nodes:
            declared["nodes"] = list(self.nodes)
        if self.pins:
            declared["pins"] = dict(self.pins)
        return declared


def load(path: Path) -> Declaration:
    """The declaration in a file.

    Raises:
        DeclarationError: one line that names the key, what was found and what was expected.
    """
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise DeclarationError(f"cannot read deployment file {path}: {error}") from error
    except tomllib.TOMLDecodeError as error:
        raise DeclarationError(f"deployment file {path} is not TOML: {error}") from error
    known = {*_TEXTS, *_COUNTS, *_LISTS, *_TABLES}
    if unknown := sorted(set(document) - known):
        raise DeclarationError(f"{path}: unknown key {unknown[0]!r}; known: {', '.join(sorted(known))}")
    for key in _TEXTS:
        _expect(path, key, document.get(key, ""), isinstance(document.get(key, ""), str), "text")
    for key in _COUNTS:
        value = document.get(key)
        _expect(path, key, value, value is None or (type(value) is int and value > 0), "a positive integer")
    nodes = document.get("nodes", [])
    _expect(
        path, "nodes", nodes, isinstance(nodes, list) and all(isinstance(one, str) for one in nodes), "a list of text"
    )
    return Declaration(
        **{key: document[key] for key in (*_TEXTS, *_COUNTS) if key in document},
        nodes=tuple(nodes),
        capabilities=MappingProxyType(_capabilities(path, document.get("capabilities", {}))),
        pins=MappingProxyType(_pins(path, document.get("pins", {}))),
    )


def _capabilities(path: Path, table: object) -> dict[str, bool]:
    _expect(path, "capabilities", table, isinstance(table, dict), "a table of name = true|false")
    capabilities = dict(table) if isinstance(table, dict) else {}
    known = [str(one) for one in Capability]
    for name, present in capabilities.items():
        if name not in known:
            raise DeclarationError(f"{path} [capabilities]: unknown {name!r}; known: {', '.join(known)}")
        _expect(path, f"capabilities.{name}", present, isinstance(present, bool), "true or false")
    return capabilities


def _pins(path: Path, table: object) -> dict[str, str]:
    fits = isinstance(table, dict) and all(isinstance(value, str) for value in table.values())
    _expect(path, "pins", table, fits, "a table of name = text")
    return dict(table) if isinstance(table, dict) else {}


def _expect(path: Path, key: str, value: object, fits: bool, expected: str) -> None:  # noqa: FBT001 - a check reads so
    if not fits:
        raise DeclarationError(f"{path}: {key} = {value!r}; {expected} expected")
