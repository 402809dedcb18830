"""From a run to its files: `certificate.json`, its seal, `report.html`, and what lies beside them."""

import gzip
import hashlib
import importlib.metadata
import itertools
import os
import platform
import re
import time
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import IO, TypeVar, cast

import certify
from certify.codec import canonical, digest, from_json, to_json
from certify.evidence import EvidenceView
from certify.judging.summary import Overall, overall
from certify.plan import Absence, Plan
from certify.records import Bound, Figure, Json, Level, Outcome, Verdict
from certify.report import page, slot
from certify.report.junit import junit_xml
from certify.report.seal import Signer
from certify.report.statement import (
    EVIDENCE,
    NAMESPACE,
    PAYLOAD_TYPE,
    REPORT,
    SCHEMA,
    Bar,
    Certificate,
    Chain,
    Challenge,
    Deployment,
    Issuer,
    LockedPlan,
    Method,
    MetricBound,
    Observed,
    Predicate,
    Result,
    Subject,
    ThresholdSet,
    Validity,
    settled,
)
from certify.report.summary import summary_markdown
from certify.report.text import instant
from certify.requirements import REGISTRY_VERSION, REQUIREMENTS, planned
from certify.thresholds import DEFAULT_SET, Thresholds, parse, suite_text
from certify.wire.identity import read_identity

EMBED_CAP = 15_000_000  # base64 characters of evidence in the page: 25 MB is what GitHub takes as an attachment
VALID_DAYS = 30
TITLE = "Deployment certificate"
RULER = "PRE-RULER-01"
_DEPENDENCIES = ("cattrs", "cryptography", "httpx", "jinja2", "jsonschema", "pytest", "pytest-xdist", "rfc8785")
_VOID_IF = (
    "the identity of the deployment changes",
    "its driver, kernel, image, model, template or launch options change",
    "the signing key is revoked",
)
_STATEMENTS = (
    "It relates only to the deployment identified here, as it was launched, at the time of the run.",
    "A signature proves who states this and that nothing was altered since.",
    "A signature does not prove which hardware answered, nor that the client's clock was honest.",
    "The operator could have measured several times and shown the best run: nothing proves that there was no other.",
)
_NO_CHALLENGE = "Without a reader's challenge, nothing proves that the run came after the reader asked for it."
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Derived:
    """What follows from evidence, plan and thresholds alone: `verify` computes it again and compares."""

    observed: Observed
    calibration: tuple[Figure, ...]
    results: tuple[Result, ...]
    summary: Overall
    coverage: tuple[Absence, ...]
    labels: tuple[str, ...]
    assurance_level: str


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


def derive(plan: Plan, verdicts: Iterable[Verdict], view: EvidenceView) -> Derived:
    """Everything in a certificate that follows from its evidence; pure."""
    given = tuple(_settle(verdict) for verdict in verdicts)
    by_id = {verdict.requirement: verdict for verdict in given}
    identity = read_identity(probe for _, probe in view.probes())
    ruler = by_id.get(RULER)
    diagnostic = bool(plan.diagnostic) or any(True for _ in view.events("diagnostic"))
    return Derived(
        observed=_settle(from_json(Observed, settled(to_json(identity)))),
        calibration=ruler.figures if ruler is not None else (),
        results=tuple(_result(by_id.get(gate.requirement), gate.requirement, gate.level) for gate in plan.gates),
        summary=_settle(overall(plan, given, view)),
        coverage=_coverage(plan),
        labels=tuple(
            label for label, holds in (("SIMULATED", identity.simulated), ("DIAGNOSTIC", diagnostic)) if holds
        ),
        assurance_level="challenged" if plan.challenge else "self_attested",
    )


def against_suite(thresholds: Thresholds) -> tuple[Bar, ...]:
    """Where a run's bars differ from the suite's generic set: lowered and removed ones, and those of its own."""
    suite = parse(suite_text(), DEFAULT_SET, "the suite's thresholds.toml").bounds
    pairs = ((key, suite.get(key), thresholds.bounds.get(key)) for key in sorted({*suite, *thresholds.bounds}))
    return tuple(
        Bar(key[0], key[1], theirs, ours, _lowered(theirs, ours))
        for key, theirs, ours in pairs
        if theirs is None or ours is None or _limit(theirs) != _limit(ours)
    )


def deployment_subject(deployment: Deployment) -> Subject:
    """The deployment, bound by the digest of all that is told about it."""
    return Subject("deployment", {"sha256": digest(to_json(deployment))}, {})


def build(run: Run, chains: tuple[Chain, ...]) -> Certificate:
    """The certificate of a run, without the subject `report.html`: that one is the digest of the page made from it."""
    issued_us = run.issued_at_us or time.time_ns() // 1000
    found = derive(run.plan, run.verdicts, run.view)
    plan_bytes = run.plan.to_bytes()
    deployment = Deployment(
        run.plan.base_url,
        run.plan.spec_off_url,
        cast("dict[str, Json]", settled(dict(run.plan.declared))),
        found.observed,
    )
    extra = () if run.plan.challenge else (_NO_CHALLENGE,)
    predicate = Predicate(
        schema=SCHEMA,
        id=f"urn:uuid:{_uuid(run.plan.sha256, *(chain.sha256 for chain in chains), str(issued_us))}",
        title=TITLE,
        issued=instant(issued_us),
        validity=Validity(instant(issued_us), instant(issued_us + VALID_DAYS * 86_400_000_000), _VOID_IF),
        assurance_level=found.assurance_level,
        labels=tuple(dict.fromkeys((*run.labels, *found.labels))),
        issuer=_issuer(run),
        deployment=deployment,
        method=_method(run, plan_bytes),
        calibration=found.calibration,
        challenge=Challenge(run.plan.challenge, seeds_cases=bool(run.plan.challenge)),
        results=found.results,
        summary=found.summary,
        coverage=found.coverage,
        evidence=chains,
        statements=(*_STATEMENTS, *extra),
    )
    subjects = [deployment_subject(deployment)]
    subjects += [Subject(chain.name, {"sha256": chain.sha256}, {"bytes": chain.bytes}) for chain in chains]
    subjects.append(Subject("plan.json", {"sha256": run.plan.sha256}, {}))
    subjects.append(Subject("thresholds.toml", {"sha256": run.thresholds.sha256}, {}))
    if run.run_log is not None and run.run_log.is_file():
        subjects.append(Subject("run-log.html", {"sha256": _file_sha256(run.run_log)}, {}))
    if run.commit:
        subjects.append(Subject("pr", {"gitCommit": run.commit}, {}))
    return Certificate(tuple(subjects), predicate)


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
    draft = build(run, chains)
    embedded = tuple((folder / chain.file).read_bytes() for chain in chains if chain.embedded == "full")
    rendered = page.render(draft, embedded)
    certificate = with_page(draft, rendered)
    payload = certificate.to_bytes()
    seals = () if signer is None else (slot.Seal("sshsig", signer.sign(payload)),)
    files: dict[str, bytes] = {
        "plan.json": plan.to_bytes(),
        "thresholds.toml": thresholds.text.encode(),
        "certificate.json": payload,
        "junit.xml": junit_xml(certificate),
        "summary.md": summary_markdown(certificate, payload).encode(),
    }
    if signer is not None:
        files["certificate.json.sig.txt"] = seals[0].armored.encode()
        if demo:
            files["allowed_signers"] = allowed_signers_line(signer).encode()
    for name, raw in files.items():
        _write(folder / name, raw)
    _write(folder / "SHA256SUMS", _sums(folder, (*files, *(chain.file for chain in chains), "run-log.html")))
    report = folder / REPORT
    _write(report, slot.fill(rendered, slot.Sealed(payload.decode(), PAYLOAD_TYPE, seals)))
    return report


def allowed_signers_line(signer: Signer) -> str:
    """The line that makes a reader trust this signer for certificates, and for nothing else."""
    return f'{signer.identity} namespaces="{NAMESPACE}" {signer.public_line}\n'


def _result(verdict: Verdict | None, requirement: str, level: Level) -> Result:
    known = REQUIREMENTS.get(requirement)
    title, family = (known.title, known.family) if known is not None else (requirement, "unknown")
    missing = Verdict(requirement, Outcome.NOT_RUN, "no verdict was given")
    return Result(title, family, level, verdict if verdict is not None else missing)


def _coverage(plan: Plan) -> tuple[Absence, ...]:
    """What this run does not cover: what its plan says, what its plan leaves out, and what its profile never asks."""
    told = {absence.requirement for absence in plan.absent}
    gates = {gate.requirement for gate in plan.gates}
    try:
        asked = {requirement.id for requirement in planned(plan.profile)}
    except KeyError:
        asked = set()
    built = [requirement.id for requirement in REQUIREMENTS.values() if requirement.built]
    forgotten = [one for one in built if one in asked - gates - told]
    beyond = [one for one in built if one not in asked | gates | told]
    return (
        *plan.absent,
        *(Absence(one, "left out of the plan") for one in forgotten),
        *(Absence(one, f"not part of profile {plan.profile}") for one in beyond),
    )


def _issuer(run: Run) -> Issuer:
    if run.signer is None:
        return Issuer(run.issuer, "operator", "none", "")
    return Issuer(run.issuer or run.signer.identity, "operator", "sshsig", run.signer.fingerprint)


def _method(run: Run, plan_bytes: bytes) -> Method:
    bounds = sorted(run.thresholds.bounds.items())
    return Method(
        suite="certify",
        version=run.plan.suite_version,
        judge_version=run.plan.judge_version,
        registry_version=run.plan.registry_version or REGISTRY_VERSION,
        profile=run.plan.profile,
        python=platform.python_version(),
        packages=_packages(),
        client=cast("dict[str, Json]", settled(dict(run.view.header.client))),
        thresholds=ThresholdSet(
            run.thresholds.name,
            run.thresholds.sha256,
            run.thresholds.text,
            tuple(MetricBound(key[0], bound) for key, bound in bounds),
            against_suite(run.thresholds),
        ),
        plan=LockedPlan(run.plan.sha256, instant(run.plan.locked_at_us), "signed", plan_bytes.decode()),
    )


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
    named: Mapping[str, EvidenceView] = {"": view, **dict(sorted(view.attached.items()))}
    for index, (name, chain) in enumerate(named.items()):
        stem = EVIDENCE if not name else f"evidence-{_plain(name) or index}.jsonl"
        target = folder / f"{stem}.gz"
        with _replacing(target) as handle:
            sha256, size = _compress(chain, handle)
        encoded = -(-target.stat().st_size // 3) * 4
        embedded = encoded <= room
        room -= encoded if embedded else 0
        chains.append(
            Chain(
                stem, target.name, sha256, size, _file_sha256(target), len(chain), chain.head_sha256,
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


def _settle(record: T) -> T:
    return from_json(type(record), settled(to_json(record)))


def _uuid(*parts: str) -> uuid.UUID:
    return uuid.UUID(bytes=hashlib.sha256(canonical(list(parts))).digest()[:16], version=8)


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9-]+", "-", name.lower()).strip("-")[:40]


def _limit(bound: Bound) -> tuple[str, Fraction]:
    return bound.kind, Fraction(bound.scaled, 10**bound.decimals)


def _lowered(suite: Bound | None, run: Bound | None) -> bool:
    if suite is None:
        return False
    if run is None or run.kind != suite.kind:
        return True
    (kind, theirs), (_, ours) = _limit(suite), _limit(run)
    return ours < theirs if kind == "floor" else ours > theirs
