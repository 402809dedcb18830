"""Asks both arms, with and without speculation, the same."""

from certify.cases.corpora import copying_prompt
from certify.deployment.recorder import Recorder
from certify.quality.asking import ask_cases
from certify.quality.plans import COPY_TOKENS
from certify.records import Arm, ChatRequest, Message, Thinking

LAYER0, PAIRED = "QUAL-SPEC-01", "QUAL-SPEC-05"
BEFORE, AFTER = "spec:before", "spec:after"


def collect_copies(recorder: Recorder) -> None:
    """The texts that copy their prompt, on every arm at hand, between two readings of the arm's totals."""
    for arm in recorder.arms:
        recorder.sample(BEFORE, arm)
        _copy(recorder, arm)
        recorder.sample(AFTER, arm)


def _copy(recorder: Recorder, arm: Arm) -> None:
    gate = recorder.plan.gate(LAYER0)
    trials = [trial for trial in gate.trials if trial.trial_id.arm is arm] if gate else []
    for trial in trials:
        recorder.progress(f"speculation: copying, {arm}")
        request = ChatRequest(
            (Message("user", copying_prompt(trial.seed)),), max_tokens=COPY_TOKENS, thinking=Thinking(trial.thinking)
        )
        recorder.ask(trial.trial_id, request, recipe={"seed": trial.seed})


def collect_pairs(recorder: Recorder) -> None:
    """The quality cases of the other arm, where this run can ask it; those as served were asked before."""
    gate = recorder.plan.gate(PAIRED)
    ask_cases(recorder, [gate] if gate else [])


def collect_arm(recorder: Recorder) -> None:
    """All that the evidence of the arm without speculation holds: the run of the other arm takes it in whole."""
    collect_copies(recorder)
    collect_pairs(recorder)
