"""What a certificate claims: everything in it that follows from evidence, plan and thresholds alone.

`build` uses it to state, `verify` to state again and compare; what a reader cannot compute is in `Stated`.
"""

import hashlib
import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeVar, cast

from certify.codec import canonical, digest, from_json, to_json
from certify.evidence import EvidenceView
from certify.judging.summary import overall
from certify.plan import Absence, Plan
from certify.records import Bound, Json, Level, Outcome, Verdict
from certify.report.shown import instant
from certify.report.statement import (
    SCHEMA,
    Bar,
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
from certify.requirements import REQUIREMENTS, planned
from certify.thresholds import DEFAULT_SET, Thresholds, parse, suite_text
from certify.wire.identity import read_identity

TITLE = "Deployment certificate"
RULER = "PRE-RULER-01"
SUITE = "certify"
VOID_IF = (
    "the identity of the deployment changes",
    "its driver, kernel, image, model, template or launch options change",
    "the signing key is revoked",
)
STATEMENTS = (
    "It relates only to the deployment identified here, as it was launched, at the time of the run.",
    "A signature proves who states this and that nothing was altered since.",
    "A signature does not prove which hardware answered, nor that the client's clock was honest.",
    "The operator could have measured several times and shown the best run: nothing proves that there was no other.",
)
NO_CHALLENGE = "Without a reader's challenge, nothing proves that the run came after the reader asked for it."
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Stated:
    """What the issuer states and evidence cannot show."""

    issued: str
    not_after: str
    labels: tuple[str, ...]
    issuer: Issuer
    python: str
    packages: dict[str, str]


def stated_in(predicate: Predicate) -> Stated:
    """What the issuer of a certificate stated beyond its evidence."""
    return Stated(
        predicate.issued,
        predicate.validity.not_after,
        predicate.labels,
        predicate.issuer,
        predicate.method.python,
        predicate.method.packages,
    )


def claim(
    stated: Stated,
    plan: Plan,
    thresholds: Thresholds,
    verdicts: Iterable[Verdict],
    view: EvidenceView,
    *,
    chains: tuple[Chain, ...],
) -> Predicate:
    """The predicate that follows; pure."""
    given = tuple(_settle(verdict) for verdict in verdicts)
    by_id = {verdict.requirement: verdict for verdict in given}
    identity = read_identity(probe for _, probe in view.probes())
    ruler = by_id.get(RULER)
    shown = (("SIMULATED", identity.simulated), ("DIAGNOSTIC", _diagnostic(plan, view)))
    return Predicate(
        schema=SCHEMA,
        id=f"urn:uuid:{_uuid(plan.sha256, *(chain.sha256 for chain in chains), stated.issued)}",
        title=TITLE,
        issued=stated.issued,
        validity=Validity(stated.issued, stated.not_after, VOID_IF),
        assurance_level="challenged" if plan.challenge else "self_attested",
        labels=tuple(dict.fromkeys((*stated.labels, *(label for label, holds in shown if holds)))),
        issuer=stated.issuer,
        deployment=Deployment(
            plan.base_url,
            plan.spec_off_url,
            _settled_object(plan.declared),
            from_json(Observed, settled(to_json(identity))),
        ),
        method=_method(stated, plan, thresholds, view),
        calibration=ruler.figures if ruler is not None else (),
        challenge=Challenge(plan.challenge, seeds_cases=bool(plan.challenge)),
        results=tuple(_result(by_id.get(gate.requirement), gate.requirement, gate.level) for gate in plan.gates),
        summary=_settle(overall(plan, given, view)),
        coverage=_coverage(plan),
        evidence=chains,
        statements=STATEMENTS if plan.challenge else (*STATEMENTS, NO_CHALLENGE),
    )


def subjects(
    predicate: Predicate, plan: Plan, thresholds: Thresholds, *, run_log_sha256: str = "", commit: str = ""
) -> tuple[Subject, ...]:
    """The subjects of a certificate but for its page."""
    return (
        Subject("deployment", {"sha256": digest(to_json(predicate.deployment))}, {}),
        *(Subject(chain.name, {"sha256": chain.sha256}, {"bytes": chain.bytes}) for chain in predicate.evidence),
        Subject("plan.json", {"sha256": plan.sha256}, {}),
        Subject("thresholds.toml", {"sha256": thresholds.sha256}, {}),
        *((Subject("run-log.html", {"sha256": run_log_sha256}, {}),) if run_log_sha256 else ()),
        *((Subject("pr", {"gitCommit": commit}, {}),) if commit else ()),
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


def _method(stated: Stated, plan: Plan, thresholds: Thresholds, view: EvidenceView) -> Method:
    return Method(
        suite=SUITE,
        version=plan.suite_version,
        judge_version=plan.judge_version,
        registry_version=plan.registry_version,
        profile=plan.profile,
        python=stated.python,
        packages=stated.packages,
        client=_settled_object(view.header.client),
        thresholds=ThresholdSet(
            thresholds.name,
            thresholds.sha256,
            thresholds.text,
            tuple(MetricBound(key[0], bound) for key, bound in sorted(thresholds.bounds.items())),
            against_suite(thresholds),
        ),
        plan=LockedPlan(plan.sha256, instant(plan.locked_at_us), "signed", plan.to_bytes().decode()),
    )


def _diagnostic(plan: Plan, view: EvidenceView) -> bool:
    return bool(plan.diagnostic) or any(True for _ in view.events("diagnostic"))


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
    return (
        *plan.absent,
        *(Absence(one, "left out of the plan") for one in built if one in asked - gates - told),
        *(Absence(one, f"not part of profile {plan.profile}") for one in built if one not in asked | gates | told),
    )


def _settle(record: T) -> T:
    return from_json(type(record), settled(to_json(record)))


def _settled_object(value: dict[str, Json]) -> dict[str, Json]:
    return cast("dict[str, Json]", settled(dict(value)))


def _uuid(*parts: str) -> uuid.UUID:
    raw = bytearray(hashlib.sha256(canonical(list(parts))).digest()[:16])
    raw[6] = raw[6] & 0x0F | 0x80  # RFC 9562, version 8: made from a digest
    raw[8] = raw[8] & 0x3F | 0x80
    return uuid.UUID(bytes=bytes(raw))


def _limit(bound: Bound) -> tuple[str, Fraction]:
    return bound.kind, Fraction(bound.scaled, 10**bound.decimals)


def _lowered(suite: Bound | None, run: Bound | None) -> bool:
    if suite is None:
        return False
    if run is None or run.kind != suite.kind:
        return True
    (kind, theirs), (_, ours) = _limit(suite), _limit(run)
    return ours < theirs if kind == "floor" else ours > theirs
