"""Asks tiny chats, streamed and whole."""

from certify.cases.tiny import sum_question
from certify.deployment.recorder import Recorder
from certify.plan import PlannedTrial
from certify.preflight.plans import TINY_TOKENS
from certify.records import ChatRequest, Message, Thinking

REQUIREMENT = "PRE-CONTRACT-01"


def collect_contract(recorder: Recorder) -> None:
    """Each planned tiny chat; the streamed and the whole one of a repeat ask the same."""
    gate = recorder.plan.gate(REQUIREMENT)
    for trial in gate.trials if gate else ():
        recorder.progress(f"contract: {trial.trial_id.case}")
        recorder.ask(trial.trial_id, _sum(trial), recipe={"seed": trial.seed})


def _sum(trial: PlannedTrial) -> ChatRequest:
    return ChatRequest(
        (Message("user", sum_question(trial.seed)),),
        max_tokens=TINY_TOKENS,
        stream=trial.stream,
        thinking=Thinking(trial.thinking),
    )
