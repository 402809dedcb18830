"""The plan: what will be asked, in which order, with which seeds and stopping rules; locked before it starts."""

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, replace

from certify.codec import canonical, digest, from_json, parse_json, to_json
from certify.records import Arm, Json, Level, TrialId
from certify.requirements import REQUIREMENTS

SCHEMA = 1

# The repeat of an interrupted trial is a new trial: its number lies this far above the one that it replaces.
REPLACEMENT = 1000


@dataclass(frozen=True, slots=True)
class PlannedTrial:
    """One execution that the plan foresees; `seed` regenerates its case."""

    trial_id: TrialId
    seed: str
    stream: bool
    thinking: str


@dataclass(frozen=True, slots=True)
class PlannedGate:
    """One requirement in the plan: its level, its trials, the rule that ends it, and what it is expected to cost.

    `parameters` are what its collector needs beside the trials (rungs, repeats, answer caps): a JSON object.
    """

    requirement: str
    level: Level
    rule: str
    expected_s: int
    trials: tuple[PlannedTrial, ...]
    parameters: dict[str, Json]


@dataclass(frozen=True, slots=True)
class Absence:
    """A requirement that this run does not cover, and why."""

    requirement: str
    reason: str


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that was decided before the first scored request.

    `arm` is `spec-off` for a run that only makes the other arm's evidence. `declared` holds the owner's declared
    capabilities. `attached` binds evidence of another run (name -> SHA-256 of its chain's last record).
    """

    schema: int
    suite_version: str
    registry_version: str
    judge_version: str
    profile: str
    arm: Arm
    base_url: str
    spec_off_url: str
    model: str
    engine: str
    seed: str
    challenge: str
    thresholds_set: str
    thresholds_sha256: str
    declared: dict[str, Json]
    context_tokens: int | None
    gates: tuple[PlannedGate, ...]
    absent: tuple[Absence, ...]
    attached: dict[str, str]
    diagnostic: tuple[str, ...]
    locked_at_us: int

    @property
    def sha256(self) -> str:
        """The digest that is printed before the run and bound in the certificate."""
        return digest(to_json(self))

    def gate(self, requirement: str) -> PlannedGate | None:
        """The planned gate of a requirement, or None where the plan does not hold it."""
        return next((gate for gate in self.gates if gate.requirement == requirement), None)

    def planned_trial(self, trial_id: TrialId) -> PlannedTrial | None:
        """The planned trial that this execution, or the one that it replaces, carries out; None for any other."""
        gate = self.gate(trial_id.requirement)
        planned_id = replace(trial_id, repeat=trial_id.repeat % REPLACEMENT)
        return next((trial for trial in gate.trials if trial.trial_id == planned_id), None) if gate else None

    def to_bytes(self) -> bytes:
        """The canonical bytes of `plan.json`."""
        return canonical(to_json(self))


def whole_parameter(gate: PlannedGate, name: str) -> int:
    """An integer among a gate's parameters.

    Raises:
        ValueError: the plan holds no such integer.
    """
    value = gate.parameters.get(name)
    if type(value) is not int:
        raise ValueError(f"{gate.requirement} in the plan: parameter {name!r} is {value!r}, expected an integer")
    return value


def whole_parameters(gate: PlannedGate, name: str) -> tuple[int, ...]:
    """A list of integers among a gate's parameters.

    Raises:
        ValueError: the plan holds no such list.
    """
    values = gate.parameters.get(name)
    whole = [value for value in values if type(value) is int] if isinstance(values, list) else []
    if not isinstance(values, list) or len(whole) < len(values):
        raise ValueError(f"{gate.requirement} in the plan: parameter {name!r} is {values!r}, expected integers")
    return tuple(whole)


def from_bytes(raw: bytes) -> Plan:
    """The plan that `plan.json` holds.

    Raises:
        CodecError: it is not a plan of this schema.
    """
    return from_json(Plan, parse_json(raw))


def case_seed(seed: str, challenge: str, requirement: str, case: str, repeat: int) -> str:
    """The seed of one case: HMAC-SHA256(seed ‖ challenge, requirement, case, repeat) as 32 hex digits.

    The arm is left out: both arms ask the same question. So is thinking: on and off are pairs.
    """
    key = canonical([seed, challenge])
    return hmac.new(key, canonical([requirement, case, repeat]), hashlib.sha256).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class Pace:
    """What a probe saw of the deployment's speed, for expected durations alone: no verdict rests on it.

    The defaults hold where the probe could not tell: a GB10 pair decodes 60 tok/s and prefills 2,600 tok/s.
    """

    decode_tok_s: float = 50.0
    prefill_tok_s: float = 1500.0

    def seconds(self, prompt_tokens: float, answer_tokens: float) -> float:
        """About how long one exchange takes alone."""
        return prompt_tokens / self.prefill_tok_s + answer_tokens / self.decode_tok_s


@dataclass(frozen=True, slots=True)
class PlanContext:
    """What the rooms' planners know when they plan: the profile, the seeds, what probing saw, what the owner declares.

    `declared` maps a capability's name to what `deployment.toml` says of it; a capability that it does not name is
    missing. `has_spec_off` says that the other arm can be asked in this run or is attached as evidence. `budget_s` are
    the seconds that `--budget` leaves, None without one. `pace` is what the cost probe saw.
    """

    profile: str
    seed: str
    challenge: str
    context_tokens: int | None
    engine: str
    max_sequences: int | None
    declared: Mapping[str, bool]
    has_spec_off: bool
    budget_s: int | None
    pace: Pace = Pace()

    def level(self, requirement: str) -> Level:
        """What the profile asks of a requirement; ABSENT means that its gate is not planned.

        Raises:
            KeyError: no such requirement.
        """
        return REQUIREMENTS[requirement].level(self.profile)

    def case_seed(self, requirement: str, case: str, repeat: int) -> str:
        """The seed of one case of this run (`case_seed` with the run's own seed and challenge)."""
        return case_seed(self.seed, self.challenge, requirement, case, repeat)
