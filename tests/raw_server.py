"""A server made of sockets and threads that answers whatever a test tells it to, well-formed or not."""

import json
import select
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass
class Asked:
    """One request as it came over the wire."""

    method: str
    path: str
    headers: dict[str, str]
    raw_head: str
    body: bytes

    @property
    def json(self):
        return json.loads(self.body)


@dataclass
class Connection:
    """The server's end of one connection."""

    sock: socket.socket
    stopped: threading.Event

    def send(self, raw: bytes) -> None:
        self.sock.sendall(raw)

    def pause(self, seconds: float) -> None:
        """Waits, but not beyond the end of the test or of the client."""
        self.stopped.wait(seconds)

    def hang(self) -> None:
        """Waits until the client goes away."""
        while not self.stopped.is_set():
            if select.select([self.sock], [], [], 0.05)[0] and not self.sock.recv(65536):
                return

    def reset(self) -> None:
        """Closes with RST."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
        self.sock.close()

    def reply(self, body: object, status: int = 200, content_type: str = "application/json", extra: str = "") -> None:
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        head = f"HTTP/1.1 {status} X\r\nContent-Type: {content_type}\r\nContent-Length: {len(raw)}\r\n{extra}\r\n"
        self.send(head.encode() + raw)

    def begin_stream(self) -> None:
        self.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")

    def chunk(self, data: bytes) -> None:
        self.send(b"%x\r\n%s\r\n" % (len(data), data))

    def end_stream(self) -> None:
        self.send(b"0\r\n\r\n")


Script = Callable[[Connection, Asked], None]


@dataclass
class Server:
    """Where it listens, and what it was asked."""

    url: str
    port: int
    asked: list[Asked] = field(default_factory=list)
    connections: int = 0


@contextmanager
def serving(script: Script, *, family: socket.AddressFamily = socket.AF_INET) -> Iterator[Server]:
    """Runs the script for every request on every connection, until it closes the connection or the test ends."""
    host = "127.0.0.1" if family == socket.AF_INET else "::1"
    stopped = threading.Event()
    with socket.create_server((host, 0), family=family, backlog=32) as listener:
        port = listener.getsockname()[1]
        server = Server(f"http://{host if family == socket.AF_INET else '[::1]'}:{port}", port)
        threads: list[threading.Thread] = []

        def accept() -> None:
            listener.settimeout(0.05)
            while not stopped.is_set():
                try:
                    sock, _ = listener.accept()
                except TimeoutError:
                    continue
                server.connections += 1
                threads.append(threading.Thread(target=_converse, args=(sock, script, server, stopped)))
                threads[-1].start()

        acceptor = threading.Thread(target=accept)
        acceptor.start()
        try:
            yield server
        finally:
            stopped.set()
            acceptor.join(5)
            for thread in threads:
                thread.join(5)


def _converse(sock: socket.socket, script: Script, server: Server, stopped: threading.Event) -> None:
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with sock:
        try:
            while (asked := _request(sock, stopped)) is not None:
                server.asked.append(asked)
                script(Connection(sock, stopped), asked)
        except OSError:
            return  # the client went away, as some tests want it to


def _request(sock: socket.socket, stopped: threading.Event) -> Asked | None:
    raw = b""
    while b"\r\n\r\n" not in raw:
        if sock.fileno() < 0 or not (piece := _receive(sock, stopped)):
            return None
        raw += piece
    head, _, body = raw.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
    while len(body) < int(headers.get("content-length", 0)) and (piece := _receive(sock, stopped)):
        body += piece
    method, path, _ = first.split(" ")
    return Asked(method, path, headers, head.decode(), body)


def _receive(sock: socket.socket, stopped: threading.Event) -> bytes:
    while not stopped.is_set():
        if select.select([sock], [], [], 0.05)[0]:
            return sock.recv(65536)
    return b""


ANSWER = {"choices": [{"index": 0, "message": {"content": "Hi"}, "finish_reason": "stop"}]}


def event(text: str) -> bytes:
    return b'data: {"choices":[{"index":0,"delta":{"content":"%s"}}]}\n\n' % text.encode()


def stream(connection: Connection, *texts: str, pause: float = 0.0) -> None:
    connection.begin_stream()
    for text in texts:
        connection.chunk(event(text))
        connection.pause(pause)
    connection.chunk(b"data: [DONE]\n\n")
    connection.end_stream()


def replying(body: object, status: int = 200, content_type: str = "application/json"):
    return lambda connection, _: connection.reply(body, status, content_type)


def not_http(connection: Connection, _asked) -> None:
    connection.send(b"220 smtp.example ESMTP ready\r\n")
    connection.hang()
