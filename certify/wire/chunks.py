"""Choice 0, put together from a message or from the deltas of a stream."""

import json
from dataclasses import dataclass, field

from certify.records import Json, ToolCall
from certify.wire.hostile import Note, shown, whole_text


@dataclass(slots=True)
class _Call:
    """A tool call while its deltas come."""

    index: int
    call_id: str = ""
    name: str = ""
    arguments: list[str] = field(default_factory=list)


class ChoiceReader:
    """Takes the parts of choice 0 in order; what is wrong with them goes to `note`."""

    def __init__(self, note: Note) -> None:
        """`note` takes one sentence for each departure."""
        self._note = note
        self._content: list[str] = []
        self._reasoning: list[str] = []
        self._calls: dict[int, _Call] = {}
        self._latest_call: _Call | None = None
        self._fields: set[str] = set()
        self.seen = False
        self.content_came = False
        self.finish_reasons: list[str] = []

    @property
    def reasoning_field(self) -> str:
        """Which field carried reasoning text: "reasoning", "reasoning_content", "both" or ""."""
        return "both" if len(self._fields) > 1 else "".join(self._fields)

    def content(self) -> str:
        """The text so far."""
        return self._joined(self._content, "content")

    def reasoning(self) -> str:
        """The reasoning text so far."""
        return self._joined(self._reasoning, "reasoning")

    def tool_calls(self) -> tuple[ToolCall, ...]:
        """The calls so far, by index."""
        return tuple(
            ToolCall(index, whole_text(call.call_id), whole_text(call.name), self._joined(call.arguments, "arguments"))
            for index, call in sorted(self._calls.items())
        )

    def message(self, choice: dict[str, Json]) -> None:
        """Takes the choice of an answer that is not a stream."""
        self._part(choice, "message", whole=True)

    def delta(self, choice: dict[str, Json]) -> tuple[bool, bool, bool]:
        """Takes the choice of one chunk; whether it carried content, reasoning and tool-call text."""
        return self._part(choice, "delta", whole=False)

    def _part(self, choice: dict[str, Json], name: str, *, whole: bool) -> tuple[bool, bool, bool]:
        self.seen = True
        part = choice.get(name)
        carried = (False, False, False)
        if isinstance(part, dict):
            carried = (self._take_content(part), self._take_reasoning(part), self._take_tools(part, whole=whole))
            if self.finish_reasons and any(carried):
                self._note(f"output came after finish_reason {shown(self.finish_reasons[-1])!r}")
        elif whole or part is not None or choice.get("finish_reason") is None:
            self._note(f"{name} is missing or not an object: {shown(part)}")
        self._take_finish(choice.get("finish_reason"))
        return carried

    def _take_content(self, part: dict[str, Json]) -> bool:
        text = self._text(part, "content")
        if text is None:
            return False
        self.content_came = True
        self._content.append(text)
        return bool(text)

    def _take_reasoning(self, part: dict[str, Json]) -> bool:
        texts = {name: text for name in ("reasoning", "reasoning_content") if (text := self._text(part, name))}
        if not texts:
            return False
        self._fields.update(texts)
        # vLLM 0.12 sent the same text in both fields; it is one text.
        distinct = list(dict.fromkeys(texts.values()))
        if len(distinct) > 1:
            self._note("reasoning and reasoning_content carry different texts")
        self._reasoning.append(distinct[0])
        return True

    def _take_tools(self, part: dict[str, Json], *, whole: bool) -> bool:
        sent = part.get("tool_calls")
        if sent is None:
            return False
        if not isinstance(sent, list):
            self._note(f"tool_calls is not a list: {shown(sent)}")
            return False
        carried = False
        for position, piece in enumerate(sent):
            if not isinstance(piece, dict):
                self._note(f"a tool call is not an object: {shown(piece)}")
                continue
            call = self._new_call(position) if whole else self._call_of(piece)
            carried |= self._extend(call, piece)
        return carried

    def _call_of(self, piece: dict[str, Json]) -> _Call:
        index, call_id = piece.get("index"), piece.get("id")
        if type(index) is int and index >= 0:
            call = self._calls.get(index)
            if call is None:
                return self._new_call(index)
            if isinstance(call_id, str) and call_id and call.call_id not in ("", call_id):
                self._note(f"two tool calls share index {shown(index)}")
            self._latest_call = call
            return call
        self._note(f"a tool call delta has no index: {shown(index)}")
        known = next((call for call in self._calls.values() if call_id and call.call_id == call_id), None)
        if known is None and (call_id or self._latest_call is None):
            return self._new_call(max(self._calls, default=-1) + 1)
        self._latest_call = known or self._latest_call
        return self._latest_call or self._new_call(0)

    def _new_call(self, index: int) -> _Call:
        self._latest_call = self._calls[index] = _Call(index)
        return self._latest_call

    def _extend(self, call: _Call, piece: dict[str, Json]) -> bool:
        call.call_id = call.call_id or self._text(piece, "id") or ""
        function = piece.get("function")
        if not isinstance(function, dict):
            if function is not None or not call.name:
                self._note(f"a tool call has no function: {shown(function)}")
            return False
        name = self._text(function, "name") or ""
        if name and call.name not in ("", name):
            self._note(f"a tool call changed its name from {shown(call.name)!r} to {shown(name)!r}")
        call.name = call.name or name
        arguments = function.get("arguments")
        if arguments is not None and not isinstance(arguments, str):
            self._note(f"arguments of a tool call are not text: {shown(arguments)}")
            try:
                arguments = json.dumps(arguments, ensure_ascii=False)
            except (RecursionError, ValueError):
                arguments = ""
        call.arguments.append(arguments or "")
        return bool(name or arguments)

    def _take_finish(self, reason: Json) -> None:
        if reason is None:
            return
        if isinstance(reason, str) and reason:
            self.finish_reasons.append(shown(reason, 200))
        else:
            self._note(f"finish_reason is not a word: {shown(reason)!r}")

    def _text(self, part: dict[str, Json], name: str) -> str | None:
        text = part.get(name)
        if text is None or isinstance(text, str):
            return text
        self._note(f"{name} is not text: {shown(text)}")
        return None

    def _joined(self, pieces: list[str], name: str) -> str:
        joined = "".join(pieces)
        text = whole_text(joined)
        if text is not joined:
            self._note(f"{name} has surrogates that are not whole characters")
        return text
