"""An HTTP proxy that bends the traffic of a healthy deployment as one fault says, streamed or not."""

import argparse
import contextlib
import http.client
import itertools
import json
import re
import socket
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self, cast
from urllib.parse import urlsplit

from certify.child import Ropes
from certify.embedded.faults import Fault, fault_named
from certify.embedded.lies import Body, CutError, Lie, SilentError

CHAT = "/v1/chat/completions"
UPSTREAM_S = 900.0
_FRAME_END = re.compile(rb"\r?\n\r?\n")
_PASSED_ON = ("content-type", "authorization", "accept")


class FaultProxy:
    """The proxy as a context manager, served by threads of this process; `base_url` holds while it is entered."""

    def __init__(self, upstream_url: str, fault_name: str, *, port: int = 0) -> None:
        """Opens nothing.

        Raises:
            ValueError: there is no such fault.
        """
        self.fault = fault_named(fault_name)
        self.base_url = ""
        self._upstream_url, self._port = upstream_url.rstrip("/"), port
        self._server: _Server | None = None
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        self._server = _Server(self._port, self._upstream_url, self.fault)
        self.base_url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._server is None or self._thread is None:
            return
        self._server.closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, port: int, upstream_url: str, fault: Fault) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        parts = urlsplit(upstream_url)
        self.upstream, self.prefix = parts.netloc, parts.path
        self.closing = threading.Event()
        self._fault, self._memory = fault, cast("Body", {})
        self._chats = itertools.count()
        self._asked = 0

    def lie(self, *, chat: bool) -> Lie:
        """What speaks for the next request."""
        if chat:
            self._asked = next(self._chats)
            return self._fault.make(self._asked, self._memory)
        return self._fault.make(self._asked + 1, self._memory)

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ANN401 - the library's signature
        """A client or deployment that went away ends its own request only."""
        if not isinstance(sys.exception(), OSError | http.client.HTTPException):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
        """Say nothing: what passes is in the evidence."""

    def do_GET(self) -> None:
        self._pass_on(b"")

    def do_POST(self) -> None:
        self._pass_on(self.rfile.read(int(self.headers.get("Content-Length") or 0)))

    def _pass_on(self, body: bytes) -> None:
        chat = self.path.partition("?")[0].endswith(CHAT)
        lie = self.server.lie(chat=chat)
        try:
            if chat:
                self._chat(lie, body)
            else:
                self._page(lie, body)
        except CutError:
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
        except SilentError:
            self.server.closing.wait()
            self.close_connection = True

    @contextlib.contextmanager
    def _upstream(self, body: bytes) -> Iterator[http.client.HTTPResponse]:
        connection = http.client.HTTPConnection(self.server.upstream, timeout=UPSTREAM_S)
        try:
            headers = {name: self.headers[name] for name in _PASSED_ON if name in self.headers}
            connection.request(self.command, self.server.prefix + self.path, body or None, headers)
            yield connection.getresponse()
        finally:
            connection.close()

    def _page(self, lie: Lie, body: bytes) -> None:
        with self._upstream(body) as answer:
            raw = answer.read()
            if self.path.partition("?")[0] == "/metrics" and answer.status == http.HTTPStatus.OK:
                raw = lie.metrics(raw.decode(errors="replace")).encode()
            self._whole(answer.status, answer.headers.get("Content-Type", ""), raw)

    def _chat(self, lie: Lie, body: bytes) -> None:
        if instead := lie.instead():
            self._whole(*instead)
            return
        asked = _object(body)
        if asked is not None:
            lie.asked = asked
            body = json.dumps(lie.request(asked)).encode()
        with self._upstream(body) as answer:
            kind = answer.headers.get("Content-Type", "")
            if kind.startswith("text/event-stream"):
                self._stream(lie, answer, kind)
                return
            raw = answer.read()
            told = _object(raw)
            if told is not None and answer.status == http.HTTPStatus.OK:
                raw = json.dumps(lie.whole(lie.counts(told)), ensure_ascii=False).encode()
            self._whole(answer.status, kind, raw)

    def _whole(self, status: int, kind: str, raw: bytes) -> None:
        self.send_response(status)
        if kind:
            self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def _stream(self, lie: Lie, answer: http.client.HTTPResponse, kind: str) -> None:
        self.send_response(answer.status)
        self.send_header("Content-Type", kind)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for frame in lie.frames(_bent(lie, _frames(answer))):
            if frame:
                self.wfile.write(b"%x\r\n%s\r\n" % (len(frame), frame))
        self.wfile.write(b"0\r\n\r\n")


def _frames(answer: http.client.HTTPResponse) -> Iterator[bytes]:
    """The events of a stream, as soon as each is whole, without their end."""
    held = b""
    while piece := answer.read1(65_536):
        *whole, held = _FRAME_END.split(held + piece)
        yield from whole
    if held:
        yield held


def _bent(lie: Lie, frames: Iterator[bytes]) -> Iterator[bytes]:
    for frame in frames:
        chunk = _object(frame[5:]) if frame.startswith(b"data:") else None
        if chunk is None:
            yield frame + b"\n\n"
            continue
        for told in lie.chunk(lie.counts(chunk)):
            text = json.dumps(told, ensure_ascii=False, separators=(",", ":"))
            yield b"data: " + text.encode() + b"\n\n"


def _object(raw: bytes) -> Body | None:
    try:
        value = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def main(arguments: list[str] | None = None) -> int:
    """Serve a fault in front of a deployment until stopped; says where."""
    ropes = Ropes()
    parser = argparse.ArgumentParser(prog="python -m certify.embedded.proxy", description=__doc__)
    parser.add_argument("--upstream", required=True, metavar="URL")
    parser.add_argument("--fault", required=True, metavar="NAME")
    parser.add_argument("--port", type=int, default=0, help="0: a free one")
    options = parser.parse_args(arguments)
    try:
        proxy = FaultProxy(options.upstream, options.fault, port=options.port)
    except ValueError as error:
        parser.error(str(error))
    with proxy:
        ropes.announce(proxy.base_url)
        threading.Event().wait()
    return 0


if __name__ == "__main__":
    sys.exit(main())
