"""How judges read evidence: raw exchanges turned into answers again, warm-ups and interruptions left out."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import lru_cache

from certify.evidence import EvidenceView
from certify.plan import REPLACEMENT, Plan
from certify.records import Arm, Bound, Exchange, FailureKind, Figure, Finding, Trial, TrialId
from certify.wire.answer import Answer, read_answer

QUOTE_CAP = 400  # characters of hostile text that a finding carries
FINDINGS_CAP = 20  # findings that a verdict lists; its figures count all
SPEC_OFF_CHAIN = "spec-off"  # the name under which the other arm's evidence is attached

HTTP_OK = 200


@dataclass(frozen=True, slots=True)
class Seen:
    """A trial with its answer as the judge reads it; `chain` names the attached chain that holds it ("": the run's)."""

    seq: int
    trial: Trial
    answer: Answer
    chain: str = ""

    @property
    def evidence(self) -> tuple[int, ...]:
        """The sequence number, where it speaks of the run's own chain."""
        return () if self.chain else (self.seq,)

    @property
    def name(self) -> str:
        """The trial in words, for findings."""
        place = self.trial.trial_id
        chain = f" (record {self.seq} of the attached chain {self.chain})" if self.chain else ""
        return f"{place.requirement} {place.case} #{place.repeat}{chain}"


@lru_cache(maxsize=256)
def read(exchange: Exchange) -> Answer:
    """The answer in an exchange, from its raw body (kept for the other judges of the same exchange)."""
    return read_answer(exchange)


def interrupted(trial: Trial) -> bool:
    """Whether the run was stopped while this exchange ran: it tells nothing about the deployment."""
    return trial.exchange.failure is not None and trial.exchange.failure.kind is FailureKind.INTERRUPTED


def counted(view: EvidenceView, requirement: str, arm: Arm | None = None) -> Iterator[Seen]:
    """The scored trials that serve a requirement: neither warm-ups nor interrupted; of one arm, or of all.

    Trials of the other arm are also taken from the attached chain `spec-off`.
    """
    chains = [("", view)]
    if SPEC_OFF_CHAIN in view.attached and arm is not Arm.SERVED:
        chains.append((SPEC_OFF_CHAIN, view.attached[SPEC_OFF_CHAIN]))
    for chain, source in chains:
        for seq, trial in source.trials(requirement):
            foreign = chain and trial.trial_id.arm is not Arm.SPEC_OFF
            if not (trial.warm_up or interrupted(trial) or foreign) and arm in {None, trial.trial_id.arm}:
                yield Seen(seq, trial, read(trial.exchange), chain)


def planned_id(trial_id: TrialId) -> TrialId:
    """The planned trial that this one carries out, or replaces after an interruption."""
    return replace(trial_id, repeat=trial_id.repeat % REPLACEMENT)


def missing(plan: Plan, requirement: str, found: Iterable[Seen]) -> tuple[TrialId, ...]:
    """The planned trials of a requirement that the evidence does not hold."""
    gate = plan.gate(requirement)
    have = {planned_id(one.trial.trial_id) for one in found}
    return tuple(trial.trial_id for trial in gate.trials if trial.trial_id not in have) if gate else ()


def missing_over(plan: Plan, requirement: str, found: Iterable[Seen]) -> int:
    """How many planned trials the evidence lacks: the requirement's own, or those of what it is judged over."""
    gate, seen = plan.gate(requirement), tuple(found)
    over = gate.parameters.get("over") if gate else None
    names = [str(name) for name in over] if isinstance(over, list) else [requirement]
    return sum(len(missing(plan, name, seen)) for name in names)


def quote(text: str) -> str:
    """Text of the deployment, capped; whoever renders it treats it as hostile."""
    return text if len(text) <= QUOTE_CAP else text[: QUOTE_CAP - 1] + "…"


def brief(text: str) -> str:
    """A short piece of the deployment's text to stand inside a sentence: printable, on one line, 80 characters."""
    return repr(text if len(text) <= 80 else text[:79] + "…")  # noqa: PLR2004 - the docstring says it


def many(count: int, noun: str) -> str:
    """A count with its noun: "1 answer", "3 answers"."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def unanswered(one: Seen) -> str:
    """Why an exchange is no complete answer, in one clause; "" when it is one."""
    exchange, answer = one.trial.exchange, one.answer
    if exchange.failure is not None:
        return f"the exchange broke ({exchange.failure.kind}: {brief(exchange.failure.message)})"
    if exchange.status != HTTP_OK:
        told = answer.error.message if answer.error else exchange.body[:80].decode(errors="replace")
        return f"HTTP {exchange.status}: {brief(told)}"
    if answer.error is not None:
        return f"an error after HTTP 200: {brief(answer.error.message)}"
    if not answer.finish_reasons and not answer.truncated:
        return "the answer stopped without a finish reason"
    return ""


def refused(one: Seen) -> bool:
    """Whether the deployment declined the request cleanly: a 4xx whose body tells why."""
    status = one.trial.exchange.status
    return status is not None and 400 <= status < 500 and one.answer.error is not None  # noqa: PLR2004 - HTTP's 4xx


def capped(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """The first findings, and one that counts the rest."""
    everything = list(findings)
    rest = len(everything) - FINDINGS_CAP
    more = (Finding(f"and {rest} more of the same kind"),) if rest > 0 else ()
    return (*everything[:FINDINGS_CAP], *more)


def evidence_of(ones: Iterable[Seen]) -> tuple[int, ...]:
    """The sequence numbers of the run's own chain, ascending."""
    return tuple(sorted({one.seq for one in ones if not one.chain}))


def exact(number: Figure | Bound) -> Decimal:
    """The decimal that a figure or a bound is."""
    return Decimal(number.scaled).scaleb(-number.decimals)
