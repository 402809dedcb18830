"""The evidence: one append-only file of canonical JSON lines, chained by digest, flushed per record.

    {"at_us":…,"data":{…},"kind":"exchange","prev":"<SHA-256 of the line before>","seq":17}

Kinds: header, probe, exchange, sample, event, segment, footer. A torn last line (the machine died in mid-write) is cut
off and told as an event when the file is opened again; any other irregularity is an `EvidenceError`.
"""

import hashlib
import os
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import IO, Self, TypeVar

from certify.codec import CodecError, canonical, from_json, parse_json, to_json
from certify.records import Event, Json, Probe, Sample, Trial

SCHEMA = 1
LINE_CAP = 64 << 20  # one record: a capped answer and its stamps stay far below
T = TypeVar("T")

KINDS = ("header", "probe", "exchange", "sample", "event", "segment", "footer")


class EvidenceError(ValueError):
    """An evidence file that cannot be trusted: which file, which line, what is wrong."""


@dataclass(frozen=True, slots=True)
class Header:
    """Who measures what: the first record of a chain."""

    schema: int
    run_id: str
    suite_version: str
    base_url: str
    client: dict[str, Json]


class EvidenceWriter:
    """Appends records to one chain; safe to share between threads. Every record is on disk when the call returns."""

    def __init__(self, handle: IO[bytes], *, next_seq: int, last_sha256: str) -> None:
        self._handle = handle
        self._lock = threading.Lock()
        self._seq = next_seq
        self._prev = last_sha256

    @classmethod
    def create(cls, path: Path, header: Header) -> Self:
        """A new chain that begins with `header`.

        Raises:
            FileExistsError: evidence is never overwritten.
        """
        writer = cls(path.open("xb"), next_seq=0, last_sha256="")
        writer._append("header", to_json(header))
        return writer

    @classmethod
    def reopen(cls, path: Path, *, reason: str) -> Self:
        """The chain of `path`, verified, to go on with; the first new record is a `segment` that says why.

        Raises:
            EvidenceError: the chain is broken elsewhere than in its last line.
        """
        torn = _cut_torn_line(path)
        view = EvidenceView(path)
        writer = cls(path.open("ab"), next_seq=len(view), last_sha256=view.head_sha256)
        writer._append("segment", {"reason": reason, "after": view.head_sha256})
        if torn:
            writer.event(Event("torn-line", detail={"bytes": len(torn), "sha256": hashlib.sha256(torn).hexdigest()}))
        return writer

    def trial(self, trial: Trial) -> int:
        """Append an exchange in its place; returns its sequence number."""
        return self._append("exchange", to_json(trial))

    def probe(self, probe: Probe) -> int:
        """Append a probe; returns its sequence number."""
        return self._append("probe", to_json(probe))

    def sample(self, sample: Sample) -> int:
        """Append raw counters; returns their sequence number."""
        return self._append("sample", to_json(sample))

    def event(self, event: Event) -> int:
        """Append an event of the run itself; returns its sequence number."""
        return self._append("event", to_json(event))

    def footer(self, status: str) -> int:
        """Append the footer: `complete` or `interrupted`; returns its sequence number, which is the record count."""
        return self._append("footer", {"status": status, "records": self._seq})

    def close(self) -> None:
        """Close the file; the chain can be reopened."""
        self._handle.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _append(self, kind: str, data: Json) -> int:
        with self._lock:
            seq = self._seq
            line = canonical(
                {"at_us": time.time_ns() // 1000, "data": data, "kind": kind, "prev": self._prev, "seq": seq}
            )
            self._handle.write(line + b"\n")
            self._handle.flush()
            os.fsync(self._handle.fileno())
            self._prev = hashlib.sha256(line).hexdigest()
            self._seq += 1
            return seq


def _cut_torn_line(path: Path) -> bytes:
    with path.open("r+b") as handle:
        handle.seek(0, os.SEEK_END)
        size = handle.tell()
        start = max(0, size - LINE_CAP)
        handle.seek(start)
        tail = handle.read()
        torn = tail[tail.rfind(b"\n") + 1 :]
        if torn:
            handle.truncate(size - len(torn))
        return torn


@dataclass(frozen=True, slots=True)
class _Entry:
    seq: int
    kind: str
    offset: int
    length: int
    requirements: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Record:
    """A record as read: its place in the chain, when it was written (microseconds since the epoch), and its data."""

    seq: int
    kind: str
    at_us: int
    data: Json


class EvidenceView:
    """A verified chain, read lazily: the index is held, records are read when asked for.

    `attached` holds other chains that the certificate binds (the other speculation arm), by name.
    """

    def __init__(self, path: Path, attached: "Mapping[str, EvidenceView] | None" = None) -> None:
        """Reads and verifies the whole chain once.

        Raises:
            EvidenceError: the file is missing, empty, not canonical, out of order, or its chain is broken.
        """
        self.path = path
        self.attached: Mapping[str, EvidenceView] = MappingProxyType(dict(attached or {}))
        self._entries: list[_Entry] = []
        self.head_sha256 = ""
        self.torn = False
        self._scanned = 0
        self.refresh()
        if not self._entries or self._entries[0].kind != "header":
            raise EvidenceError(f"{path}: no header in the first line: not an evidence file")

    def refresh(self) -> None:
        """Read and verify what was appended since; what was read before is not read again.

        Raises:
            EvidenceError: what was appended is not canonical, out of order, or breaks the chain.
        """
        try:
            with self.path.open("rb") as handle:
                handle.seek(self._scanned)
                self._scan(handle)
        except OSError as error:
            raise EvidenceError(f"cannot read evidence {self.path}: {error}") from error

    def _scan(self, handle: IO[bytes]) -> None:
        self.torn = False
        while line := handle.readline(LINE_CAP):
            number = len(self._entries) + 1
            if not line.endswith(b"\n"):
                self.torn = True  # the writer died in mid-line: what came before stands
                break
            raw = line[:-1]
            record = self._parse(raw, number)
            if record["seq"] != number - 1:
                raise EvidenceError(
                    f"{self.path} line {number}: sequence number {record['seq']!r}, expected {number - 1}"
                )
            if record["prev"] != self.head_sha256:
                raise EvidenceError(f"{self.path} line {number}: the chain is broken (`prev` is not the line before)")
            self._entries.append(_Entry(number - 1, str(record["kind"]), self._scanned, len(raw), _serves(record)))
            self.head_sha256 = hashlib.sha256(raw).hexdigest()
            self._scanned += len(line)

    def _parse(self, raw: bytes, number: int) -> dict[str, Json]:
        try:
            record = parse_json(raw)
            if canonical(record) != raw:
                raise CodecError("not canonical")
        except CodecError as error:
            raise EvidenceError(f"{self.path} line {number}: {error}") from error
        if (
            not isinstance(record, dict)
            or set(record) != {"at_us", "data", "kind", "prev", "seq"}
            or record["kind"] not in KINDS
        ):
            raise EvidenceError(f"{self.path} line {number}: not a record of evidence v{SCHEMA}")
        return record

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def header(self) -> Header:
        """The first record."""
        return self._typed(self._entries[0], Header)

    @property
    def complete(self) -> bool:
        """Whether the last record is a footer that says `complete`."""
        last = self.record(len(self) - 1)
        return last.kind == "footer" and isinstance(last.data, dict) and last.data.get("status") == "complete"

    def record(self, seq: int) -> Record:
        """One record by its sequence number."""
        entry = self._entries[seq]
        with self.path.open("rb") as handle:
            handle.seek(entry.offset)
            raw = self._parse(handle.read(entry.length), seq + 1)
        return Record(seq, entry.kind, _integer(raw["at_us"]), raw["data"])

    def records(self, *kinds: str) -> Iterator[Record]:
        """All records of these kinds, in order."""
        return (self.record(entry.seq) for entry in self._entries if entry.kind in kinds)

    def trials(self, requirement: str = "") -> Iterator[tuple[int, Trial]]:
        """(sequence number, trial) of every exchange that serves a requirement, or of all; warm-up trials included."""
        for entry in self._entries:
            if entry.kind == "exchange" and (not requirement or requirement in entry.requirements):
                yield entry.seq, self._typed(entry, Trial)

    def probes(self) -> Iterator[tuple[int, Probe]]:
        """(sequence number, probe) of every probe."""
        return ((entry.seq, self._typed(entry, Probe)) for entry in self._entries if entry.kind == "probe")

    def samples(self, name: str = "") -> Iterator[tuple[int, Sample]]:
        """(sequence number, sample) of the counters with this name, or of all."""
        for entry in self._entries:
            if entry.kind == "sample":
                sample = self._typed(entry, Sample)
                if not name or sample.name == name:
                    yield entry.seq, sample

    def events(self, name: str = "") -> Iterator[tuple[int, Event]]:
        """(sequence number, event) of the events with this name, or of all."""
        for entry in self._entries:
            if entry.kind == "event":
                event = self._typed(entry, Event)
                if not name or event.name == name:
                    yield entry.seq, event

    def finished_gates(self) -> frozenset[str]:
        """The requirements whose gate ran to its end (event `gate-finished`)."""
        return frozenset(event.requirement for _, event in self.events("gate-finished"))

    def _typed(self, entry: _Entry, kind: type[T]) -> T:
        try:
            return from_json(kind, self.record(entry.seq).data)
        except CodecError as error:
            raise EvidenceError(f"{self.path} line {entry.seq + 1}: {error}") from error


def _serves(record: Mapping[str, Json]) -> tuple[str, ...]:
    data = record["data"]
    if record["kind"] != "exchange" or not isinstance(data, dict):
        return ()
    serves = data.get("serves")
    return tuple(str(one) for one in serves) if isinstance(serves, list) else ()


def _integer(value: Json) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise EvidenceError("at_us is no integer")
    return value
