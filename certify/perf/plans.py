"""What the performance gates ask, planned before the first request: prompts, passes, pairs, and what ends them."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain, zip_longest

from certify.cases.corpora import CORPUS_SHA256, PROMPTS, Prompt
from certify.plan import Pace, PlanContext, PlannedGate, PlannedTrial
from certify.records import Arm, Capability, Json, Level, Thinking, TrialId
from certify.stats import LOOKS

RATE, WARM, COLD = "PERF-C1-01", "PERF-CACHE-01", "PERF-CACHE-02"
WARM_UP_PASSES = 1
PROMPT_TOKENS = 180  # of a corpus prompt with its nonce, about
CACHE_ANSWER_TOKENS = 8
BUDGET_SHARE = 3  # one stream takes at most a third of --budget


@dataclass(frozen=True, slots=True)
class Stream:
    """How one stream is measured: prompts a pass, tokens an answer, and after how many passes the rule looks."""

    prompts: int
    max_tokens: int
    looks: tuple[int, ...] = LOOKS

    def seconds(self, passes: int, pace: Pace) -> int:
        """About how long so many passes and the warm-up take."""
        return round((passes + WARM_UP_PASSES) * self.prompts * pace.seconds(PROMPT_TOKENS, self.max_tokens))


@dataclass(frozen=True, slots=True)
class Pairs:
    """How the prefix cache is measured: pairs of a cold prompt and its repeat, and the prompt's length in words."""

    pairs: int
    words: int


STREAMS = {
    "demo": Stream(3, 64, LOOKS[:2]),  # the floor is a tenth of what two cores do: ten passes settle it or never
    "smoke": Stream(4, 128, LOOKS[:1]),
    "gate": Stream(12, 512),
    "release": Stream(12, 512),
    "full": Stream(12, 512),
    "soak": Stream(4, 256),
}
PAIRS = {"demo": Pairs(4, 300), "gate": Pairs(5, 4200), "release": Pairs(5, 8400), "full": Pairs(5, 8400)}
SHORT_PAIRS = Pairs(5, 4200)
BASE_REQUESTS = 3  # of a few words: what a time to first token costs beside prefill
SIZES = (1, 4, 16)  # a fast prefill needs a longer prompt before time can tell: times the profile's words
BASE_WORDS = 16
FURTHER_REPEATS = 2  # of the first pair: engines are known whose first repeat misses, or whose third changes


def plan_gates(context: PlanContext) -> tuple[PlannedGate, ...]:
    """The performance gates that the profile asks for, in the registry's order."""
    gates = (_single_stream(context), *_prefix_cache(context))
    return tuple(gate for gate in gates if gate.level is not Level.ABSENT)


def prompts_of(count: int) -> tuple[Prompt, ...]:
    """The first prompts of the corpus, its strata in turn."""
    strata: dict[str, list[Prompt]] = {}
    for prompt in PROMPTS:
        strata.setdefault(prompt.stratum, []).append(prompt)
    in_turn = chain.from_iterable(zip_longest(*strata.values()))
    return tuple(prompt for prompt in in_turn if prompt is not None)[:count]


def _thinking(context: PlanContext) -> str:
    return str(Thinking.UNSAID if context.declared.get(Capability.THINKING) is False else Thinking.OFF)


def _single_stream(context: PlanContext) -> PlannedGate:
    stream = _stream(context)
    prompts = prompts_of(stream.prompts)
    parameters: dict[str, Json] = {
        "corpus_sha256": CORPUS_SHA256,
        "prompts": len(prompts),
        "max_tokens": stream.max_tokens,
        "warm_up_passes": WARM_UP_PASSES,
        "looks": list(stream.looks),
    }
    trials = tuple(
        PlannedTrial(
            TrialId(RATE, prompt.name, Arm.SERVED, turn),
            context.case_seed(RATE, prompt.name, turn),
            stream=True,
            thinking=_thinking(context),
        )
        for turn in range(WARM_UP_PASSES + stream.looks[-1])
        for prompt in prompts
    )
    rule = f"sequential: looks after {', '.join(map(str, stream.looks))} passes over {len(prompts)} prompts"
    return PlannedGate(
        RATE, context.level(RATE), rule, stream.seconds(stream.looks[0], context.pace), trials, parameters
    )


def _stream(context: PlanContext) -> Stream:
    """The profile's stream, within the context and the budget."""
    stream = STREAMS[context.profile]
    if context.context_tokens:  # half of the window is left to the prompt
        stream = replace(stream, max_tokens=max(1, min(stream.max_tokens, context.context_tokens // 2)))
    while context.budget_s and BUDGET_SHARE * stream.seconds(stream.looks[-1], context.pace) > context.budget_s:
        if len(stream.looks) > 1:
            stream = replace(stream, looks=stream.looks[:-1])
        elif stream.max_tokens > STREAMS["demo"].max_tokens:
            stream = replace(stream, max_tokens=max(stream.max_tokens // 2, STREAMS["demo"].max_tokens))
        else:
            break
    return stream


def _prefix_cache(context: PlanContext) -> tuple[PlannedGate, PlannedGate]:
    """Both gates carry the same trials: they ask once, and either may be asked alone."""
    size = PAIRS.get(context.profile, SHORT_PAIRS)
    if context.context_tokens:
        size = replace(size, words=max(32, min(size.words, context.context_tokens * 3 // 4)))
    most = context.context_tokens * 3 // 4 if context.context_tokens else size.words
    sizes = sorted({min(size.words * factor, most) for factor in SIZES})
    trials = tuple(_pair_trials(context, size, len(sizes)))
    parameters: dict[str, Json] = {
        "base_words": BASE_WORDS,
        "words": list(sizes),
        "max_tokens": CACHE_ANSWER_TOKENS,
        "pairs": size.pairs,
    }
    pairs = size.pairs * context.pace.seconds(size.words, 2 * CACHE_ANSWER_TOKENS)
    cost = round(pairs + len(trials) * context.pace.seconds(BASE_WORDS, CACHE_ANSWER_TOKENS))
    warm = "every repeat hits by usage or counters, and its time to first token agrees; timing alone never passes"
    cold = "no prompt behind a fresh nonce finds more cached than the template's preamble"
    return (
        PlannedGate(WARM, context.level(WARM), warm, cost, trials, parameters),
        PlannedGate(COLD, context.level(COLD), cold, 0, trials, parameters),
    )


def _pair_trials(context: PlanContext, size: Pairs, sizes: int) -> Iterator[PlannedTrial]:
    """Prompts of a few words, one cold prompt a size, then the pairs: each cold prompt (repeat 0) and its repeats."""

    def planned(case: str, repeat: int, seed_repeat: int) -> PlannedTrial:
        place = TrialId(WARM, case, Arm.SERVED, repeat)
        return PlannedTrial(place, context.case_seed(WARM, case, seed_repeat), stream=True, thinking=_thinking(context))

    yield from (planned("base", repeat, repeat) for repeat in range(BASE_REQUESTS))
    yield from (planned("size", repeat, repeat) for repeat in range(sizes))
    for pair in range(1, size.pairs + 1):
        for repeat in range(2 + (FURTHER_REPEATS if pair == 1 else 0)):
            yield planned(f"pair-{pair}", repeat, 0)
