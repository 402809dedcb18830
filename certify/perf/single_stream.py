"""Collects one stream: passes over the fixed corpus, until the sequential rule has decided."""

from collections.abc import Callable, Iterator

from certify.cases.corpora import CORPUS_SHA256, PROMPTS, nonce, timed_prompt
from certify.deployment.recorder import Recorder
from certify.perf.load import Question, closed_loop
from certify.plan import PlannedGate, whole_parameter, whole_parameters
from certify.records import ChatRequest, Message, Outcome, Thinking, Verdict

RATE = "PERF-C1-01"
HTTP_OK = 200


def collect_single_stream(recorder: Recorder, so_far: Callable[[], Verdict]) -> None:
    """Warm-up passes, then one pass after the other while `so_far` says NOT_RUN and the plan holds more."""
    gate = recorder.plan.gate(RATE)
    if gate is None:
        return
    warm_up_passes, looks = whole_parameter(gate, "warm_up_passes"), whole_parameters(gate, "looks")
    last = max(trial.trial_id.repeat for trial in gate.trials)
    for turn in range(last + 1):
        recorder.progress(f"one stream: pass {turn} of at most {last}" + (" (warm-up)" * (turn < warm_up_passes)))
        exchanges = closed_loop(recorder, _pass(gate, turn, warm_up=turn < warm_up_passes))
        broken = any(exchange.failure or exchange.status != HTTP_OK for exchange in exchanges)
        if broken or turn - warm_up_passes + 1 in looks:
            verdict = so_far()
            recorder.progress(f"one stream: {verdict.summary}")
            if verdict.outcome is not Outcome.NOT_RUN:
                return


def _pass(gate: PlannedGate, turn: int, *, warm_up: bool) -> Iterator[Question]:
    """The requests of one pass: each prompt of the corpus behind a nonce of its own."""
    prompts = {prompt.name: prompt for prompt in PROMPTS}
    max_tokens = whole_parameter(gate, "max_tokens")
    for trial in gate.trials:
        if trial.trial_id.repeat == turn:
            yield Question(
                trial.trial_id,
                ChatRequest(
                    (Message("user", timed_prompt(prompts[trial.trial_id.case], nonce(trial.seed))),),
                    max_tokens,
                    thinking=Thinking(trial.thinking),
                    ignore_eos=True,
                ),
                {"corpus_sha256": CORPUS_SHA256, "prompt": trial.trial_id.case, "nonce_seed": trial.seed},
                warm_up=warm_up,
            )
