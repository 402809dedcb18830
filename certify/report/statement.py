"""The certificate as data: an in-toto Statement v1 whose predicate is `Predicate`; RFC 8785 bytes, no floats."""

from dataclasses import dataclass
from typing import cast

from certify.codec import CodecError, canonical, from_json, parse_json, to_json
from certify.judging.summary import Overall
from certify.plan import Absence
from certify.records import Bound, Figure, Json, Level, Verdict

SCHEMA = 1
STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
PREDICATE_FAMILY = "urn:certify:deployment-certificate:"
PREDICATE_TYPE = f"{PREDICATE_FAMILY}v1"
PAYLOAD_TYPE = "application/vnd.in-toto+json"
NAMESPACE = "certify-certificate@v1"
REPORT, EVIDENCE, RUN_LOG = "report.html", "evidence.jsonl", "run-log.html"


class CertificateError(ValueError):
    """Bytes that are not a certificate that this version reads: what is wrong with them."""


class UnknownPredicateError(CertificateError):
    """A statement about something else, or a certificate of another major version."""


@dataclass(frozen=True, slots=True)
class Subject:
    """One thing that the certificate speaks of, bound by its digest."""

    name: str
    digest: dict[str, str]
    annotations: dict[str, Json]


@dataclass(frozen=True, slots=True)
class Validity:
    """How long the owner's word stands, and what ends it sooner (RFC 3339, UTC)."""

    not_before: str
    not_after: str
    void_if: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Issuer:
    """Who states this. `seal` is `sshsig` or `none`; `key` is the fingerprint of the key that seals it first."""

    name: str
    role: str
    seal: str
    key: str


@dataclass(frozen=True, slots=True)
class Observed:
    """What the deployment said of itself, read from the probes; "" or None where it said nothing."""

    engine: str
    version: str
    model: str
    models: tuple[str, ...]
    context_tokens: int | None
    system_fingerprint: str
    tensor_parallel: int | None
    max_sequences: int | None
    simulated: bool
    facts: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Deployment:
    """The system under test: where it was reached, what its owner declares, what it showed."""

    base_url: str
    spec_off_url: str
    declared: dict[str, Json]
    observed: Observed


@dataclass(frozen=True, slots=True)
class MetricBound:
    """A bound and the requirement whose metric it limits."""

    requirement: str
    bound: Bound


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar of the run beside the suite's own (`suite` or `run` is None where there is none)."""

    requirement: str
    metric: str
    suite: Bound | None
    run: Bound | None
    lowered: bool


@dataclass(frozen=True, slots=True)
class ThresholdSet:
    """The bars of the run: the file verbatim, the resolved bounds, and where they differ from the suite's."""

    name: str
    sha256: str
    text: str
    bounds: tuple[MetricBound, ...]
    against_suite: tuple[Bar, ...]


@dataclass(frozen=True, slots=True)
class LockedPlan:
    """The plan verbatim (canonical JSON as text), its digest, and when it was locked."""

    sha256: str
    locked_at: str
    lock_proof: str
    text: str


@dataclass(frozen=True, slots=True)
class Method:
    """How it was measured: everything that another laboratory needs to do it again."""

    suite: str
    version: str
    judge_version: str
    registry_version: str
    profile: str
    python: str
    packages: dict[str, str]
    client: dict[str, Json]
    thresholds: ThresholdSet
    plan: LockedPlan


@dataclass(frozen=True, slots=True)
class Challenge:
    """The reviewer's nonce, if any: it seeds the cases, so the answers came after the question."""

    nonce: str
    seeds_cases: bool


@dataclass(frozen=True, slots=True)
class Result:
    """One requirement: what the profile asks, and the verdict."""

    title: str
    family: str
    level: Level
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Chain:
    """One chain of evidence. `embedded` is `full` or `none`; `file` is its name beside the report.

    `attached_as` is the name under which the plan binds it, "" for the run's own chain.
    """

    name: str
    attached_as: str
    file: str
    sha256: str
    bytes: int
    gzip_sha256: str
    records: int
    head_sha256: str
    complete: bool
    embedded: str


@dataclass(frozen=True, slots=True)
class Predicate:
    """What is certified. `labels` are the words that stand beside the verdict: DEMO, SIMULATED, DIAGNOSTIC."""

    schema: int
    id: str
    title: str
    issued: str
    validity: Validity
    assurance_level: str
    labels: tuple[str, ...]
    issuer: Issuer
    deployment: Deployment
    method: Method
    calibration: tuple[Figure, ...]
    challenge: Challenge
    results: tuple[Result, ...]
    summary: Overall
    coverage: tuple[Absence, ...]
    evidence: tuple[Chain, ...]
    statements: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Certificate:
    """A statement: its subjects and its predicate."""

    subjects: tuple[Subject, ...]
    predicate: Predicate

    def subject(self, name: str) -> Subject | None:
        """The subject of this name, or None."""
        return next((one for one in self.subjects if one.name == name), None)

    def to_bytes(self) -> bytes:
        """The bytes of `certificate.json`: canonical, and without floats.

        Raises:
            CertificateError: a float found its way in: a mistake in the suite itself.
        """
        statement = {
            "_type": STATEMENT_TYPE,
            "predicate": to_json(self.predicate),
            "predicateType": PREDICATE_TYPE,
            "subject": to_json(list(self.subjects)),
        }
        if _holds_float(statement):
            raise CertificateError("a certificate holds no floats")
        return canonical(statement)


def from_bytes(raw: bytes) -> Certificate:
    """The certificate that `certificate.json` holds.

    Raises:
        UnknownPredicateError: a statement of another kind or major version.
        CertificateError: not canonical, not a statement, unknown or missing fields, wrong types.
    """
    try:
        statement = parse_json(raw)
        if canonical(statement) != raw:
            raise CertificateError("the certificate is not canonical JSON (RFC 8785)")
    except (CodecError, RecursionError) as error:
        raise CertificateError(f"the certificate is not readable: {error}") from error
    if not isinstance(statement, dict) or statement.get("_type") != STATEMENT_TYPE:
        raise CertificateError(f"not an in-toto statement: `_type` {STATEMENT_TYPE} expected")
    kind = statement.get("predicateType")
    if kind != PREDICATE_TYPE:
        raise UnknownPredicateError(f"predicate type {str(kind)[:120]!r}; this version reads {PREDICATE_TYPE}")
    if unknown := sorted(set(statement) - {"_type", "subject", "predicateType", "predicate"}):
        raise CertificateError(f"unknown field {unknown[0][:80]!r} in the statement")
    if _holds_float(statement):
        raise CertificateError("a certificate holds no floats")
    try:
        subjects = from_json(tuple[Subject, ...], statement.get("subject"))
        predicate = from_json(Predicate, statement.get("predicate"))
    except CodecError as error:
        raise CertificateError(str(error)) from error
    if predicate.schema != SCHEMA:
        raise UnknownPredicateError(f"certificate schema {predicate.schema}; this version reads {SCHEMA}")
    names = [one.name for one in subjects]
    if len(set(names)) != len(names):
        raise CertificateError("a subject is named twice")
    return Certificate(subjects, predicate)


def settled(value: Json) -> Json:
    """A JSON value with its floats as decimal text and its lone surrogates as escapes, so that it can be sealed."""
    match value:
        case float():
            return repr(value)
        case str():
            return value.encode("utf-8", "backslashreplace").decode()
        case list():
            return [settled(one) for one in value]
        case dict():
            return {cast("str", settled(key)): settled(one) for key, one in value.items()}
        case _:
            return value


def _holds_float(value: Json) -> bool:
    match value:
        case float():
            return True
        case list():
            return any(_holds_float(one) for one in value)
        case dict():
            return any(_holds_float(one) for one in value.values())
        case _:
            return False
