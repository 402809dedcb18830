"""PRE-IDENT-01: the deployment that answered last is the one that answered first."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from certify.evidence import EvidenceView
from certify.judging.reading import brief, capped, interrupted, many, read
from certify.plan import Plan
from certify.records import Arm, Figure, Finding, Outcome, Probe, Sample, Verdict
from certify.thresholds import Thresholds
from certify.wire.counters import read_counters
from certify.wire.identity import Identity, read_identity

REQUIREMENT = "PRE-IDENT-01"
START, RESUME, END = "identity:", "identity-resume:", "identity-end:"
RULE = (
    "engine, version, model, context and every configuration fact are the same in all identity probes; the model name "
    "and fingerprint of all answers are the same; no total falls; one difference fails"
)
CAUSE = "the deployment was restarted, replaced or reconfigured while it was measured, or a balancer mixes several"

# The ruler's emitter answers these: it is no part of the deployment.
_NOT_THE_DEPLOYMENT = "PRE-RULER-01"


@dataclass(frozen=True, slots=True)
class _Told:
    """A value that the deployment told of itself, and the record that holds it."""

    value: str
    seq: int


def judge_identity(view: EvidenceView, plan: Plan, thresholds: Thresholds) -> Verdict:
    """PASS when nothing that tells who answers has changed; FAIL names what did.

    A model list that only grows is no difference: an alias or adapter that is loaded in mid-run does not change who
    answers, and is told as a finding. A model that disappears from the list is one.
    """
    del plan, thresholds
    probes = list(view.probes())
    start, resumed, end = (
        [
            (seq, replace(probe, name=START + probe.path))
            for seq, probe in probes
            if probe.name.startswith(prefix) and probe.method == "GET"
        ]
        for prefix in (START, RESUME, END)
    )
    seqs = tuple(sorted(seq for seq, _ in (*start, *resumed, *end)))
    if not start or not end:
        which = "start" if not start else "end"
        return Verdict(
            REQUIREMENT,
            Outcome.ERROR,
            f"the evidence holds no identity probes of the {which} of the run",
            rule=RULE,
            cause="the run was cut short",
            action="run again, or resume it",
            evidence=seqs,
        )
    lost = [
        Finding(f"GET {probe.path} answered at the start, at the end: {_status(probe)}", (seq,))
        for seq, probe in end
        if not _answered(probe) and any(_answered(first) and first.path == probe.path for _, first in start)
    ]
    changes, notes = _compare(start, resumed, end)
    models, fingerprints, answers = _echoes(view)
    changes += _constant("the model name in the answers", models)
    changes += _constant("the system fingerprint in the answers", fingerprints)
    changes += [
        Finding(f"{name} fell from {before} to {after}: the engine was restarted", (first, seq))
        for name, before, after, first, seq in _falls(view.samples())
    ]
    return _verdict([*lost, *changes], notes, seqs, answers)


def _verdict(broken: list[Finding], notes: list[Finding], seqs: tuple[int, ...], answers: int) -> Verdict:
    evidence = tuple(sorted({*seqs, *(seq for finding in broken for seq in finding.evidence)}))
    return Verdict(
        REQUIREMENT,
        Outcome.FAIL if broken else Outcome.PASS,
        f"{many(len(broken), 'difference')}: {broken[0].text}"
        if broken
        else f"the same deployment in {answers} answers",
        rule=RULE,
        figures=(
            Figure(
                "differences",
                len(broken),
                0,
                "differences",
                answers,
                "identity probes at start and end, echoes in every answer, totals of the counters",
                population="all answers of the run as served",
            ),
        ),
        findings=capped([*broken, *notes]),
        cause=CAUSE if broken else "",
        action="let one deployment run undisturbed, ask it directly, and run again" if broken else "",
        evidence=evidence,
    )


def _answered(probe: Probe) -> bool:
    return probe.failure is None and probe.status == 200  # noqa: PLR2004 - HTTP


def _status(probe: Probe) -> str:
    return f"HTTP {probe.status}" if probe.failure is None else brief(probe.failure.message)


_Probes = list[tuple[int, Probe]]


def _compare(start: _Probes, resumed: _Probes, end: _Probes) -> tuple[list[Finding], list[Finding]]:
    """(differences, notes) between the start and each later round of probes: of a resumed run, and of the end."""
    firsts = {probe.path: (seq, probe) for seq, probe in reversed(start)}
    changes: dict[str, Finding] = {}
    notes: dict[str, Finding] = {}
    for later in (resumed, end):
        # Only pages that answered both times are compared: one that is gone is told by its status.
        pages = {probe.path: (seq, probe) for seq, probe in later if _answered(probe)}
        same = [firsts[path] for path in pages if path in firsts and _answered(firsts[path][1])]
        again = [pages[probe.path] for _, probe in same]
        before, now = (read_identity(probe for _, probe in ones) for ones in (same, again))
        shown_by = tuple(sorted(seq for seq, _ in (*same, *again)))
        for text in _differences(before, now):
            changes.setdefault(text, Finding(text, shown_by))
        if added := sorted(set(now.models) - set(before.models)):
            text = f"models were added to the list: {', '.join(map(brief, added[:5]))}"
            notes.setdefault(text, Finding(text, shown_by))
    return list(changes.values()), list(notes.values())


_FACTS: tuple[tuple[str, Callable[[Identity], object]], ...] = (
    ("engine", lambda identity: identity.engine),
    ("version", lambda identity: identity.version),
    ("context", lambda identity: identity.context_tokens),
    ("tensor parallelism", lambda identity: identity.tensor_parallel),
    ("sequences at once", lambda identity: identity.max_sequences),
    ("simulated", lambda identity: identity.simulated),
)


def _differences(before: Identity, now: Identity) -> Iterator[str]:
    for name, read_fact in _FACTS:
        if read_fact(before) != read_fact(now):
            yield f"{name} was {brief(str(read_fact(before)))}, now {brief(str(read_fact(now)))}"
    for gone in sorted(set(before.models) - set(now.models)):
        yield f"model {brief(gone)} is no longer listed"
    old, new = dict(before.facts), dict(now.facts)
    for name in sorted({*old, *new}):
        if old.get(name) != new.get(name):
            yield f"fact {brief(name)} was {brief(str(old.get(name)))}, now {brief(str(new.get(name)))}"


def _echoes(view: EvidenceView) -> tuple[list[_Told], list[_Told], int]:
    """The first sight of each model name and fingerprint in the answers as served, and how many answers there were."""
    models: dict[str, _Told] = {}
    fingerprints: dict[str, _Told] = {}
    answers = 0
    for seq, trial in view.trials():
        place = trial.trial_id
        if place.arm is not Arm.SERVED or place.requirement == _NOT_THE_DEPLOYMENT or interrupted(trial):
            continue
        answers += 1
        answer = read(trial.exchange)
        if answer.model:
            models.setdefault(answer.model, _Told(answer.model, seq))
        if answer.system_fingerprint:
            fingerprints.setdefault(answer.system_fingerprint, _Told(answer.system_fingerprint, seq))
    return list(models.values()), list(fingerprints.values()), answers


def _constant(what: str, told: list[_Told]) -> list[Finding]:
    return [
        Finding(f"{what} was {brief(told[0].value)}, then {brief(other.value)}", (told[0].seq, other.seq))
        for other in told[1:]
    ]


def _falls(samples: Iterable[tuple[int, Sample]]) -> Iterator[tuple[str, int, int, int, int]]:
    """(counter, before, after, record before, record after) wherever a total of the served arm fell."""
    last: dict[str, tuple[int, int]] = {}
    for seq, sample in samples:
        if sample.arm is not Arm.SERVED:
            continue
        counters = read_counters(sample.text)
        totals = {"generated tokens": counters.generation_tokens, "prompt tokens": counters.prompt_tokens}
        for name, total in totals.items():
            if total is None:
                continue
            if name in last and total < last[name][0]:
                yield name, last[name][0], total, last[name][1], seq
            last[name] = (total, seq)
