"""A chat completion request as the simulator understands it, read from hostile JSON."""

import json
from dataclasses import dataclass
from typing import Any, cast

from certify.records import Json

LONGEST_SALT = 128


class RefusedError(Exception):
    """A request that the engine would answer with an error; the HTTP status, its type, and the parameter at fault."""

    def __init__(self, message: str, *, status: int = 400, kind: str = "BadRequestError", param: str = "") -> None:
        super().__init__(message)
        self.status, self.kind, self.param = status, kind, param


@dataclass(frozen=True, slots=True)
class Turn:
    """One message: its role, and everything that it says as text."""

    role: str
    content: str


@dataclass(frozen=True, slots=True)
class Function:
    """A tool: its name, the JSON Schema of its arguments, and its declaration as the template would print it."""

    name: str
    parameters: Json
    declaration: str


@dataclass(frozen=True, slots=True)
class Asking:
    """What the engine needs to know of a request; `max_tokens` is None where the context is the only limit."""

    model: str
    turns: tuple[Turn, ...]
    max_tokens: int | None
    stream: bool
    include_usage: bool
    continuous_usage: bool
    thinking: bool
    thinking_budget: int | None
    ignore_eos: bool
    stop: tuple[str, ...]
    schema: Json
    choice: tuple[str, ...]
    tools: tuple[Function, ...]
    tool_choice: str
    cache_salt: str


def read_asking(raw: bytes) -> Asking:
    """The request in a body.

    Raises:
        RefusedError: what an engine would say to it.
    """
    try:
        body = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise RefusedError(f"the body is not JSON: {error}") from error
    if not isinstance(body, dict):
        raise RefusedError("the body is not a JSON object")
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        raise RefusedError("messages must be a list that is not empty", param="messages")
    options = _member(body, "stream_options")
    structured = _member(body, "structured_outputs")
    if structured.get("regex") or structured.get("grammar"):
        raise RefusedError("regex and grammar are not supported by this deployment", param="structured_outputs")
    stop = body.get("stop") or ()
    tools = tuple(_function(tool) for tool in _list(body.get("tools"), "tools"))
    return Asking(
        model=str(body.get("model", "")),
        turns=tuple(_turn(message) for message in messages),
        max_tokens=_count(body, "max_completion_tokens") or _count(body, "max_tokens"),
        stream=body.get("stream") is True,
        include_usage=options.get("include_usage") is True,
        continuous_usage=options.get("continuous_usage_stats") is True,
        thinking=_thinking(body),
        thinking_budget=_count(body, "thinking_token_budget"),
        ignore_eos=body.get("ignore_eos") is True,
        stop=(stop,) if isinstance(stop, str) else tuple(str(text) for text in _list(stop, "stop") if text),
        schema=_schema(body, structured),
        choice=tuple(str(option) for option in _list(structured.get("choice"), "choice")),
        tools=tools,
        tool_choice=_tool_choice(body.get("tool_choice"), tools),
        cache_salt=_salt(body.get("cache_salt")),
    )


def _member(body: dict[str, Any], name: str) -> dict[str, Any]:
    value = body.get(name)
    return value if isinstance(value, dict) else {}


def _list(value: object, name: str) -> list[Any]:
    if value is None or value == ():
        return []
    if not isinstance(value, list):
        raise RefusedError(f"{name} must be a list", param=name)
    return value


def _count(body: dict[str, Any], name: str) -> int | None:
    value = body.get(name)
    if value is None:
        return None
    if type(value) is not int or value < 1:
        raise RefusedError(f"{name} must be at least 1, got {str(value)[:80]}", param=name)
    return value


def _turn(message: object) -> Turn:
    if not isinstance(message, dict) or not isinstance(message.get("role"), str):
        raise RefusedError("a message must be an object with a role", param="messages")
    content = message.get("content")
    match content:
        case None:
            text = ""
        case str():
            text = content
        case list():
            text = "".join(part["text"] for part in content if isinstance(part, dict) and type(part.get("text")) is str)
        case _:
            raise RefusedError("content must be text or a list of parts", param="messages")
    calls = message.get("tool_calls")
    return Turn(message["role"], text + (json.dumps(calls) if calls else ""))


def _thinking(body: dict[str, Any]) -> bool:
    """On unless switched off: by the template's variable (either of its two common names) or by effort."""
    template = _member(body, "chat_template_kwargs")
    said = [template[name] for name in ("enable_thinking", "thinking") if isinstance(template.get(name), bool)]
    return said[0] if said else body.get("reasoning_effort") != "none"


def _schema(body: dict[str, Any], structured: dict[str, Any]) -> Json:
    wanted = _member(body, "response_format")
    match wanted.get("type"):
        case "json_schema":
            schema = _member(wanted, "json_schema").get("schema")
            if not isinstance(schema, dict):
                raise RefusedError("response_format.json_schema.schema is missing", param="response_format")
            return cast("Json", schema)
        case "json_object":
            return {"type": "object"}
        case None | "text":
            return cast("Json", structured.get("json"))
        case other:
            raise RefusedError(f"response_format type {str(other)[:40]!r} is not known", param="response_format")


def _function(tool: object) -> Function:
    function = tool.get("function") if isinstance(tool, dict) else None
    if not isinstance(function, dict) or not isinstance(function.get("name"), str):
        raise RefusedError("a tool must be an object with a named function", param="tools")
    return Function(function["name"], function.get("parameters", {"type": "object"}), json.dumps(function))


def _tool_choice(said: object, tools: tuple[Function, ...]) -> str:
    """The choice as one word: none, auto, required, or the name of a tool."""
    match said:
        case None:
            return "auto" if tools else "none"
        case "none" | "auto" | "required":
            return str(said)
        case {"function": {"name": str(name)}} if name in {tool.name for tool in tools}:
            return name
        case _:
            raise RefusedError("tool_choice names no tool of this request", param="tool_choice")


def _salt(value: object) -> str:
    if value is None:
        return ""
    if not isinstance(value, str) or not value or len(value) > LONGEST_SALT or any(c in value for c in "@/\\\0"):
        raise RefusedError("cache_salt must be 1 to 128 characters without @, /, \\ and NUL", param="cache_salt")
    return value
