"""The client against real sockets that behave, misbehave, or say nothing."""

import datetime as dt
import hashlib
import ipaddress
import itertools
import json
import signal
import socket
import ssl
import threading
import time

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from certify.deployment import client
from certify.deployment.client import Deadlines, Deployment
from certify.deployment.clock import stamping_supported
from certify.deployment.transport import Watch
from certify.records import ChatRequest, FailureKind, Message
from certify.wire.answer import read_answer
from tests.raw_server import ANSWER, Connection, event, not_http, serving, stream

ASK = ChatRequest((Message("user", "Hello"),), max_tokens=8)
WHOLE = ChatRequest((Message("user", "Hello"),), max_tokens=8, stream=False)
SHORT = Deadlines(connect_s=1, first_token_s=0.5, silence_s=0.5, exchange_s=1.5)


def asking(script, request=ASK, *, deadlines=SHORT, **beside):
    """What one exchange with a server that follows this script brings."""
    with serving(script, **beside) as server:
        deployment = Deployment(server.url, model="m", deadlines=deadlines)
        try:
            return deployment.exchange(request)
        finally:
            deployment.close()


# --- exchanges that end well ----------------------------------------------------------------------------------------


def test_a_stream_is_kept_raw_with_a_stamp_for_every_read():
    exchange = asking(lambda connection, _: stream(connection, "a", "b", "c", pause=0.15))
    assert exchange.body == event("a") + event("b") + event("c") + b"data: [DONE]\n\n"
    assert exchange.reads.sizes == (len(event("a")),) * 3 + (len(b"data: [DONE]\n\n"),)
    assert exchange.body_sha256 == hashlib.sha256(exchange.body).hexdigest()
    assert (exchange.status, exchange.content_type, exchange.failure) == (200, "text/event-stream", None)
    assert abs(exchange.sent_at_us / 1e6 - time.time()) < 10
    assert list(exchange.reads.user_ns) == sorted(exchange.reads.user_ns)
    assert 0 < exchange.headers_ns <= exchange.reads.user_ns[0] <= exchange.ended_ns


@pytest.mark.skipif(not stamping_supported(), reason="kernel receive stamps are known on Linux only")
def test_kernel_stamps_come_before_user_stamps_and_keep_their_distances():
    exchange = asking(lambda connection, _: stream(connection, *"abcde", pause=0.02))
    kernel, user = exchange.reads.kernel_ns, exchange.reads.user_ns
    assert len(kernel) == len(user) == len(exchange.reads.sizes)
    assert all(0 < k <= u + 100_000 for k, u in zip(kernel, user, strict=True))
    assert all(after - before > 0.018e9 for before, after in itertools.pairwise(kernel))


@pytest.mark.skipif(not stamping_supported(), reason="kernel receive stamps are known on Linux only")
def test_a_client_that_reads_late_has_the_kernel_s_time(monkeypatch):
    """The second event comes 50 ms after the first, while the client is busy for 500 ms with the first."""
    note = Watch.body

    def busy(watch, size):
        note(watch, size)
        time.sleep(0.5)

    monkeypatch.setattr(Watch, "body", busy)
    exchange = asking(lambda connection, _: stream(connection, "a", "b", pause=0.05), deadlines=Deadlines())
    (kernel, user), read = (exchange.reads.kernel_ns, exchange.reads.user_ns), read_answer(exchange).chunks[1].read
    assert (read, kernel[1] - kernel[0] < 0.4e9, user[1] - user[0] >= 0.5e9) == (1, True, True)


@pytest.mark.parametrize("size", [1, 2, 7, 64])
def test_an_answer_cut_into_tiny_writes_reads_the_same(size):
    def script(connection, _):
        raw = b"".join(b"%x\r\n%s\r\n" % (len(e), e) for e in (event("é"), event("b"))) + b"0\r\n\r\n"
        connection.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
        for start in range(0, len(raw), size):
            connection.send(raw[start : start + size])

    exchange = asking(script)
    assert exchange.body == event("é") + event("b")
    assert sum(exchange.reads.sizes) == len(exchange.body)


def test_one_read_that_holds_several_chunks_is_one_read():
    def script(connection, _):
        raw = b"".join(b"%x\r\n%s\r\n" % (len(event(text)), event(text)) for text in "abc") + b"0\r\n\r\n"
        connection.send(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Type: text/event-stream\r\n\r\n" + raw
        )

    exchange = asking(script)
    assert exchange.reads.sizes == (3 * len(event("a")),)
    assert [chunk.read for chunk in read_answer(exchange).chunks] == [0, 0, 0]


def test_a_connection_is_used_again_and_not_after_it_idled(monkeypatch):
    with serving(lambda connection, _: connection.reply(ANSWER)) as server:
        deployment = Deployment(server.url, model="m")
        assert [deployment.exchange(WHOLE).failure for _ in range(3)] == [None] * 3
        assert server.connections == 1
        later = time.monotonic() + 60
        monkeypatch.setattr(time, "monotonic", lambda: later)
        deployment.exchange(WHOLE)
        assert server.connections == 2
        deployment.close()


def test_a_server_that_closes_after_each_answer_is_asked_anew():
    def script(connection, _):
        connection.reply(ANSWER, extra="Connection: close\r\n")
        connection.sock.close()

    with serving(script) as server:
        deployment = Deployment(server.url, model="m")
        assert [deployment.exchange(WHOLE).failure for _ in range(3)] == [None] * 3
        assert server.connections == 3
        deployment.close()


def test_streams_in_threads_have_their_own_connections_and_stamps():
    with serving(lambda connection, asked: stream(connection, *([asked.json["messages"][0]["content"]] * 5))) as server:
        deployment = Deployment(server.url, model="m")
        answers: dict[str, str] = {}

        def ask(name: str) -> None:
            answers[name] = read_answer(deployment.exchange(ChatRequest((Message("user", name),), 8))).content

        threads = [threading.Thread(target=ask, args=(str(number),)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(10)
        deployment.close()
    assert answers == {str(number): str(number) * 5 for number in range(8)}


@pytest.mark.skipif(not socket.has_ipv6, reason="no IPv6 here")
def test_ipv6():
    exchange = asking(lambda connection, _: stream(connection, "a"), family=socket.AF_INET6)
    assert (read_answer(exchange).content, exchange.failure) == ("a", None)


def test_nothing_in_a_request_says_that_it_is_a_certification():
    with serving(lambda connection, _: stream(connection, "a")) as server:
        deployment = Deployment(server.url, model="m")
        deployment.exchange(ASK)
        deployment.close()
    head = server.asked[0].raw_head + server.asked[0].body.decode()
    assert "certif" not in head.lower()
    assert set(server.asked[0].headers) == {
        *("host", "accept", "accept-encoding", "connection", "user-agent", "content-type", "content-length")
    }
    assert server.asked[0].headers["accept-encoding"] == "identity"
    assert server.asked[0].headers["user-agent"].startswith("python-httpx/")


def test_a_long_request_is_told_by_its_digest_alone():
    long = ChatRequest((Message("user", "x" * 70_000),), max_tokens=8, stream=False)
    with serving(lambda connection, _: connection.reply(ANSWER)) as server:
        deployment = Deployment(server.url, model="m")
        exchange = deployment.exchange(long)
        deployment.close()
    assert exchange.request_body == ""
    assert exchange.request_sha256 == hashlib.sha256(server.asked[0].body).hexdigest()
    assert exchange.request_bytes == len(server.asked[0].body)


def test_a_short_request_is_kept_as_sent():
    exchange = asking(lambda connection, _: stream(connection, "a"))
    assert json.loads(exchange.request_body)["messages"] == [{"role": "user", "content": "Hello"}]


def test_a_redirect_is_an_answer_and_not_followed():
    exchange = asking(lambda connection, _: connection.reply(b"", 307, extra="Location: http://127.0.0.1:9/\r\n"))
    assert (exchange.status, exchange.failure) == (307, None)


def test_an_error_after_status_200_is_in_the_answer():
    def script(connection, _):
        connection.begin_stream()
        connection.chunk(event("a") + b'data: {"error":{"message":"died","code":500}}\n\ndata: [DONE]\n\n')
        connection.end_stream()

    answer = read_answer(asking(script))
    assert (answer.content, answer.error.message, answer.finish_reason) == ("a", "died", "")


# --- exchanges that break -------------------------------------------------------------------------------------------


def slow_drip(connection: Connection, _asked) -> None:
    connection.begin_stream()
    while not connection.stopped.is_set():
        connection.chunk(b": ping\n\n")
        connection.pause(0.05)


def cut_mid_stream(connection: Connection, _asked) -> None:
    connection.begin_stream()
    connection.chunk(event("a"))
    connection.sock.close()


def silent_mid_stream(connection: Connection, _asked) -> None:
    connection.begin_stream()
    connection.chunk(event("a"))
    connection.hang()


def head_without_body(connection: Connection, _asked) -> None:
    connection.begin_stream()
    connection.hang()


def garbage_in_the_chunks(connection: Connection, _asked) -> None:
    connection.begin_stream()
    connection.chunk(event("a"))
    connection.send(b"not a chunk\r\n")
    connection.hang()


def reset_mid_stream(connection: Connection, _asked) -> None:
    connection.begin_stream()
    connection.chunk(event("a"))
    connection.pause(0.1)
    connection.reset()


def closed_without_an_answer(connection: Connection, _asked) -> None:
    connection.sock.close()


def endless_head(connection: Connection, _asked) -> None:
    connection.send(b"HTTP/1.1 200 OK\r\nX: ")
    for _ in range(200):
        connection.send(b"x" * 4096)
    connection.hang()


@pytest.mark.parametrize(
    ("script", "kind", "text"),
    [
        (lambda connection, _: connection.hang(), FailureKind.FIRST_BYTE_TIMEOUT, ""),
        (head_without_body, FailureKind.FIRST_BYTE_TIMEOUT, ""),
        (silent_mid_stream, FailureKind.SILENCE, "a"),
        (slow_drip, FailureKind.DEADLINE, ""),
        (cut_mid_stream, FailureKind.BROKEN, "a"),
        (reset_mid_stream, FailureKind.BROKEN, "a"),
        (closed_without_an_answer, FailureKind.BROKEN, ""),
        (garbage_in_the_chunks, FailureKind.PROTOCOL, "a"),
        (not_http, FailureKind.PROTOCOL, ""),
        (endless_head, FailureKind.PROTOCOL, ""),
    ],
)
def test_each_way_to_break_has_its_kind_and_keeps_what_came(script, kind, text):
    exchange = asking(script)
    assert (exchange.failure.kind, read_answer(exchange).content) == (kind, text)
    assert "\n" not in exchange.failure.message
    assert exchange.ended_ns < 3e9


def test_nobody_listens():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    exchange = Deployment(f"http://127.0.0.1:{port}", model="m").exchange(ASK)
    assert (exchange.failure.kind, exchange.status, exchange.sent_at_us > 0) == (FailureKind.CONNECT, None, True)


def test_an_endless_body_is_cut_at_the_cap(monkeypatch):
    monkeypatch.setattr(client, "LONGEST_BODY_BYTES", 200_000)

    def script(connection, _):
        connection.begin_stream()
        while True:
            connection.chunk(b"x" * 50_000)

    exchange = asking(script, deadlines=Deadlines())
    assert len(exchange.body) == 200_000 < exchange.body_bytes < 400_000
    assert exchange.body_sha256 == hashlib.sha256(b"x" * exchange.body_bytes).hexdigest()
    assert (exchange.failure, read_answer(exchange).truncated) == (None, True)


def test_ctrl_c_returns_what_came():
    def script(connection, _):
        connection.begin_stream()
        connection.chunk(event("a"))
        connection.pause(0.1)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
        connection.hang()

    exchange = asking(script, deadlines=Deadlines())
    assert (exchange.failure.kind, read_answer(exchange).content) == (FailureKind.INTERRUPTED, "a")


def test_close_ends_what_runs_in_other_threads():
    began = threading.Event()

    def script(connection, _):
        connection.begin_stream()
        connection.chunk(event("a"))
        began.set()
        connection.hang()

    with serving(script) as server:
        deployment = Deployment(server.url, model="m")
        exchanges = []
        thread = threading.Thread(target=lambda: exchanges.append(deployment.exchange(ASK)))
        thread.start()
        assert began.wait(5)
        deployment.close()
        thread.join(5)
    assert exchanges[0].failure.kind is FailureKind.INTERRUPTED


# --- TLS ------------------------------------------------------------------------------------------------------------


def test_tls_has_user_stamps_only(tmp_path, monkeypatch):
    certificate, key = self_signed(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    body = event("a") + b"data: [DONE]\n\n"
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer_one() -> None:
            sock, _ = listener.accept()
            with context.wrap_socket(sock, server_side=True) as secured:
                asked = secured.recv(65536)
                while not asked.endswith(b"}"):
                    asked += secured.recv(65536)
                head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: %d\r\n\r\n" % len(body)
                secured.sendall(head)
                secured.sendall(body)

        thread = threading.Thread(target=answer_one)
        thread.start()
        deployment = Deployment(f"https://127.0.0.1:{listener.getsockname()[1]}", model="m")
        exchange = deployment.exchange(ASK)
        deployment.close()
        thread.join(5)
    assert (exchange.failure, exchange.body) == (None, body)
    assert (len(exchange.reads.user_ns), exchange.reads.kernel_ns) == (len(exchange.reads.sizes), ())


def self_signed(folder):
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    now = dt.datetime.now(dt.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    (folder / "cert.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    (folder / "key.pem").write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return folder / "cert.pem", folder / "key.pem"
