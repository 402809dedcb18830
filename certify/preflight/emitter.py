"""The ruler's emitter: an OpenAI-compatible stream server on a known schedule that stamps each chunk as it sends it.

A process of its own (`python -m certify.preflight.emitter --port 0`), standard library only: one thread, one loop,
absolute deadlines, so that a late chunk never delays the next. The schedule stands in the path:
`/s/<ttft_us>-<itl_us>-<tokens per chunk>-<chunks>/v1/chat/completions`.
"""

import argparse
import contextlib
import ctypes
import gc
import heapq
import itertools
import json
import os
import select
import socket
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from types import TracebackType
from typing import Self

from certify.child import Child, Ropes
from certify.records import Json
from certify.wire.emissions import EMITTED_NS, EMITTED_US, RECEIVED_NS, TOKENS, Schedule, schedule_of

MODEL = "emitter"
SPIN_NS = 200_000  # the kernel wakes a sleeper up to about 100 µs late: the last stretch is waited awake
POLL_NS = 1_000_000  # a dense schedule leaves no pause: requests are looked for at least this often
TAIL_NS = 1_000_000  # the usage chunk keeps this distance, so that no read joins it with the last chunk of tokens
HEADER_BYTES = 64 * 1024
BODY_BYTES = 16 * 1024 * 1024
STAMP_DIGITS = 20  # stamps are padded with blanks, which JSON allows: frames keep their length
STALL_S = 5.0  # how long a client may keep a long unstamped answer waiting
PR_SET_TIMERSLACK = 29  # linux/prctl.h

_CLOCK_ZERO_NS = time.monotonic_ns()


@dataclass(slots=True)
class _Frame:
    """One send: when (ns after the request), the bytes, and whether they await their stamps."""

    after_ns: int
    payload: bytes
    stamped: bool


@dataclass(slots=True)
class _Peer:
    """One connection: what it has sent and not yet been answered, and what is still to be sent to it."""

    socket: socket.socket
    inbox: bytearray = field(default_factory=bytearray)
    frames: Iterator[_Frame] = field(default_factory=lambda: iter(()))
    next_frame: _Frame | None = None
    received_ns: int = 0


@dataclass(frozen=True, slots=True)
class _Request:
    method: str
    path: str
    body: bytes


class _BadRequestError(Exception):
    """A request that is refused; the text goes to the client."""


def _take_request(inbox: bytearray) -> _Request | None:
    """The request at the head of the inbox, taken out of it once it is whole."""
    end = inbox.find(b"\r\n\r\n")
    if end < 0:
        if len(inbox) > HEADER_BYTES:
            raise _BadRequestError("headers longer than 64 KiB")
        return None
    head = bytes(inbox[:end]).decode("latin-1").split("\r\n")
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:])}
    length_text = headers.get("content-length", "0")
    if not length_text.isdecimal() or "transfer-encoding" in headers or int(length_text) > BODY_BYTES:
        raise _BadRequestError("a body needs a Content-Length of at most 16 MiB")
    whole = end + 4 + int(length_text)
    if len(inbox) < whole:
        return None
    parts = head[0].split(" ")
    if len(parts) != 3:  # noqa: PLR2004 - method, target, version
        raise _BadRequestError("no HTTP request line")
    body = bytes(inbox[end + 4 : whole])
    del inbox[:whole]
    return _Request(parts[0], parts[1], body)


def _unary(status: HTTPStatus, value: Json) -> bytes:
    body = json.dumps(value).encode()
    head = f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


def _refusal(status: HTTPStatus, message: str) -> bytes:
    error: Json = {"message": message, "type": "invalid_request_error", "param": None, "code": status.value}
    return _unary(status, {"error": error})


def _chunked(payload: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(payload), payload)


def _event(value: Json) -> bytes:
    return b"data: " + json.dumps(value, separators=(",", ":")).encode() + b"\n\n"


_STREAM_HEAD = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nCache-Control: no-store\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n"
)


def _envelope(kind: str, choices: list[Json]) -> dict[str, Json]:
    created = int(time.time())
    return {"id": "chatcmpl-emitter", "object": kind, "created": created, "model": MODEL, "choices": choices}


def _shares(schedule: Schedule, max_tokens: int | None) -> tuple[list[int], str]:
    """Tokens of each chunk under `max_tokens`, and the finish reason."""
    planned = schedule.chunks * schedule.tokens_per_chunk
    total = planned if max_tokens is None else min(planned, max_tokens)
    full, rest = divmod(total, schedule.tokens_per_chunk)
    shares = [schedule.tokens_per_chunk] * full + ([rest] if rest else [])
    return shares, "stop" if max_tokens is None or planned < max_tokens else "length"


def _usage(body: bytes, tokens: int) -> Json:
    prompt = len(body.split())
    return {"prompt_tokens": prompt, "completion_tokens": tokens, "total_tokens": prompt + tokens}


def _stamped_event(share: int, delta: dict[str, Json], reason: str | None, received_ns: int) -> bytes:
    """The event as an HTTP chunk, with two places of fixed width where its stamps will stand."""
    choice: Json = {"index": 0, "delta": delta, "finish_reason": reason}
    value: Json = {**_envelope("chat.completion.chunk", [choice]), RECEIVED_NS: received_ns, TOKENS: share}
    start = _event(value).rstrip()[:-1].replace(b"%", b"%%")
    event = start + f',"{EMITTED_NS}":%{STAMP_DIGITS}d,"{EMITTED_US}":%{STAMP_DIGITS}d}}\n\n'.encode()
    return b"%x\r\n%s\r\n" % (len(event % (0, 0)), event)


def _frames(schedule: Schedule, request: _Request, received_ns: int) -> Iterator[_Frame]:
    """Every send that answers a chat completion, in order."""
    try:
        asked = json.loads(request.body)
    except (ValueError, RecursionError) as error:
        raise _BadRequestError(f"the body is not JSON: {error}") from error
    if not isinstance(asked, dict) or not isinstance(asked.get("messages"), list):
        raise _BadRequestError("a chat completion needs an object with messages")
    limit = asked.get("max_completion_tokens", asked.get("max_tokens"))
    if limit is not None and (type(limit) is not int or limit < 1):
        raise _BadRequestError("max_tokens must be a positive integer")
    shares, reason = _shares(schedule, limit)
    first_ns, step_ns = schedule.ttft_us * 1000, schedule.itl_us * 1000
    end_ns = first_ns + (len(shares) - 1) * step_ns
    usage = _usage(request.body, sum(shares))
    if asked.get("stream") is not True:
        message: Json = {"role": "assistant", "content": " tick" * sum(shares)}
        choice: Json = {"index": 0, "message": message, "finish_reason": reason}
        answer: Json = {**_envelope("chat.completion", [choice]), "usage": usage}
        return iter([_Frame(end_ns, _unary(HTTPStatus.OK, answer), stamped=False)])
    options = asked.get("stream_options")
    tail = b""
    if isinstance(options, dict) and options.get("include_usage") is True:
        tail = _chunked(_event({**_envelope("chat.completion.chunk", []), "usage": usage}))
    tail += _chunked(b"data: [DONE]\n\n") + b"0\r\n\r\n"
    return itertools.chain(
        [_Frame(0, _STREAM_HEAD, stamped=False)],
        _token_frames(shares, reason, first_ns, step_ns, received_ns),
        [_Frame(end_ns + max(step_ns, TAIL_NS), tail, stamped=False)],
    )


def _token_frames(shares: list[int], reason: str, first_ns: int, step_ns: int, received_ns: int) -> Iterator[_Frame]:
    """The chunks that carry tokens. Made one by one: a long stream must not hold up the others at its start."""
    last = len(shares) - 1
    middle = _stamped_event(shares[0], {"content": " tick" * shares[0]}, None, received_ns)
    for index, share in enumerate(shares):
        event = middle
        if index in {0, last}:
            role: dict[str, Json] = {"role": "assistant"} if index == 0 else {}
            finish = reason if index == last else None
            event = _stamped_event(share, {**role, "content": " tick" * share}, finish, received_ns)
        yield _Frame(first_ns + index * step_ns, event, stamped=True)


def _answer(request: _Request, received_ns: int) -> Iterator[_Frame]:
    schedule = schedule_of(request.path)
    route = request.path.partition("?")[0].removeprefix(schedule.path if schedule else "")
    match request.method, route:
        case "POST", "/v1/chat/completions" if schedule:
            return _frames(schedule, request, received_ns)
        case "GET", "/v1/models":
            card: Json = {"id": MODEL, "object": "model", "created": 0, "owned_by": MODEL}
            return iter([_Frame(0, _unary(HTTPStatus.OK, {"object": "list", "data": [card]}), stamped=False)])
        case "GET", "/health":
            return iter([_Frame(0, _unary(HTTPStatus.OK, {"status": "ok"}), stamped=False)])
        case _:
            return iter([_Frame(0, _refusal(HTTPStatus.NOT_FOUND, "no such path"), stamped=False)])


class EmitterServer:
    """One loop over all connections; `serve` never returns."""

    def __init__(self, port: int) -> None:
        self._listener = socket.create_server(("127.0.0.1", port), backlog=128)
        self._listener.setblocking(False)  # noqa: FBT003 - positional in the standard library
        self._peers: dict[int, _Peer] = {}
        self._due: list[tuple[int, int, _Peer]] = []
        self._serial = itertools.count()
        self.port: int = self._listener.getsockname()[1]

    def serve(self) -> None:
        """Answer requests until the process ends."""
        polled_ns = 0
        while True:
            now = time.monotonic_ns()
            wait_ns = self._due[0][0] - now - SPIN_NS if self._due else None
            if wait_ns is None or wait_ns > 0 or now - polled_ns > POLL_NS:
                self._poll(None if wait_ns is None else max(0, wait_ns) / 1e9)
                polled_ns = time.monotonic_ns()
            elif self._due:
                self._send_next()

    def _poll(self, timeout_s: float | None) -> None:
        # select, not epoll: epoll's timeout is in whole milliseconds
        readable, _, _ = select.select(
            [self._listener, *(peer.socket for peer in self._peers.values())], [], [], timeout_s
        )
        for ready in readable:
            if ready is self._listener:
                self._accept()
            elif (peer := self._peers.get(ready.fileno())) is not None:
                self._read(peer)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            connection, _ = self._listener.accept()
            connection.setblocking(False)  # noqa: FBT003 - positional in the standard library
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._peers[connection.fileno()] = _Peer(connection)

    def _read(self, peer: _Peer) -> None:
        try:
            data = peer.socket.recv(1 << 20)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data or len(peer.inbox) > HEADER_BYTES + BODY_BYTES:
            self._close(peer)
            return
        peer.inbox += data
        if peer.next_frame is None:
            self._begin(peer)

    def _begin(self, peer: _Peer) -> None:
        """Plan the answer to the next whole request in the inbox, if there is one."""
        try:
            request = _take_request(peer.inbox)
            if request is None:
                return
            stamp = time.monotonic_ns()
            peer.frames = _answer(request, stamp - _CLOCK_ZERO_NS)
        except _BadRequestError as error:
            peer.inbox.clear()
            stamp = time.monotonic_ns()
            peer.frames = iter([_Frame(0, _refusal(HTTPStatus.BAD_REQUEST, str(error)), stamped=False)])
        peer.received_ns = stamp
        self._schedule_next(peer)

    def _schedule_next(self, peer: _Peer) -> None:
        peer.next_frame = next(peer.frames, None)
        if peer.next_frame is not None:
            heapq.heappush(self._due, (peer.received_ns + peer.next_frame.after_ns, next(self._serial), peer))
        elif peer.inbox:
            self._begin(peer)

    def _send_next(self) -> None:
        due_ns, _, peer = heapq.heappop(self._due)
        frame = peer.next_frame
        if frame is None or peer.socket.fileno() < 0:
            return
        while (now := time.monotonic_ns()) < due_ns:
            pass
        payload = frame.payload
        if frame.stamped:
            payload %= (now - _CLOCK_ZERO_NS, time.time_ns() // 1000)
        try:
            sent = peer.socket.send(payload)
            if sent < len(payload) and not frame.stamped:
                peer.socket.settimeout(STALL_S)
                peer.socket.sendall(payload[sent:])
                peer.socket.setblocking(False)  # noqa: FBT003 - positional in the standard library
                sent = len(payload)
        except OSError:
            sent = -1
        if sent == len(payload):
            self._schedule_next(peer)
        else:  # gone, or so slow that no later stamp would be true
            self._close(peer)

    def _close(self, peer: _Peer) -> None:
        self._peers.pop(peer.socket.fileno(), None)
        peer.socket.close()


def _be_punctual() -> None:
    """Ask for all that an unprivileged or privileged process may have; go on without what is refused."""
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, -10)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0)
    gc.disable()  # frames hold no cycles; a collection would delay a chunk


def main(arguments: list[str] | None = None) -> int:
    """Serve until killed; announces the base URL."""
    ropes = Ropes()
    parser = argparse.ArgumentParser(prog="python -m certify.preflight.emitter", description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="0: a free one")
    server = EmitterServer(parser.parse_args(arguments).port)
    _be_punctual()
    ropes.announce(f"http://127.0.0.1:{server.port}")
    server.serve()
    return 0


class Emitter:
    """The emitter in a process of its own, as a context manager."""

    def __init__(self, log_path: Path) -> None:
        self._child = Child(
            "certify.preflight.emitter", [], log_path=log_path, name="the ruler's emitter", start_s=20.0
        )

    def __enter__(self) -> Self:
        """Start it.

        Raises:
            ChildError: it did not come up; with the last lines of its log.
        """
        self._child.__enter__()
        return self

    def url(self, schedule: Schedule) -> str:
        """The base URL under which this emitter serves a schedule."""
        return self._child.address + schedule.path

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._child.__exit__(kind, value, trace)


if __name__ == "__main__":
    sys.exit(main())
