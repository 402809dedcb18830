"""Server-sent events, parsed from bytes; an event knows which read completed it."""

from dataclasses import dataclass

# A final usage chunk is a few hundred bytes and a chunk with logprobs a few tens of thousands; 4 MiB is not an event.
LONGEST_EVENT_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class SseEvent:
    """One event: its name ("" when it has none), its data, and the stamp of the read that completed it.

    `data` is decoded as UTF-8 with U+FFFD for what is not. `flaw` says what is wrong with the event itself: "", "not
    UTF-8", "too long" (its data is cut) or "unterminated" (the stream ended before the blank line).
    """

    name: str
    data: str
    stamp: int
    flaw: str = ""


class SseParser:
    """An incremental parser of https://html.spec.whatwg.org/multipage/server-sent-events.html.

    Lines end with LF, CR or CRLF; comments, `id` and `retry` are passed over; an event ends with a blank line. A CR
    ends its line at once, so the event is complete at the CR even if the LF comes with the next read.
    """

    def __init__(self, longest_event: int = LONGEST_EVENT_BYTES) -> None:
        """`longest_event` bounds the bytes of one event that are kept in memory."""
        self._longest = longest_event
        self._line: list[bytes] = []  # pieces of the line that has not ended yet
        self._line_bytes = 0
        self._data: list[bytes] = []
        self._data_bytes = 0
        self._name = b""
        self._too_long = False
        self._after_cr = False
        self._first_line = True
        self._stamp = 0

    def feed(self, data: bytes, stamp: int) -> list[SseEvent]:
        """The events that these bytes complete, each with this read's stamp."""
        self._stamp = stamp
        if self._after_cr and data:
            self._after_cr = False
            data = data.removeprefix(b"\n")
        events: list[SseEvent] = []
        for piece in data.splitlines(keepends=True):
            line = piece.rstrip(b"\r\n")
            if len(line) == len(piece):
                self._keep(line)
                break
            if self._line:
                self._keep(line)
                line = b"".join(self._line)
                self._line, self._line_bytes = [], 0
            if event := self._end_of_line(line):
                events.append(event)
        self._after_cr = data.endswith(b"\r")
        return events

    def finish(self) -> list[SseEvent]:
        """What the end of the stream leaves: at most one event, flawed as unterminated."""
        if self._line:
            line = b"".join(self._line)
            self._line, self._line_bytes = [], 0
            self._end_of_line(line)
        event = self._dispatch("unterminated")
        return [event] if event else []

    def _keep(self, piece: bytes) -> None:
        room = max(0, self._longest - self._line_bytes)
        self._too_long |= len(piece) > room
        self._line.append(piece[:room])
        self._line_bytes += min(len(piece), room)

    def _end_of_line(self, line: bytes) -> SseEvent | None:
        if self._first_line:
            self._first_line = False
            line = line.removeprefix(b"\xef\xbb\xbf")
        if not line:
            return self._dispatch("")
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            room = max(0, self._longest - self._data_bytes)
            self._too_long |= len(value) > room
            if room or not self._data:
                self._data.append(value[:room])
                self._data_bytes += len(value[:room]) + 1
        elif field == b"event":
            self._name = value[:200]
        return None

    def _dispatch(self, flaw: str) -> SseEvent | None:
        data, name, too_long = self._data, self._name, self._too_long
        self._data, self._data_bytes, self._name, self._too_long = [], 0, b"", False
        if not data:
            return None
        raw = b"\n".join(data)
        try:
            text = raw.decode()
        except UnicodeDecodeError:
            text, flaw = raw.decode(errors="replace"), flaw or "not UTF-8"
        return SseEvent(name.decode(errors="replace"), text, self._stamp, "too long" if too_long else flaw)
