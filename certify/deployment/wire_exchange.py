"""One HTTP exchange under a watch: what came, when, and how it broke; never an exception for what a peer does."""

import hashlib
from dataclasses import dataclass

import httpcore
import httpx

from certify.deployment.secret import Secret
from certify.deployment.transport import StampingTransport, Watch
from certify.records import Failure, FailureKind, Reads

# How httpcore and h11 word an end of the connection, as against bytes that are not HTTP.
_ENDED = ("Server disconnected", "peer closed")


@dataclass(frozen=True, slots=True)
class Received:
    """What one exchange brought. `body` is cut at the cap, `body_bytes` and `body_sha256` are of all that was read.

    Reading stops with the read that passes the cap; an answer that is cut has more `body_bytes` than `body`.
    `trouble` is how connecting failed: "dns", "tls", "refused" or "".
    """

    status: int | None
    content_type: str
    body: bytes
    body_bytes: int
    body_sha256: str
    reads: Reads
    sent_at_us: int
    headers_ns: int | None
    ended_ns: int
    failure: Failure | None
    trouble: str


class Exchanger:
    """Sends requests and keeps what comes; threads may share it, each with one exchange at a time.

    No redirect is followed, no request is sent twice, no compression is asked for, no proxy is used.
    """

    def __init__(self, base_url: str, secret: Secret) -> None:
        """`base_url` is normalised; nothing is opened yet."""
        self._base_url = base_url
        self._secret = secret
        self._closed = False
        secure = base_url.startswith("https:")
        self._transport = StampingTransport(secure=secure, authorization=secret.bearer if secret else None)
        # httpx's own headers are what ordinary clients send; timed streams ask for no compression.
        self._client = httpx.Client(
            transport=self._transport,
            trust_env=False,
            follow_redirects=False,
            headers={"Accept-Encoding": "identity"},
        )

    def send(self, method: str, path: str, content: bytes | None, watch: Watch, cap: int) -> Received:
        """One exchange, whatever becomes of it."""
        headers = {"Content-Type": "application/json"} if content is not None else {}
        request = self._client.build_request(method, self._base_url + path, content=content, headers=headers)
        self._transport.watch_with(watch)
        body = bytearray()
        status: int | None = None
        content_type, failure, headers_ns = "", None, None
        try:
            response = self._client.send(request, stream=True)
            try:
                status, content_type = response.status_code, response.headers.get("content-type", "")[:200]
                headers_ns = max(0, watch.user_ns - watch.sent_ns)
                for piece in response.iter_raw():
                    watch.body(len(piece))
                    body += piece
                    if len(body) > cap:
                        break
            finally:
                response.close()
        except KeyboardInterrupt:
            failure = Failure(FailureKind.INTERRUPTED, "the run was stopped during this exchange")
        except (httpcore.TimeoutException, httpcore.NetworkError, httpcore.ProtocolError, OSError) as error:
            failure = self._failure(error, watch, status)
        except httpx.HTTPError as error:
            failure = Failure(FailureKind.PROTOCOL, self._line(error))
        whole = self._secret.blot(bytes(body))
        return Received(
            status=status,
            content_type=self._secret.blot_text(content_type),
            body=whole[:cap],
            body_bytes=len(whole),
            body_sha256=hashlib.sha256(whole).hexdigest(),
            reads=watch.reads(),
            sent_at_us=watch.sent_at_us,
            headers_ns=headers_ns,
            ended_ns=watch.since_sent_ns(),
            failure=failure,
            trouble=watch.trouble,
        )

    def close(self) -> None:
        """Ends running exchanges (as interrupted) and closes all connections."""
        self._closed = True
        self._transport.shut_all()
        self._client.close()

    def _failure(self, error: Exception, watch: Watch, status: int | None) -> Failure:
        line = self._line(error) or type(error).__name__
        if self._closed:
            kind, message = FailureKind.INTERRUPTED, "the connections were closed during this exchange"
        elif isinstance(error, httpcore.ConnectTimeout):
            kind, message = FailureKind.CONNECT_TIMEOUT, f"no connection within {watch.connect_s:g} s"
        elif isinstance(error, httpcore.ConnectError):
            kind, message = FailureKind.CONNECT, f"no connection: {line}"
        elif watch.expired is not None:
            kind, message = watch.expired, _expired(watch)
        elif isinstance(error, httpcore.RemoteProtocolError) and not line.startswith(_ENDED):
            said = "the answer is not HTTP" if status is None else "the answer's body is not HTTP"
            kind, message = FailureKind.PROTOCOL, f"{said}: {line}"
        else:
            kind, message = FailureKind.BROKEN, f"the connection broke off: {line}"
        return Failure(kind, message)

    def _line(self, error: Exception) -> str:
        return self._secret.blot_text(" ".join(str(error).split()))[:300]


def _expired(watch: Watch) -> str:
    match watch.expired:
        case FailureKind.FIRST_BYTE_TIMEOUT:
            return f"no byte of the answer within {watch.first_byte_s:g} s"
        case FailureKind.SILENCE:
            return f"the answer began, then nothing came for {watch.silence_s:g} s"
    return f"the exchange was not over within {watch.exchange_s:g} s"
