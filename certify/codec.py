"""Between frozen dataclasses and canonical JSON (RFC 8785): the only bytes that are hashed, signed or chained."""

import base64
import hashlib
import json
from enum import Enum
from functools import cache
from typing import Any, TypeVar, cast

import cattrs
import rfc8785

from certify.records import Json

T = TypeVar("T")


class CodecError(ValueError):
    """Bytes or values that are not what their record type declares."""


def _reject_duplicate_keys(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    keys = [key for key, _ in pairs]
    if len(set(keys)) != len(keys):
        doubled = next(key for key in keys if keys.count(key) > 1)
        raise CodecError(f"duplicate key {doubled[:80]!r}")
    return dict(pairs)


def canonical(value: Json) -> bytes:
    """The RFC 8785 bytes of a JSON value.

    Raises:
        CodecError: a number beyond 2**53 or a non-finite float, which JSON readers disagree about.
    """
    try:
        return rfc8785.dumps(value)
    except rfc8785.CanonicalizationError as error:
        raise CodecError(str(error)) from error


def parse_json(text: bytes | str) -> Json:
    """One JSON value, with duplicate keys and non-finite numbers refused.

    Raises:
        CodecError: what is wrong with the text.
    """

    def refuse(constant: str) -> Json:
        raise CodecError(f"{constant} is not JSON")

    try:
        return cast("Json", json.loads(text, object_pairs_hook=_reject_duplicate_keys, parse_constant=refuse))
    except CodecError:
        raise
    except (ValueError, RecursionError) as error:
        raise CodecError(f"not JSON: {error}") from error


def digest(value: Json | bytes) -> str:
    """SHA-256 of bytes, or of the canonical bytes of a JSON value, as 64 hex digits."""
    return hashlib.sha256(value if isinstance(value, bytes) else canonical(value)).hexdigest()


def _bytes_to_json(raw: bytes) -> Json:
    """Text where the bytes are UTF-8 (readable, and it compresses), base64 in an object where they are not."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(raw).decode()}


def _bytes_from_json(value: object) -> bytes:
    match value:
        case str():
            return value.encode()
        case {"base64": str(text), **rest} if not rest:
            return base64.b64decode(text, validate=True)
        case _:
            raise TypeError("expected text or an object with base64")


@cache
def _converter() -> cattrs.Converter:
    converter = cattrs.Converter(forbid_extra_keys=True, detailed_validation=False)

    def exact(value: object, expected: type[T]) -> T:
        if issubclass(expected, Enum):  # the hook for str catches the StrEnums too
            return cast("T", expected(value))
        if type(value) is not expected:
            raise TypeError(f"expected {expected.__name__}, got {type(value).__name__}")
        return value

    # cattrs would coerce: int("7") and bool(0) must be errors, not readings.
    # By class, not by predicate: cattrs asks its own hooks for scalars before any predicate.
    for scalar in (int, str, bool, float):
        converter.register_structure_hook(scalar, exact)
    converter.register_structure_hook_func(lambda kind: kind == Json, lambda value, _: value)
    converter.register_unstructure_hook_func(lambda kind: kind == Json, lambda value: value)
    converter.register_unstructure_hook(Enum, lambda member: member.value)
    converter.register_unstructure_hook(bytes, _bytes_to_json)
    converter.register_structure_hook(bytes, lambda value, _: _bytes_from_json(value))
    return converter


def to_json(record: object) -> Json:
    """The JSON form of a record (frozen dataclass), its tuples as arrays and its enums as values."""
    return cast("Json", _converter().unstructure(record))


def from_json(kind: type[T], value: Json) -> T:
    """The record of type `kind` that `value` spells; unknown keys and coerced types are refused.

    Raises:
        CodecError: which record type, and why the value does not fit it.
    """
    try:
        return _converter().structure(cast("Any", value), kind)
    except Exception as error:  # cattrs raises whatever a hook raised
        raise CodecError(f"not a {kind.__name__}: {type(error).__name__}: {error}"[:400]) from error
