"""Collects the prefix cache: prompts behind a fresh nonce, and the same bytes again, with the counters in between."""

from statistics import median

from certify.cases import haystack
from certify.deployment.recorder import Recorder
from certify.perf.load import Question, closed_loop
from certify.plan import PlannedGate, PlannedTrial, whole_parameter, whole_parameters
from certify.records import ChatRequest, Json, Message, Thinking
from certify.wire.answer import read_answer
from certify.wire.timing import first_output_ns

WARM, COLD = "PERF-CACHE-01", "PERF-CACHE-02"
SAMPLE = "prefix-cache"  # the judge reads the counters by this name
HTTP_OK = 200
TELLING_RATIO = 4  # cold over a prompt of a few words: below it a full hit may not show in the time
STAGGER_WORDS = 7  # each pair is a little shorter, so that hits at the edge of a granule do not all look alike


def collect_pairs(recorder: Recorder) -> None:
    """Finds a length that time can tell, then asks each cold prompt and its repeats, one at a time.

    Counters are recorded before and after each, where the engine has any.
    """
    gate = recorder.plan.gate(WARM) or recorder.plan.gate(COLD)
    if gate is None:
        return
    by_case: dict[str, list[PlannedTrial]] = {}
    for trial in gate.trials:
        by_case.setdefault(trial.trial_id.case, []).append(trial)
    base_words = whole_parameter(gate, "base_words")
    base = [_ask(recorder, gate, trial, base_words) for trial in by_case.pop("base")]
    words = _telling_words(recorder, gate, by_case.pop("size"), median([ns for ns in base if ns] or [0]))
    counting = recorder.sample(SAMPLE).status == HTTP_OK
    for place, (case, trials) in enumerate(by_case.items()):
        recorder.progress(
            f"prefix cache: {case} of {len(by_case)}, about {words} tokens, cold and {len(trials) - 1} times again"
        )
        for trial in trials:
            _ask(recorder, gate, trial, words - place * STAGGER_WORDS)
            if counting:
                recorder.sample(SAMPLE)


def _telling_words(recorder: Recorder, gate: PlannedGate, trials: list[PlannedTrial], base_ns: float) -> int:
    """The first of the planned lengths whose cold prompt takes several times as long as one of a few words."""
    sizes = whole_parameters(gate, "words")
    for words, trial in zip(sizes, trials, strict=True):
        cold_ns = _ask(recorder, gate, trial, words)
        if cold_ns and cold_ns >= TELLING_RATIO * base_ns:
            return words
    return sizes[-1]


def _ask(recorder: Recorder, gate: PlannedGate, trial: PlannedTrial, words: int) -> int | None:
    """Ask a prompt of seeded words, the first of which already differ from seed to seed; its time to first token."""
    text = haystack.calibration_prompt(trial.seed, words)
    request = ChatRequest(
        (Message("user", text),), whole_parameter(gate, "max_tokens"), thinking=Thinking(trial.thinking)
    )
    warm_up = not trial.trial_id.case.startswith("pair-")
    recipe: dict[str, Json] = {"seed": trial.seed, "words": words}
    question = Question(trial.trial_id, request, recipe, serves=(WARM, COLD), warm_up=warm_up)
    (exchange,) = closed_loop(recorder, [question])
    return first_output_ns(exchange, read_answer(exchange))
