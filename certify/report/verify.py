"""`certify verify`: whether a report is what its signer sealed, and whether its verdicts follow from its evidence.

Nothing in a report is executed or fetched, everything is capped. Steps are reported one by one; the exit code is the
gravest that any of them calls for (docs/CERTIFICATE.md lists them).
"""

import hashlib
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime, timedelta
from enum import IntEnum
from pathlib import Path

import certify
from certify import judging
from certify.codec import CodecError, digest
from certify.evidence import EvidenceError, EvidenceView
from certify.judging.summary import Word, lock_fault
from certify.plan import Plan
from certify.plan import from_bytes as plan_from_bytes
from certify.report import claims, slot
from certify.report.seal import SealError, check, read_signature
from certify.report.statement import (
    EVIDENCE,
    REPORT,
    RUN_LOG,
    Certificate,
    CertificateError,
    Chain,
    UnknownPredicateError,
    from_bytes,
)
from certify.report.trust import Trust, TrustError, load_trust
from certify.report.unpack import PackError, unpack
from certify.thresholds import ThresholdError, Thresholds, parse
from certify.visible import visible

PAGE_CAP = 64 << 20  # bytes of a report; GitHub takes 25 MB
SLOT_CAP = 16 << 20
SEALS_CAP = 16


class Code(IntEnum):
    """What `certify verify` exits with."""

    CERTIFIED = 0
    NOT_CERTIFIED = 1  # intact and trusted, and it does not certify
    TAMPERED = 2
    UNSIGNED = 3
    PAGE_NOT_COVERED = 4
    UNTRUSTED = 5
    CANNOT_RECOMPUTE = 6
    POLICY = 7


_GRAVEST_FIRST = (
    Code.TAMPERED,
    Code.CANNOT_RECOMPUTE,
    Code.UNSIGNED,
    Code.UNTRUSTED,
    Code.POLICY,
    Code.PAGE_NOT_COVERED,
    Code.NOT_CERTIFIED,
)


@dataclass(frozen=True, slots=True)
class Step:
    """One check: its name, whether it held, and what was found, in one line."""

    name: str
    ok: bool
    detail: str


@dataclass(frozen=True, slots=True)
class VerifyResult:
    """The exit code, and every step that was taken."""

    exit_code: int
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class _Policy:
    """What this reader asks beyond intactness."""

    identity: str
    expect_commit: str
    expect_model: str
    max_age_days: int | None
    challenge: str
    now: datetime


@dataclass(slots=True)
class _Protocol:
    """The steps as they are taken, and the codes that they call for."""

    steps: list[Step] = field(default_factory=list)
    codes: set[Code] = field(default_factory=set)

    def passed(self, name: str, detail: str) -> None:
        self.steps.append(Step(name, ok=True, detail=visible(detail, 1_000)))

    def failed(self, name: str, code: Code, detail: str) -> None:
        self.steps.append(Step(name, ok=False, detail=visible(detail, 1_000)))
        self.codes.add(code)

    def result(self) -> VerifyResult:
        code = next((code for code in _GRAVEST_FIRST if code in self.codes), Code.CERTIFIED)
        return VerifyResult(int(code), tuple(self.steps))


class _Stop(Exception):  # noqa: N818 - it ends the checks, it is no error
    """What has been found leaves nothing further to check."""


def verify(
    path: Path,
    *,
    trust: Path | None,
    revoked: Path | None = None,
    identity: str = "",
    expect_commit: str = "",
    expect_model: str = "",
    max_age_days: int | None = None,
    challenge: str = "",
    payload_only: bool = False,
    now: datetime | None = None,
) -> VerifyResult:
    """Checks a report (`report.html`, or the folder of a run); nothing is raised for what a report may hold.

    With `payload_only` the page's own bytes are not checked, as for a page that a browser saved anew: at best 4.
    """
    protocol = _Protocol()
    policy = _Policy(identity, expect_commit, expect_model, max_age_days, challenge, now or datetime.now(UTC))
    try:
        _verify(path, protocol, policy, trust=trust, revoked=revoked, payload_only=payload_only)
    except _Stop:
        pass
    except RecursionError:
        protocol.failed("structure", Code.TAMPERED, "nested too deeply")
    return protocol.result()


def _verify(
    path: Path, protocol: _Protocol, policy: _Policy, *, trust: Path | None, revoked: Path | None, payload_only: bool
) -> None:
    folder = path if path.is_dir() else None
    page, sealed = _extract(path / REPORT if folder else path, protocol)
    payload = sealed.payload.encode("utf-8", "surrogatepass")
    certificate = _statement(payload, protocol)
    _seals(sealed, payload, certificate, protocol, policy=policy, trust=_trust(trust, revoked, protocol))
    _digests(page, certificate, protocol, payload_only=payload_only)
    _run_log(certificate, folder, protocol)
    with _evidence(page, certificate, path.parent if folder is None else folder, protocol) as view:
        _recompute(certificate, view, protocol)
    _policy(certificate, protocol, policy)
    _verdict(certificate, protocol)


def _extract(path: Path, protocol: _Protocol) -> tuple[bytes, slot.Sealed]:
    try:
        with path.open("rb") as handle:
            page = handle.read(PAGE_CAP + 1)
    except OSError as error:
        protocol.failed("extract", Code.TAMPERED, f"cannot read {path}: {error.strerror or error}")
        raise _Stop from error
    try:
        if len(page) > PAGE_CAP:
            raise slot.SlotError(f"{path} is longer than {PAGE_CAP} bytes")
        sealed = slot.read(page, cap=SLOT_CAP)
        if len(sealed.seals) > SEALS_CAP:
            raise slot.SlotError(f"more than {SEALS_CAP} seals")
    except slot.SlotError as error:
        protocol.failed("extract", Code.TAMPERED, str(error))
        raise _Stop from error
    protocol.passed("extract", f"{len(page)} bytes, certificate and {len(sealed.seals)} seal(s) in their slot")
    return page, sealed


def _statement(payload: bytes, protocol: _Protocol) -> Certificate:
    try:
        certificate = from_bytes(payload)
    except UnknownPredicateError as error:
        protocol.failed("statement", Code.CANNOT_RECOMPUTE, f"{error}; a newer certify may read it")
        raise _Stop from error
    except CertificateError as error:
        protocol.failed("statement", Code.TAMPERED, str(error))
        raise _Stop from error
    protocol.passed("statement", f"{certificate.predicate.id}, canonical, sha256:{digest(payload)}")
    return certificate


def _trust(trust: Path | None, revoked: Path | None, protocol: _Protocol) -> Trust:
    try:
        return load_trust(trust, revoked)
    except TrustError as error:
        protocol.failed("trust", Code.UNTRUSTED, str(error))
        return Trust((), frozenset())


def _seals(
    sealed: slot.Sealed,
    payload: bytes,
    certificate: Certificate,
    protocol: _Protocol,
    *,
    policy: _Policy,
    trust: Trust,
) -> None:
    """Every seal must fit; the issuer's own key must be among them; one of them must be trusted."""
    issuer = certificate.predicate.issuer
    if not sealed.seals and issuer.seal == "none":
        protocol.failed("seal", Code.UNSIGNED, "UNSIGNED: nobody vouches for this report")
        return
    if not sealed.seals:
        protocol.failed("seal", Code.TAMPERED, f"the page names {issuer.key} as its signer, but the seal was taken off")
        return
    keys: set[str] = set()
    vouched: list[str] = []
    refused: list[str] = []
    for seal in sealed.seals:
        try:
            if seal.type != "sshsig":
                raise SealError(f"a seal of type {seal.type[:40]!r}, which this version does not check")
            signature = read_signature(seal.armored)
            check(signature, payload)
        except SealError as error:
            protocol.failed("seal", Code.TAMPERED, str(error))
            return
        keys.add(signature.fingerprint)
        trusted, word = trust.judge(signature.blob, identity=policy.identity, now=policy.now)
        (vouched if trusted else refused).append(f"{word} ({signature.fingerprint})" if trusted else word)
    if issuer.seal != "sshsig" or issuer.key not in keys:
        protocol.failed(
            "seal", Code.TAMPERED, f"no seal by the key that the certificate names ({issuer.key or 'none'})"
        )
        return
    protocol.passed("seal", f"{len(keys)} valid, by {', '.join(sorted(keys))}")
    if vouched:
        protocol.passed("trust", f"signed by {'; '.join(vouched)}")
    elif not trust.signers:
        protocol.failed("trust", Code.UNTRUSTED, f"no trusted keys given (--trust FILE); it says: {issuer.name}")
    else:
        protocol.failed("trust", Code.UNTRUSTED, "; ".join(refused))


def _digests(page: bytes, certificate: Certificate, protocol: _Protocol, *, payload_only: bool) -> None:
    subject = certificate.subject(REPORT)
    if payload_only:
        protocol.failed("page", Code.PAGE_NOT_COVERED, "statement only: THE TEXT OF THE PAGE WAS NOT COVERED")
    elif subject is None or subject.annotations != {"hash": slot.HASH_RULE}:
        protocol.failed("page", Code.TAMPERED, f"the certificate does not bind its page by {slot.HASH_RULE}")
    elif subject.digest != {"sha256": slot.page_sha256(page)}:
        protocol.failed("page", Code.TAMPERED, "the bytes of the page are not those that were sealed")
    else:
        protocol.passed("page", f"every byte as sealed, sha256:{subject.digest['sha256']}")


def _run_log(certificate: Certificate, folder: Path | None, protocol: _Protocol) -> None:
    subject = certificate.subject(RUN_LOG)
    if subject is None or folder is None or not (folder / RUN_LOG).is_file():
        return
    with (folder / RUN_LOG).open("rb") as handle:
        found = hashlib.file_digest(handle, "sha256").hexdigest()
    if subject.digest == {"sha256": found}:
        protocol.passed("run log", f"{RUN_LOG} as sealed")
    else:
        protocol.failed("run log", Code.TAMPERED, f"{RUN_LOG} is not the one that was sealed")


@contextmanager
def _evidence(page: bytes, certificate: Certificate, folder: Path, protocol: _Protocol) -> Iterator[EvidenceView]:
    """The chains of the certificate, unpacked and verified; digests, lengths, counts and heads compared."""
    listed = certificate.predicate.evidence
    embedded = [chain for chain in listed if chain.embedded == "full"]
    if not listed or listed[0].name != EVIDENCE or listed[0].attached_as:
        protocol.failed("evidence", Code.TAMPERED, "the certificate names no chain of its own run")
        raise _Stop
    with tempfile.TemporaryDirectory(prefix="certify-verify-") as scratch:
        places = {chain.name: Path(scratch) / f"{index}.jsonl" for index, chain in enumerate(listed)}
        try:
            packed = dict(zip((chain.name for chain in embedded), slot.chains(page, len(embedded)), strict=True))
            for chain in listed:
                unpack(chain, packed.get(chain.name), folder, places[chain.name])
            attached = {chain.attached_as: EvidenceView(places[chain.name]) for chain in listed[1:]}
            view = EvidenceView(places[EVIDENCE], attached)
            for chain in listed:
                _compare_chain(chain, attached.get(chain.attached_as, view))
        except PackError as error:
            protocol.failed("evidence", Code.CANNOT_RECOMPUTE if error.missing else Code.TAMPERED, str(error))
            raise _Stop from error
        except (slot.SlotError, EvidenceError) as error:
            protocol.failed("evidence", Code.TAMPERED, str(error).replace(scratch, ""))
            raise _Stop from error
        protocol.passed("evidence", f"{sum(chain.records for chain in listed)} records, chain unbroken, as sealed")
        yield view


def _compare_chain(chain: Chain, view: EvidenceView) -> None:
    found = (len(view), view.head_sha256, view.complete, view.torn)
    if found != (chain.records, chain.head_sha256, chain.complete, False):
        raise EvidenceError(f"{chain.name}: its length, end or completeness is not what the certificate says")


def _recompute(certificate: Certificate, view: EvidenceView, protocol: _Protocol) -> None:
    """Every verdict, the summary and all that follows, computed again and compared field by field."""
    predicate = certificate.predicate
    plan, thresholds = _books(certificate, protocol)
    if fault := lock_fault(plan, view):
        protocol.failed("plan", Code.TAMPERED, fault)
        raise _Stop
    protocol.passed("plan", f"locked {predicate.method.plan.locked_at}, sha256:{plan.sha256}")
    if plan.judge_version != judging.JUDGE_VERSION:
        protocol.failed(
            "recompute",
            Code.CANNOT_RECOMPUTE,
            f"judge {plan.judge_version} decided, this is judge {judging.JUDGE_VERSION}: "
            f"uvx certify=={plan.suite_version} verify {REPORT} --trust FILE",
        )
        return
    try:
        verdicts = [judging.judge(gate.requirement, view, plan, thresholds) for gate in plan.gates]
        expected = claims.claim(
            claims.stated_in(predicate), plan, thresholds, verdicts, view, chains=predicate.evidence
        )
    except Exception as error:
        code = _same_suite(plan, Code.TAMPERED)
        protocol.failed("recompute", code, f"the evidence cannot be judged: {type(error).__name__}: {error}")
        raise _Stop from error
    wrong = [one.name for one in fields(expected) if getattr(expected, one.name) != getattr(predicate, one.name)]
    if "results" in wrong:
        theirs = {result.verdict.requirement: result for result in predicate.results}
        wrong += [one.verdict.requirement for one in expected.results if theirs.get(one.verdict.requirement) != one]
    subjects = {one.name: one for one in claims.subjects(expected, plan, thresholds)}
    wrong += [f"subject {name}" for name, one in subjects.items() if certificate.subject(name) != one]
    if wrong:
        protocol.failed(
            "recompute",
            _same_suite(plan, Code.TAMPERED),
            f"by certify {certify.__version__} these do not follow from the evidence: {', '.join(wrong)}",
        )
    else:
        protocol.passed("recompute", f"{len(verdicts)} verdicts and the summary follow from the evidence")


def _books(certificate: Certificate, protocol: _Protocol) -> tuple[Plan, Thresholds]:
    """The plan and the thresholds of the certificate, with their digests checked.

    The bounds are those that the certificate states; that they follow from the text is checked where this suite's own
    sets, which the text may extend, are those of the run.
    """
    method = certificate.predicate.method
    try:
        plan = plan_from_bytes(method.plan.text.encode())
        text = method.thresholds.text
        parsed = parse(text, method.thresholds.name, "the thresholds of the certificate")
    except (CodecError, ThresholdError, ValueError) as error:
        protocol.failed("plan", Code.TAMPERED, f"plan or thresholds are not readable: {error}")
        raise _Stop from error
    if (plan.to_bytes().decode(), plan.sha256) != (method.plan.text, method.plan.sha256):
        protocol.failed("plan", Code.TAMPERED, "the plan is not the one whose digest was locked")
        raise _Stop
    if (parsed.sha256, parsed.name) != (plan.thresholds_sha256, plan.thresholds_set):
        protocol.failed("plan", Code.TAMPERED, "the thresholds are not those that the plan was locked with")
        raise _Stop
    stated = {(one.requirement, one.bound.metric): one.bound for one in method.thresholds.bounds}
    if stated != dict(parsed.bounds):
        code = _same_suite(plan, Code.TAMPERED)
        protocol.failed("plan", code, "the bars applied are not those that the thresholds text spells")
        raise _Stop
    return plan, parsed


def _same_suite(plan: Plan, code: Code) -> Code:
    """`code` where this very version made the certificate; another version may word or resolve otherwise."""
    return code if plan.suite_version == certify.__version__ else Code.CANNOT_RECOMPUTE


def _policy(certificate: Certificate, protocol: _Protocol, policy: _Policy) -> None:
    predicate = certificate.predicate
    commit = certificate.subject("pr")
    model = predicate.deployment.observed.model
    refusals = [*_time_refusals(certificate, policy)]
    if policy.expect_commit and (commit is None or commit.digest != {"gitCommit": policy.expect_commit}):
        found = "none" if commit is None else commit.digest.get("gitCommit", "none")
        refusals.append(f"it speaks of commit {found}, not of {policy.expect_commit}")
    if policy.expect_model and model != policy.expect_model:
        refusals.append(f"it speaks of model {model}, not of {policy.expect_model}")
    if policy.challenge and predicate.challenge.nonce != policy.challenge:
        refusals.append(f"its challenge is {predicate.challenge.nonce or 'none'}, not {policy.challenge}")
    for refusal in refusals:
        protocol.failed("policy", Code.POLICY, refusal)
    if not refusals:
        protocol.passed("policy", f"stands until {predicate.validity.not_after}, {predicate.assurance_level}")


def _time_refusals(certificate: Certificate, policy: _Policy) -> Iterator[str]:
    validity = certificate.predicate.validity
    try:
        issued, until = (
            datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
            for text in (certificate.predicate.issued, validity.not_after)
        )
    except ValueError:
        yield "its times are not readable"
        return
    if policy.now > until:
        yield f"it stood until {validity.not_after}"
    if issued > policy.now + timedelta(minutes=5):
        yield f"it was issued in the future ({certificate.predicate.issued}): one of the two clocks is wrong"
    if policy.max_age_days is not None and policy.now - issued > timedelta(days=policy.max_age_days):
        yield f"it was issued {certificate.predicate.issued}, more than {policy.max_age_days} days ago"


def _verdict(certificate: Certificate, protocol: _Protocol) -> None:
    predicate = certificate.predicate
    lowered = sum(bar.lowered for bar in predicate.method.thresholds.against_suite)
    words = (
        f"{predicate.summary.outcome} at profile {predicate.method.profile}, {predicate.assurance_level}",
        *predicate.labels,
        *((f"{lowered} bar(s) lower than the suite's own",) if lowered else ()),
        *predicate.summary.reasons[:5],
    )
    if predicate.summary.outcome is Word.CERTIFIED:
        protocol.passed("verdict", "; ".join(words))
    else:
        protocol.failed("verdict", Code.NOT_CERTIFIED, "; ".join(words))
