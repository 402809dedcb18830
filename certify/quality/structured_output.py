"""Asks the cases of the structured-output scenarios."""

from certify.deployment.recorder import Recorder
from certify.quality.asking import ask_cases
from certify.quality.plans import SCENARIOS


def collect_all(recorder: Recorder) -> None:
    """The cases of every planned scenario, together."""
    ask_cases(recorder, [gate for one in SCENARIOS if (gate := recorder.plan.gate(one))])


def collect_scenario(recorder: Recorder, requirement: str) -> None:
    """The cases of one scenario, where they were not asked before."""
    gate = recorder.plan.gate(requirement)
    ask_cases(recorder, [gate] if gate else [])
