"""The overall outcome of a run: a pure function of its plan, its verdicts and its evidence."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from certify.evidence import EvidenceView
from certify.plan import Plan
from certify.records import Arm, Level, Outcome, Verdict
from certify.requirements import PROFILES, Requirement, planned

EXIT_CERTIFIED, EXIT_FAILED, EXIT_INCOMPLETE, EXIT_UNREACHABLE = 0, 1, 10, 11

# In these profiles an arm that was not given is "not covered"; in all others it is a gap.
_ABSENCE_IS_ALLOWED = frozenset({"smoke", "gate"})
_CARRIES = frozenset({Outcome.PASS, Outcome.NOT_APPLICABLE})
_WEIGHT = {Level.ABSENT: 0, Level.REPORTED: 1, Level.GUARDED: 2, Level.REQUIRED: 3}


class Word(StrEnum):
    """The one word at the head of a certificate."""

    CERTIFIED = "CERTIFIED"
    NOT_CERTIFIED = "NOT CERTIFIED"
    INCOMPLETE = "INCOMPLETE"


@dataclass(frozen=True, slots=True)
class Overall:
    """The outcome of a run. `reasons` says what stands between it and CERTIFIED; `counts` holds outcome -> number."""

    outcome: Word
    exit_code: int
    reasons: tuple[str, ...]
    counts: dict[str, int]


def overall(plan: Plan, verdicts: Iterable[Verdict], view: EvidenceView) -> Overall:
    """The overall outcome: 1 where a deciding requirement FAILs, 10 where anything is missing, 0 only for the rest."""
    by_id = {verdict.requirement: verdict for verdict in verdicts}
    counts = Counter(str(by_id[gate.requirement].outcome) for gate in plan.gates if gate.requirement in by_id)
    failures = tuple(_failures(plan, by_id))
    gaps = (*_gaps_of_gates(plan, by_id), *_gaps_of_profile(plan), *_gaps_of_run(plan, view))
    if failures:
        word, code = Word.NOT_CERTIFIED, EXIT_FAILED
    elif gaps:
        word, code = Word.INCOMPLETE, EXIT_INCOMPLETE
    else:
        word, code = Word.CERTIFIED, EXIT_CERTIFIED
    return Overall(word, code, (*failures, *gaps), {str(one): counts[one] for one in Outcome if counts[one]})


def prevents(level: Level, outcome: Outcome) -> bool:
    """Whether a verdict at this level stands between a run and its certificate."""
    if level is Level.REQUIRED:
        return outcome not in _CARRIES
    return level is Level.GUARDED and outcome is Outcome.FAIL


def lock_fault(plan: Plan, view: EvidenceView) -> str:
    """Why a chain does not show that its plan was locked before the first scored request; "" when it does."""
    locks = [(seq, event.detail.get("sha256")) for seq, event in view.events("plan-locked")]
    if {sha256 for _, sha256 in locks} != {plan.sha256}:
        return "the evidence was not made under this plan (event plan-locked)"
    first = next((seq for seq, _ in view.trials()), None)
    if first is not None and first < locks[0][0]:
        return f"the plan was locked after the first request (record {locks[0][0]}, the request is record {first})"
    return ""


def worst(codes: Iterable[int]) -> int:
    """The exit code of several deployments together: 1 before 11, 10, pytest's own 2-5, and 0 last of all."""
    order = (EXIT_FAILED, EXIT_UNREACHABLE, EXIT_INCOMPLETE, 2, 3, 4, 5)
    seen = set(codes)
    known = next((code for code in order if code in seen), None)
    return known if known is not None else max(seen, default=EXIT_CERTIFIED)


def _failures(plan: Plan, by_id: dict[str, Verdict]) -> Iterable[str]:
    for gate in plan.gates:
        verdict = by_id.get(gate.requirement)
        if verdict is not None and verdict.outcome is Outcome.FAIL and prevents(gate.level, verdict.outcome):
            yield f"{gate.requirement} FAIL: {verdict.summary}"


def _gaps_of_gates(plan: Plan, by_id: dict[str, Verdict]) -> Iterable[str]:
    for gate in plan.gates:
        verdict = by_id.get(gate.requirement)
        if verdict is None:
            yield f"{gate.requirement} has no verdict"
        elif verdict.outcome is not Outcome.FAIL and prevents(gate.level, verdict.outcome):
            yield f"{gate.requirement} {verdict.outcome}: {verdict.summary}"


def _gaps_of_profile(plan: Plan) -> Iterable[str]:
    if plan.profile not in PROFILES:
        yield f"no profile is called {plan.profile!r}"
        return
    absent = {absence.requirement for absence in plan.absent}
    for requirement in planned(plan.profile):
        asked = requirement.level(plan.profile)
        gate = plan.gate(requirement.id)
        if gate is None:
            if asked is Level.REQUIRED and not (requirement.id in absent and _may_be_absent(plan, requirement)):
                yield f"{requirement.id} is required in profile {plan.profile} and is not in the plan"
        elif _WEIGHT[gate.level] < _WEIGHT[asked]:
            yield f"{requirement.id} is {asked} in profile {plan.profile}, but only {gate.level} in the plan"


def _may_be_absent(plan: Plan, requirement: Requirement) -> bool:
    """Only the other arm may be missing: whether a capability is there is for its gate to find out."""
    arm_is_given = bool(plan.spec_off_url or plan.attached)
    return plan.profile in _ABSENCE_IS_ALLOWED and requirement.needs_spec_off and not arm_is_given


def _gaps_of_run(plan: Plan, view: EvidenceView) -> Iterable[str]:
    if plan.arm is Arm.SPEC_OFF:
        yield "this run only makes the evidence of the other speculation arm"
    if fault := lock_fault(plan, view):
        yield fault
    yield from (f"diagnostic run: {reason}" for reason in plan.diagnostic)
    for _, event in view.events("diagnostic"):
        yield f"diagnostic run: {event.detail.get('reason', 'see the evidence')}"
    for name, chain in (("evidence.jsonl", view), *sorted(view.attached.items())):
        if not chain.complete:
            yield f"{name}: the run did not come to its end (no footer that says complete)"
    for name, head in sorted(plan.attached.items()):
        chain_of_arm = view.attached.get(name)
        if chain_of_arm is None or chain_of_arm.head_sha256 != head:
            yield f"the plan binds the evidence {name!r} ({head[:16]}…), which is not the one at hand"
