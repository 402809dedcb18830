"""HTTP over sockets of our own: every read is stamped by user space and kernel, every wait has its deadline."""

import logging
import select
import socket
import ssl
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import httpcore
import httpx

from certify.deployment.clock import (
    ANCILLARY_BYTES,
    LARGEST_CLOCK_MOVE_NS,
    StampKeeper,
    ask_for_stamps,
    kernel_stamp,
    realtime_offset_ns,
)
from certify.records import FailureKind, Reads

# Shorter than the keep-alive of the servers at hand (uvicorn and llama.cpp close after 5 s): a request never goes out
# on a connection that the peer is about to close, so no request needs to be sent twice.
IDLE_CONNECTION_S = 2.0
MOST_CONNECTIONS = 4096
_HTTP = b"HTTP/"

# At DEBUG httpcore logs the headers of answers, and a server may echo the key there.
for _library in ("httpcore", "httpx"):
    logging.getLogger(_library).setLevel(logging.WARNING)


@dataclass(slots=True)
class Watch:
    """The stop watch of one exchange: its deadlines, its zero, and a stamp for every read of its body.

    Zero is just before the last write of the request, so a time since then is never told too short.
    """

    connect_s: float
    first_byte_s: float
    silence_s: float
    exchange_s: float
    began_ns: int = field(default_factory=time.monotonic_ns)
    sent_ns: int = 0
    sent_at_us: int = 0
    user_ns: int = 0  # of the latest read
    kernel_ns: int | None = None
    read_number: int = 0
    body_began: bool = False
    expired: FailureKind | None = None
    trouble: str = ""  # how connecting failed: "dns", "tls", "refused" or ""
    _sizes: list[int] = field(default_factory=list)
    _user: list[int] = field(default_factory=list)
    _kernel: list[int | None] = field(default_factory=list)
    _latest_body_read: int = 0
    _offset_ns: int = 0

    def about_to_write(self) -> None:
        """Sets zero; the last call counts."""
        self.sent_ns = time.monotonic_ns()

    def about_to_read(self) -> None:
        """Measures the clocks against each other once the request is out."""
        if not self.sent_at_us:
            self._offset_ns = realtime_offset_ns()
            self.sent_at_us = (self.sent_ns + self._offset_ns) // 1000

    def received(self, user_ns: int, kernel_ns: int | None) -> None:
        """Notes that a read came."""
        self.user_ns, self.kernel_ns = user_ns, kernel_ns
        self.read_number += 1

    def body(self, size: int) -> None:
        """Notes body bytes out of the latest read; several pieces of one read are one entry."""
        self.body_began = True
        if self._latest_body_read == self.read_number and self._sizes:
            self._sizes[-1] += size
            return
        self._latest_body_read = self.read_number
        self._sizes.append(size)
        self._user.append(max(0, self.user_ns - self.sent_ns))
        self._kernel.append(self.kernel_ns)

    def remaining_s(self) -> float:
        """Seconds until the next deadline; when it has passed, `expired` says which."""
        now = time.monotonic_ns()
        zero = self.sent_ns or self.began_ns
        if self.body_began:
            kind, left = FailureKind.SILENCE, self.silence_s - (now - self.user_ns) / 1e9
        else:
            kind, left = FailureKind.FIRST_BYTE_TIMEOUT, self.first_byte_s - (now - zero) / 1e9
        whole = self.exchange_s - (now - self.began_ns) / 1e9
        if whole < left:
            kind, left = FailureKind.DEADLINE, whole
        if left <= 0:
            self.expired = kind
        return left

    def since_sent_ns(self) -> int:
        """Nanoseconds since the request was sent, now."""
        return max(0, time.monotonic_ns() - self.sent_ns) if self.sent_ns else 0

    def reads(self) -> Reads:
        """The reads of the body; without kernel stamps if one is missing or the clocks moved since zero."""
        kernel = [stamp - self._offset_ns - self.sent_ns for stamp in self._kernel if stamp is not None]
        moved = abs(realtime_offset_ns() - self._offset_ns) > LARGEST_CLOCK_MOVE_NS
        if len(kernel) != len(self._sizes) or moved:
            kernel = []
        return Reads(tuple(self._sizes), tuple(self._user), tuple(max(0, stamp) for stamp in kernel))


class _Stream(httpcore.NetworkStream):
    """A connected socket that tells the watch of the thread that uses it."""

    def __init__(self, sock: socket.socket, watch: Callable[[], Watch], opened: "Callable[[_Stream], None]") -> None:
        self._socket = sock
        self._watch = watch
        self._opened = opened
        opened(self)
        self._stamped = not isinstance(sock, ssl.SSLSocket) and ask_for_stamps(sock)

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ARG002 - the watch has deadlines
        watch = self._watch()
        watch.about_to_read()
        left = watch.remaining_s()
        if left <= 0:
            raise httpcore.ReadTimeout(str(watch.expired))
        stamp: int | None = None
        try:
            self._socket.settimeout(left)
            if self._stamped:
                data, ancillary, _, _ = self._socket.recvmsg(max_bytes, ANCILLARY_BYTES)
                now = time.monotonic_ns()
                stamp = kernel_stamp(ancillary)
            else:
                data = self._socket.recv(max_bytes)
                now = time.monotonic_ns()
        except TimeoutError:
            watch.remaining_s()
            raise httpcore.ReadTimeout(str(watch.expired)) from None
        except OSError as error:
            raise httpcore.ReadError(str(error)) from None
        if data:
            watch.received(now, stamp)
            if watch.read_number == 1 and not data.startswith(_HTTP[: len(data)]):
                # h11 would wait for the end of a head that never comes, as an SMTP or SSH server's greeting has none.
                raise httpcore.RemoteProtocolError(f"it begins with {data[:20]!r}")
        return data

    def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ARG002 - the watch has deadlines
        if not buffer:
            return
        watch = self._watch()
        watch.about_to_write()
        left = watch.remaining_s()
        if left <= 0:
            raise httpcore.WriteTimeout(str(watch.expired))
        try:
            self._socket.settimeout(left)
            self._socket.sendall(buffer)
        except TimeoutError:
            watch.remaining_s()
            raise httpcore.WriteTimeout(str(watch.expired)) from None
        except OSError as error:
            raise httpcore.WriteError(str(error)) from None

    def close(self) -> None:
        self._socket.close()

    def shut(self) -> None:
        """Ends whatever another thread waits for on this socket."""
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            return  # the peer or the owner was faster

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        watch = self._watch()
        try:
            self._socket.settimeout(timeout if timeout is not None else watch.connect_s)
            secured = ssl_context.wrap_socket(self._socket, server_hostname=server_hostname)
        except TimeoutError:
            self._socket.close()
            raise httpcore.ConnectTimeout("TLS handshake") from None
        except OSError as error:  # SSLError is one
            self._socket.close()
            watch.trouble = "tls"
            raise httpcore.ConnectError(str(error)) from None
        return _Stream(secured, self._watch, self._opened)

    def get_extra_info(self, info: str) -> Any:  # noqa: ANN401 - httpcore's signature
        if info == "ssl_object":
            return self._socket if isinstance(self._socket, ssl.SSLSocket) else None
        if info == "is_readable":
            return self._is_readable()
        return self._socket if info == "socket" else None

    def _is_readable(self) -> bool:
        if self._socket.fileno() < 0:
            return True
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        return bool(poll.poll(0))


class _Backend(httpcore.NetworkBackend):
    """Opens the sockets, and can end them all."""

    def __init__(self, watch: Callable[[], Watch]) -> None:
        self._watch = watch
        self._keeper = StampKeeper()
        self._streams: weakref.WeakSet[_Stream] = weakref.WeakSet()
        self._lock = threading.Lock()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ARG002 - the watch has deadlines
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.NetworkStream:
        watch = self._watch()
        self._keeper.begin()
        source = (local_address, 0) if local_address else None
        try:
            sock = socket.create_connection((host, port), watch.connect_s, source)
        except TimeoutError:
            raise httpcore.ConnectTimeout(f"no connection within {watch.connect_s:g} s") from None
        except socket.gaierror as error:
            watch.trouble = "dns"
            raise httpcore.ConnectError(f"{host} cannot be resolved: {error.strerror}") from None
        except OSError as error:
            watch.trouble = "refused" if isinstance(error, ConnectionRefusedError) else ""
            raise httpcore.ConnectError(error.strerror or str(error)) from None
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for option in socket_options or ():
            sock.setsockopt(*option)
        return _Stream(sock, self._watch, self._keep)

    def _keep(self, stream: _Stream) -> None:
        with self._lock:
            self._streams.add(stream)

    def close(self) -> None:
        self._keeper.close()

    def shut_all(self) -> None:
        with self._lock:
            streams = list(self._streams)
        for stream in streams:
            stream.shut()


class _Body(httpx.SyncByteStream):
    """httpcore's body under httpx's name."""

    def __init__(self, response: httpcore.Response) -> None:
        self._response = response

    def __iter__(self) -> Iterator[bytes]:
        yield from self._response.iter_stream()

    def close(self) -> None:
        self._response.close()


class StampingTransport(httpx.BaseTransport):
    """An httpx transport whose sockets report to the watch that the calling thread has set.

    Its errors are httpcore's. Proxies and their environment variables are not used; `SSL_CERT_FILE` is, for private
    certificate authorities.
    """

    def __init__(self, *, secure: bool, authorization: Callable[[], str] | None = None) -> None:
        """`authorization` gives the Authorization header, late, so that no request object of ours holds the key."""
        self._authorization = authorization
        self._local = threading.local()
        self._backend = _Backend(self._watch)
        self._pool = httpcore.ConnectionPool(
            ssl_context=httpx.create_ssl_context() if secure else None,
            max_connections=MOST_CONNECTIONS,
            keepalive_expiry=IDLE_CONNECTION_S,
            network_backend=self._backend,
        )

    def watch_with(self, watch: Watch) -> None:
        """From now on the calling thread's exchanges report to this watch."""
        self._local.watch = watch

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Sends one request; the body of the response is still to be read."""
        headers = list(request.headers.raw)
        if self._authorization is not None:
            headers.append((b"Authorization", self._authorization().encode()))
        url = httpcore.URL(
            scheme=request.url.raw_scheme,
            host=request.url.raw_host,
            port=request.url.port,
            target=request.url.raw_path,
        )
        response = self._pool.handle_request(
            httpcore.Request(request.method, url, headers=headers, content=request.read())
        )
        return httpx.Response(response.status, headers=response.headers, stream=_Body(response))

    def shut_all(self) -> None:
        """Ends every exchange that runs, in whatever thread."""
        self._backend.shut_all()

    def close(self) -> None:
        """Closes all connections."""
        self._pool.close()
        self._backend.close()

    def _watch(self) -> Watch:
        watch: Watch = self._local.watch
        return watch
