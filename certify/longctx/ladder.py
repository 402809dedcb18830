"""Climbs the needle ladder: calibrates the word list by tiny requests, then asks every rung exact at the first shot."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from certify.cases import haystack
from certify.cases.haystack import NeedleScore
from certify.cases.nouns import NOUNS
from certify.deployment.client import Deployment
from certify.deployment.recorder import Recorder
from certify.plan import PlannedGate, PlannedTrial, whole_parameter, whole_parameters
from certify.records import Arm, ChatRequest, Exchange, Json, Message, Thinking, TrialId
from certify.stats import prefill_fit
from certify.wire.answer import read_answer
from certify.wire.timing import first_output_ns

EXACT, NEEDLES = "LCTX-USAGE-01", "LCTX-NEEDLE-01"
NS_PER_S = 1_000_000_000
PATIENCE = 3  # the fit from smaller rungs was off by up to 6 % on two GB10, a cold first touch by up to 60 %
FRAME_WORDS = 5  # what opens and closes a calibration prompt
ENOUGH_NOUNS = 256  # a haystack of fewer repeats itself too much; the search for good words stops here
FEWEST_NOUNS = 100
MOST_OVERHEAD = 4096  # tokens of a chat template; a server that says more does not count what it was sent
MOST_MENDED = 64  # words that a rung is mended by; more is no rounding of a template but another tokenizer


@dataclass(frozen=True, slots=True)
class Calibration:
    """What the template adds to a prompt's words, and the words that the server's tokenizer splits."""

    overhead: int
    dropped: tuple[str, ...]


def climb(recorder: Recorder) -> None:
    """Ask the whole ladder and record it; what the evidence already holds is not asked again.

    A rung whose cold question brings no usage ends the climb: what is higher would only cost time.
    """
    gate = recorder.plan.gate(EXACT) or recorder.plan.gate(NEEDLES)
    if gate is None:
        return
    ladder = _Ladder(recorder, gate)
    calibration = ladder.calibrate()
    if calibration is None:
        return
    for tokens, strata in zip(whole_parameters(gate, "rungs"), whole_parameters(gate, "strata"), strict=True):
        if not ladder.ask_rung(calibration, tokens, strata):
            return


@dataclass(frozen=True, slots=True)
class _Rung:
    """The haystack of one rung; `pad` are the words by which it was mended."""

    case: str
    seed: str
    words: int
    strata: int
    dropped: tuple[str, ...]
    pad: int = 0

    def found(self, question: int, exchange: Exchange) -> bool:
        """Whether the answer to a question is its code."""
        expected = haystack.expected_answer(self.seed, self.words, self.strata, question, self.dropped)
        return haystack.score_needle(expected, read_answer(exchange).content) is NeedleScore.RIGHT


class _Ladder:
    """One climb: its requests, and the times of its cold questions."""

    def __init__(self, recorder: Recorder, gate: PlannedGate) -> None:
        self._recorder = recorder
        self._gate = gate
        self._trials: dict[TrialId, PlannedTrial] = {trial.trial_id: trial for trial in gate.trials}
        self._colds: list[tuple[float, float]] = []
        self._tiny = 0
        self._thinking = Thinking(gate.trials[0].thinking)

    def calibrate(self) -> Calibration | None:
        """Template overhead and split words; None when usage does not follow the words of tiny prompts."""
        sizes = whole_parameters(self._gate, "calibration_words")
        seed = self._trials[TrialId(EXACT, "calibration", Arm.SERVED, 0)].seed
        counts = [self._count(haystack.calibration_prompt(seed, words), {"words": words}) for words in sizes]
        known = [count for count in counts if count is not None]
        if len(known) < len(sizes):
            return None
        overhead = known[0] - sizes[0]
        if not 0 <= overhead <= MOST_OVERHEAD:
            return None
        if all(count == words + overhead for count, words in zip(known, sizes, strict=True)):
            return Calibration(overhead, ())
        self._recorder.progress("ladder: the tokenizer splits some words; searching for those that it keeps whole")
        good = self._good_words(overhead)
        if len(good) < FEWEST_NOUNS:
            return None
        return Calibration(overhead, tuple(noun for noun in NOUNS if noun not in good))

    def _good_words(self, overhead: int) -> set[str]:
        """Nouns of one token each, by group testing: a group is good when its count has no excess."""
        good: set[str] = set()
        groups: list[Sequence[str]] = [NOUNS]
        while groups and len(good) < ENOUGH_NOUNS and self._tiny < whole_parameter(self._gate, "tiny_requests"):
            group = groups.pop()
            count = self._count(haystack.words_prompt(group), {"group": list(group)})
            if count == overhead + len(group) + FRAME_WORDS:
                good.update(group)
            elif len(group) > 1:
                groups += [group[len(group) // 2 :], group[: len(group) // 2]]
        return good

    def _count(self, text: str, recipe: Mapping[str, Json]) -> int | None:
        """The prompt tokens of a tiny request."""
        place = TrialId(EXACT, "calibration", Arm.SERVED, self._tiny)
        self._tiny += 1
        exchange = self._ask(place, text, 1, recipe, stream=False)
        usage = read_answer(exchange).usage
        return usage.prompt_tokens if usage else None

    def ask_rung(self, calibration: Calibration, tokens: int, strata: int) -> bool:
        """All questions of a rung, cold first; whether its cold question was answered with a usage."""
        words = tokens - calibration.overhead
        if words < haystack.shortest(strata):
            return False
        case = f"rung-{tokens}"
        seed = self._trials[TrialId(EXACT, case, Arm.SERVED, 0)].seed
        asking = _Rung(case, seed, words, strata, calibration.dropped)
        with patient(self._recorder.deployment(), self._announce(tokens, strata)):
            return self._ask_haystack(asking, tokens)

    def _ask_haystack(self, asking: "_Rung", tokens: int) -> bool:
        case, strata = asking.case, asking.strata
        cold = self._question(asking, case, 0, 0)
        usage = read_answer(cold).usage
        if usage is None:
            return False
        if 0 < abs(tokens - usage.prompt_tokens) <= MOST_MENDED:
            asking = replace(asking, pad=tokens - usage.prompt_tokens)
            self._question(asking, f"{case}/mended", 0, 0)
        self._learn(tokens, cold)
        answers = [cold, *(self._question(asking, case, question, question) for question in range(1, strata))]
        reserves = whole_parameter(self._gate, "reserves")
        for stratum in (one for one, exchange in enumerate(answers) if not asking.found(one, exchange)):
            for reserve in range(reserves):
                question = (reserve + 1) * strata + stratum
                self._question(asking, f"{case}/reserve", stratum * reserves + reserve, question)
        return True

    def _question(self, rung: "_Rung", case: str, repeat: int, question: int) -> Exchange:
        place = TrialId(EXACT, case, Arm.SERVED, repeat)
        recipe: dict[str, Json] = {
            "words": rung.words,
            "strata": rung.strata,
            "question": question,
            "pad": rung.pad,
            "dropped": list(rung.dropped),
        }
        text = haystack.padded(haystack.build(rung.seed, rung.words, rung.strata, question, rung.dropped), rung.pad)
        return self._ask(place, text, whole_parameter(self._gate, "answer_tokens"), recipe, stream=True)

    def _ask(self, place: TrialId, text: str, max_tokens: int, recipe: Mapping[str, Json], *, stream: bool) -> Exchange:
        request = ChatRequest((Message("user", text),), max_tokens, stream=stream, thinking=self._thinking)
        return self._recorder.ask(place, request, serves=(EXACT, NEEDLES), recipe=recipe)

    def _announce(self, tokens: int, strata: int) -> float:
        """Say what comes; the seconds that its cold prefill should take, 0 where nothing is known yet."""
        expected_s, said = 0.0, ""
        if self._colds:
            a, b = prefill_fit(self._colds)
            expected_s = a * tokens + b * tokens * tokens
            said = f"; its cold prefill should take {expected_s:.0f} s"
        self._recorder.progress(f"ladder: rung {tokens:,} tokens, {strata} questions{said}")
        return expected_s

    def _learn(self, tokens: int, exchange: Exchange) -> None:
        """Take a cold question's time to first output into the fit."""
        first_ns = first_output_ns(exchange, read_answer(exchange))
        if first_ns:
            self._colds.append((tokens, first_ns / NS_PER_S))


@contextmanager
def patient(deployment: Deployment, expected_s: float) -> Iterator[None]:
    """Deadlines for a prefill of so many seconds: three times that, never less than the usual ones."""
    usual = deployment.deadlines
    first_token_s = max(usual.first_token_s, PATIENCE * expected_s)
    exchange_s = max(usual.exchange_s, first_token_s + usual.silence_s)
    deployment.deadlines = replace(usual, first_token_s=first_token_s, exchange_s=exchange_s)
    try:
        yield
    finally:
        deployment.deadlines = usual
