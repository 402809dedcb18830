"""Collects the prefix cache: prompts behind a fresh nonce, and the same bytes again, with the counters in between."""

from certify.cases import haystack
from certify.deployment.recorder import Recorder
from certify.perf.load import Question, closed_loop
from certify.plan import PlannedGate, PlannedTrial, whole_parameter
from certify.records import ChatRequest, Message, Thinking

WARM, COLD = "PERF-CACHE-01", "PERF-CACHE-02"
SAMPLE = "prefix-cache"  # the judge reads the counters by this name
HTTP_OK = 200


def collect_pairs(recorder: Recorder) -> None:
    """Each cold prompt and then its repeats, one at a time; counters before and after each where the engine has any."""
    gate = recorder.plan.gate(WARM) or recorder.plan.gate(COLD)
    if gate is None:
        return
    counting = recorder.sample(SAMPLE).status == HTTP_OK
    for trial in gate.trials:
        recorder.progress(f"prefix cache: {trial.trial_id.case}, repeat {trial.trial_id.repeat}")
        closed_loop(recorder, [_question(gate, trial)])
        if counting:
            recorder.sample(SAMPLE)


def _question(gate: PlannedGate, trial: PlannedTrial) -> Question:
    """A prompt of seeded words: the first of them already differ from pair to pair."""
    words = whole_parameter(gate, "words")
    text = haystack.calibration_prompt(trial.seed, words)
    request = ChatRequest(
        (Message("user", text),), whole_parameter(gate, "max_tokens"), thinking=Thinking(trial.thinking)
    )
    return Question(trial.trial_id, request, {"seed": trial.seed, "words": words}, serves=(WARM, COLD))
