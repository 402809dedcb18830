"""Errors as servers tell them: four JSON shapes, FastAPI's `detail`, HTML and plain text."""

import re
from dataclasses import dataclass

from certify.records import Json
from certify.wire.hostile import shown

LONGEST_MESSAGE = 2000


@dataclass(frozen=True, slots=True)
class ServerError:
    """An error as the server told it, whatever its shape: HTTP status or code in the stream, type, message."""

    code: int | None
    type: str
    message: str


def from_json(value: Json, status: int | None, *, certain: bool = False) -> ServerError | None:
    """The error that a JSON value tells, None when it tells none.

    `{"error": {…}}` (vLLM, llama.cpp), `{"error": "text"}` (vLLM's 401, TensorRT-LLM), `{"object": "error", …}`
    (SGLang, LMDeploy) and `{"detail": …}` (FastAPI). `certain` takes any other value for an error, too.
    """
    if isinstance(value, dict):
        told = value.get("error")
        if isinstance(told, dict):
            return _from_object(told, status)
        if told:
            return ServerError(status, "", shown(told, LONGEST_MESSAGE))
        if value.get("object") == "error":
            return _from_object(value, status)
        if "detail" in value and "choices" not in value:
            return ServerError(status, "detail", shown(value["detail"], LONGEST_MESSAGE))
        if certain:
            return _from_object(value, status)
    return ServerError(status, "", shown(value, LONGEST_MESSAGE)) if certain else None


def from_text(body: bytes, status: int | None) -> ServerError:
    """The error in a body of any other shape: the text without HTML tags."""
    text = body[: 8 * LONGEST_MESSAGE].decode(errors="replace")
    is_html = bool(re.match(r"\s*<(?:!doctype|html|head|body|h1)", text, re.IGNORECASE))
    if is_html:
        text = re.sub(r"(?s)<(script|style)\b.{0,8000}?</\1>|<[^<>]{0,500}>", " ", text)
    message = shown(" ".join(text.split()), LONGEST_MESSAGE)
    return ServerError(status, "html" if is_html else "text", message or f"HTTP status {status} with an empty body")


def _from_object(told: dict[str, Json], status: int | None) -> ServerError:
    message = told.get("message", told.get("detail"))
    kind = told.get("type")
    return ServerError(
        _code(told.get("code")) or status,
        shown(kind, 200) if isinstance(kind, str) else "",
        shown(message if message is not None else told, LONGEST_MESSAGE),
    )


def _code(code: Json) -> int | None:
    if isinstance(code, str) and re.fullmatch(r"[1-9][0-9]{2,4}", code):
        return int(code)
    return code if type(code) is int and 0 < code < 10**6 else None
