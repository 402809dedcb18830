"""Asks one question with the thinking switch on, off, and unsaid."""

from certify.cases.tiny import riddle
from certify.deployment.recorder import Recorder
from certify.plan import PlannedTrial
from certify.preflight.plans import THINKING_BUDGET_TOKENS, THINKING_TOKENS
from certify.records import ChatRequest, Message, Thinking

REQUIREMENT = "PRE-THINK-01"


def collect_thinking(recorder: Recorder) -> None:
    """Each planned mode of the one question, streamed and capped."""
    gate = recorder.plan.gate(REQUIREMENT)
    for trial in gate.trials if gate else ():
        recorder.progress(f"thinking: {trial.thinking}")
        recorder.ask(trial.trial_id, _request(trial), recipe={"seed": trial.seed})


def _request(trial: PlannedTrial) -> ChatRequest:
    mode = Thinking(trial.thinking)
    return ChatRequest(
        (Message("user", riddle(trial.seed)),),
        max_tokens=THINKING_TOKENS,
        stream=True,
        thinking=mode,
        thinking_budget_tokens=None if mode is Thinking.OFF else THINKING_BUDGET_TOKENS,
    )
