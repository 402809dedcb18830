"""Recorded traffic of real engines as exchanges, whatever format it was recorded in."""

import hashlib
import json
import re
from dataclasses import dataclass
from pathlib import Path

from certify.records import Asked, Exchange, Reads, Thinking

KEPT = Path(__file__).parent / "captures"
ALL = Path(__file__).parents[2] / "shared" / "captures"

CHAT = "/v1/chat/completions"


@dataclass(frozen=True)
class Capture:
    """One recorded exchange and the path that was asked."""

    name: str
    path: str
    exchange: Exchange

    @property
    def text(self) -> str:
        return self.exchange.body.decode()

    @property
    def streamed(self) -> bool:
        return "event-stream" in self.exchange.content_type

    def __str__(self) -> str:
        return self.name


def exchange(
    body: bytes,
    *,
    content_type: str = "text/event-stream",
    status: int | None = 200,
    stream: bool = True,
    sizes: tuple[int, ...] | None = None,
    times: tuple[int, ...] | None = None,
) -> Exchange:
    """An exchange that brought this body, in one read unless `sizes` says otherwise."""
    sizes = (len(body),) if sizes is None else sizes
    return Exchange(
        asked=Asked(stream, 64, Thinking.UNSAID, None, False, (), "", False),
        request_sha256="",
        request_body="",
        request_bytes=0,
        sent_at_us=0,
        status=status,
        content_type=content_type,
        body=body,
        body_bytes=len(body),
        body_sha256=hashlib.sha256(body).hexdigest(),
        reads=Reads(sizes, times or tuple(range(1, len(sizes) + 1))),
        headers_ns=1,
        ended_ns=max(times or (0,)) + 1,
    )


def load(path: Path, root: Path) -> Capture | None:
    """The exchange in a file; None when the file is no exchange (metrics, summaries, logs)."""
    name = str(path.relative_to(root))
    if path.name.endswith(".sse.jsonl"):
        return _socket_reads(path, name)
    if path.name.startswith("sse-") or path.name == "worker-killed.txt":
        return _timed_lines(path, name)
    if path.name.startswith("http-"):
        return _page(path, name)
    if path.parent.name == "pages":
        return None
    if path.suffix == ".json" and not path.name.startswith(("summary-", "greedy", "expected")):
        return _json_file(path, name)
    return None


def captures(root: Path) -> list[Capture]:
    """All exchanges below a folder, by name."""
    found = (load(path, root) for path in sorted(root.rglob("*")) if path.is_file())
    return [capture for capture in found if capture is not None]


def metrics_page(path: Path) -> str:
    """A recorded /metrics page."""
    text = path.read_text()
    return json.loads(text)["response_text"] if path.suffix == ".json" else text


def _socket_reads(path: Path, name: str) -> Capture:
    head, *reads = [json.loads(line) for line in path.read_text().splitlines()]
    raw = [read["raw"].encode() for read in reads]
    headers = {key.lower(): value for key, value in head["headers"].items()}
    made = exchange(
        b"".join(raw),
        content_type=headers.get("content-type", ""),
        status=head["status"],
        sizes=tuple(map(len, raw)),
        times=tuple(read["t_ns"] for read in reads),
    )
    return Capture(name, head["request"]["path"], made)


def _timed_lines(path: Path, name: str) -> Capture:
    lines = path.read_text().split("\n")
    asked = re.match(r"REQUEST (/\S+)", lines[0])
    told = re.search(r'^(?:\{"status":|status) (\d+)', "\n".join(lines[:2]), re.MULTILINE)
    content_type = re.search(r'"content-type": "([^"]+)"', lines[1])
    timed = [(float(stamp or 0), text) for stamp, text in map(_stamped, lines) if text is not None]
    raw = [f"{text}\n".encode() for _, text in timed]
    body = b"".join(raw)
    made = exchange(
        body,
        content_type=content_type.group(1) if content_type else "text/event-stream",
        status=int(told.group(1)) if told else 200,
        sizes=tuple(map(len, raw)),
        times=tuple(round(stamp * 1e9) for stamp, _ in timed),
    )
    path_asked = asked.group(1) if asked else CHAT
    return Capture(name, "/v1/completions" if b'"text_completion"' in body else path_asked, made)


def _stamped(line: str) -> tuple[str, str | None]:
    parts = re.fullmatch(r"(?:([0-9]+\.[0-9]+)\t)?((?:data:|\{\"(?:error|object|detail)).*|)", line)
    return (parts.group(1) or "0", parts.group(2)) if parts else ("0", None)


def _page(path: Path, name: str) -> Capture:
    text = path.read_text()
    head = re.match(
        r"(?P<method>\S+) (?P<path>\S+)[^\n]*\n.*?\n(?P<status>\d{3})(?: in [^\n]+)?\n(?P<headers>[^\n]*)\n\n",
        text,
        re.DOTALL,
    )
    assert head, name
    headers = json.loads(head["headers"])
    body = text[head.end() :].encode()
    made = exchange(body, content_type=headers.get("content-type", ""), status=int(head["status"]), stream=False)
    return Capture(name, head["path"] if head["method"] == "POST" else "GET " + head["path"], made)


def _json_file(path: Path, name: str) -> Capture:
    held = json.loads(path.read_text())
    asked = held.get("request", {"method": "POST", "path": CHAT})
    is_json = "response" in held
    body = json.dumps(held["response"], ensure_ascii=False) if is_json else held["response_text"]
    made = exchange(
        body.encode(),
        content_type="application/json" if is_json else "text/plain",
        status=held["status"],
        stream=False,
    )
    return Capture(name, asked["path"] if asked["method"] == "POST" else "GET " + asked["path"], made)
