"""From a run to its files: `certificate.json`, its seal, `report.html`, and what lies beside them."""

import gzip
import hashlib
import importlib.metadata
import itertools
import os
import platform
import re
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import certify
from certify.evidence import EvidenceView
from certify.plan import Plan
from certify.records import Verdict
from certify.report import page, slot
from certify.report.claims import Stated, claim, subjects
from certify.report.junit import junit_xml
from certify.report.seal import Signer, allowed_signers_line
from certify.report.shown import instant
from certify.report.statement import (
    EVIDENCE,
    PAYLOAD_TYPE,
    REPORT,
    RUN_LOG,
    Certificate,
    Chain,
    Issuer,
    Subject,
    from_bytes,
)
from certify.report.summary import summary_markdown
from certify.thresholds import Thresholds

EMBED_CAP = 15_000_000  # base64 characters of evidence in the page: 25 MB is what GitHub takes as an attachment
VALID_DAYS = 30
_DEPENDENCIES = ("cattrs", "cryptography", "httpx", "jinja2", "jsonschema", "pytest", "pytest-xdist", "rfc8785")


@dataclass(frozen=True, slots=True)
class Run:
    """A run that came to its end (or to its stop), with everything that its certificate needs.

    `issuer` is a name to show, "" for the signer's own identity. `labels` may hold DEMO and SIMULATED; what the
    evidence shows is added. `commit` is the head of the PR that this is for, "" for none.
    """

    plan: Plan
    view: EvidenceView
    thresholds: Thresholds
    verdicts: tuple[Verdict, ...]
    signer: Signer | None = None
    issuer: str = ""
    labels: tuple[str, ...] = ()
    run_log: Path | None = None
    commit: str = ""
    issued_at_us: int = 0


def build(run: Run, chains: tuple[Chain, ...]) -> Certificate:
    """The certificate of a run, without the subject `report.html`: that one is the digest of the page made from it."""
    issued_us = run.issued_at_us or time.time_ns() // 1000
    stated = Stated(
        instant(issued_us),
        instant(issued_us + VALID_DAYS * 86_400_000_000),
        run.labels,
        _issuer(run),
        platform.python_version(),
        _packages(),
    )
    predicate = claim(stated, run.plan, run.thresholds, run.verdicts, run.view, chains=chains)
    log = _file_sha256(run.run_log) if run.run_log is not None and run.run_log.is_file() else ""
    return Certificate(subjects(predicate, run.plan, run.thresholds, run_log_sha256=log, commit=run.commit), predicate)


def with_page(certificate: Certificate, rendered: bytes) -> Certificate:
    """The certificate with the page's digest among its subjects."""
    subject = Subject(REPORT, {"sha256": slot.page_sha256(rendered)}, {"hash": slot.HASH_RULE})
    return Certificate((*certificate.subjects, subject), certificate.predicate)


def write_run(
    folder: Path,
    plan: Plan,
    view: EvidenceView,
    thresholds: Thresholds,
    verdicts: Iterable[Verdict],
    *,
    signer: Signer | None = None,
    issuer: str = "",
    run_log: Path | None = None,
    demo: bool = False,
    simulated: bool = False,
    commit: str = "",
    issued_at_us: int = 0,
) -> Path:
    """Writes the files of one run into `folder` and returns the path of its `report.html`.

    Each file appears whole or not at all. The run log, if any, must be complete: its digest is bound here.

    Raises:
        OSError: the folder cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    labels = tuple(label for label, holds in (("DEMO", demo), ("SIMULATED", simulated)) if holds)
    run = Run(plan, view, thresholds, tuple(verdicts), signer, issuer, labels, run_log, commit, issued_at_us)
    chains = _write_chains(folder, view)
    draft = from_bytes(build(run, chains).to_bytes())  # objects in the order in which a reader will find them
    embedded = tuple((folder / chain.file).read_bytes() for chain in chains if chain.embedded == "full")
    rendered = page.render(draft, embedded)
    certificate = with_page(draft, rendered)
    payload = certificate.to_bytes()
    armoured = "" if signer is None else signer.sign(payload)
    seals = (slot.Seal("sshsig", armoured),) if armoured else ()
    files: dict[str, bytes] = {
        "plan.json": plan.to_bytes(),
        "thresholds.toml": thresholds.text.encode(),
        "certificate.json": payload,
        "junit.xml": junit_xml(certificate),
        "summary.md": summary_markdown(certificate, payload).encode(),
    }
    if signer is not None:
        files["certificate.json.sig.txt"] = armoured.encode()
        if demo:
            files["allowed_signers"] = allowed_signers_line(signer).encode()
    for name, raw in files.items():
        _write(folder / name, raw)
    _write(folder / "SHA256SUMS", _sums(folder, (*files, *(chain.file for chain in chains), RUN_LOG)))
    report = folder / REPORT
    _write(report, slot.fill(rendered, slot.Sealed(payload.decode(), PAYLOAD_TYPE, seals)))
    return report


def _issuer(run: Run) -> Issuer:
    if run.signer is None:
        return Issuer(run.issuer, "operator", "none", "")
    return Issuer(run.issuer or run.signer.identity, "operator", "sshsig", run.signer.fingerprint)


def _packages() -> dict[str, str]:
    installed = {"certify": certify.__version__}
    for name in _DEPENDENCIES:
        try:
            installed[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            installed[name] = "not installed"
    return installed


def _write_chains(folder: Path, view: EvidenceView) -> tuple[Chain, ...]:
    """Compresses every chain into the folder; the first ones that fit into the page together are embedded."""
    chains, room = [], EMBED_CAP
    for index, (name, chain) in enumerate((("", view), *sorted(view.attached.items()))):
        stem = EVIDENCE if not name else f"evidence-{_plain(name) or index}.jsonl"
        target = folder / f"{stem}.gz"
        with _replacing(target) as handle:
            sha256, size = _compress(chain, handle)
        encoded = -(-target.stat().st_size // 3) * 4
        embedded = encoded <= room
        room -= encoded if embedded else 0
        chains.append(
            Chain(
                stem, name, target.name, sha256, size, _file_sha256(target), len(chain), chain.head_sha256,
                chain.complete, "full" if embedded else "none",
            )
        )  # fmt: skip
    return tuple(chains)


def _compress(chain: EvidenceView, target: IO[bytes]) -> tuple[str, int]:
    """The whole records of a chain, gzipped (no name, no time in it); returns (SHA-256, size) of what went in."""
    checksum, size = hashlib.sha256(), 0
    with (
        chain.path.open("rb") as source,
        gzip.GzipFile(filename="", mode="wb", fileobj=target, compresslevel=6, mtime=0) as packed,
    ):
        for line in itertools.islice(source, len(chain)):
            checksum.update(line)
            size += len(line)
            packed.write(line)
    return checksum.hexdigest(), size


class _replacing:  # noqa: N801 - used as a verb
    """A binary file beside `path` that takes its name when the block ends well, and vanishes when it does not."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._draft = path.with_name(f".{path.name}.{os.getpid()}.part")

    def __enter__(self) -> IO[bytes]:
        self._handle = self._draft.open("wb")
        return self._handle

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if kind is None:
            self._handle.flush()
            os.fsync(self._handle.fileno())
        self._handle.close()
        if kind is None:
            self._draft.replace(self._path)
        else:
            self._draft.unlink(missing_ok=True)


def _write(path: Path, raw: bytes) -> None:
    with _replacing(path) as handle:
        handle.write(raw)


def _sums(folder: Path, names: Iterable[str]) -> bytes:
    """`sha256sum -c` lines; the report is left out, because a countersignature changes its bytes."""
    present = sorted({name for name in names if (folder / name).is_file()})
    return "".join(f"{_file_sha256(folder / name)}  {name}\n" for name in present).encode()


def _file_sha256(path: Path) -> str:
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9-]+", "-", name.lower()).strip("-")[:40]
