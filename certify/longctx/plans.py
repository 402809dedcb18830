"""What the needle ladder asks, planned before the first request: its rungs, its questions, its calibration."""

from dataclasses import dataclass

from certify.cases import haystack
from certify.cases.nouns import NOUNS
from certify.plan import Pace, PlanContext, PlannedGate, PlannedTrial
from certify.records import Arm, Capability, Json, Level, Thinking, TrialId

EXACT, NEEDLES = "LCTX-USAGE-01", "LCTX-NEEDLE-01"
MARGIN_TOKENS = 64  # for what a template adds after calibration: nothing, but an off-by-one must not cost a rung
ANSWER_TOKENS = 64
STRATA = 20
UNKNOWN_CONTEXT_RUNG = 8192  # every deployment worth a ladder has this much
RESERVES = haystack.NEEDLES_PER_STRATUM - 1
TINY_REQUESTS = 40
WORTH_A_RUNG = 1.1  # the highest rung of a context is asked where it is so much above the one below
# The last one holds every noun, and tells whether the count stays linear; the demo's is as short as that allows.
CALIBRATION_WORDS, DEMO_CALIBRATION_WORDS = (5, 512, 2000), (5, 512, len(NOUNS) + 5)

# Prefill takes a n + b n^2 seconds. On the published fit of two GB10 with a 284B model (a = 1/2,593 s, b = 7.97e-10 s)
# attention doubles the cost of a token at 484,000 tokens: for the printed cost only.
DOUBLES_AT_TOKENS = 484_000

RUNGS = {
    "demo": (2048, 4096, 8192),
    "smoke": (8192,),
    "gate": (8192, 32_768, 131_072),
    "release": (8192, 32_768, 131_072, 262_144, 524_288, 786_432, 1_010_530),
    "full": (8192, 32_768, 131_072, 262_144, 524_288, 786_432, 1_010_530),
    "soak": (8192, 32_768),
}

EXACT_RULE = (
    "usage.prompt_tokens equals the rung on every question of it; a miss is mended once, at the end of the prompt, and "
    "listed. Template overhead and word list are calibrated by tiny requests"
)
NEEDLE_RULE = (
    "one question a stratum of depth; a miss asks the stratum's reserve keys. FAIL: 2 reserves of a stratum wrong, or "
    "3 misses on a rung, or 5 in all; PASS: at most 1 unconfirmed miss a rung and 2 in all; else INCONCLUSIVE"
)


@dataclass(frozen=True, slots=True)
class Rung:
    """One rung: its length in tokens and its strata, one question each."""

    tokens: int
    strata: int


def plan_gates(context: PlanContext) -> tuple[PlannedGate, ...]:
    """The two gates of the ladder; both carry all of its trials, because either may be asked alone."""
    rungs, uncovered = _rungs(context)
    if not rungs:
        return ()
    trials = tuple(_trials(context, rungs))
    calibration_words = DEMO_CALIBRATION_WORDS if context.profile == "demo" else CALIBRATION_WORDS
    parameters: dict[str, Json] = {
        "rungs": [rung.tokens for rung in rungs],
        "strata": [rung.strata for rung in rungs],
        "answer_tokens": ANSWER_TOKENS,
        "calibration_words": [words for words in calibration_words if words <= rungs[-1].tokens],
        "tiny_requests": TINY_REQUESTS,
        "reserves": 0 if context.profile == "demo" else RESERVES,
        "context_tokens": context.context_tokens,
        "uncovered": {str(tokens): reason for tokens, reason in uncovered.items()},
    }
    cost = round(sum(_seconds(rung, context.pace) for rung in rungs))
    gates = (
        PlannedGate(EXACT, context.level(EXACT), EXACT_RULE, cost, trials, parameters),
        PlannedGate(NEEDLES, context.level(NEEDLES), NEEDLE_RULE, 0, trials, parameters),
    )
    return tuple(gate for gate in gates if gate.level is not Level.ABSENT)


def _seconds(rung: Rung, pace: Pace) -> float:
    cold = rung.tokens * (1 + rung.tokens / DOUBLES_AT_TOKENS) / pace.prefill_tok_s
    return cold + rung.strata * pace.seconds(0, ANSWER_TOKENS // 2)


def _rungs(context: PlanContext) -> tuple[list[Rung], dict[int, str]]:
    """The rungs that fit, the highest shortened to what the context allows; and those that do not fit."""
    wanted = RUNGS[context.profile]
    uncovered: dict[int, str] = {}
    if context.context_tokens is None:
        for tokens in (one for one in wanted if one > UNKNOWN_CONTEXT_RUNG):
            uncovered[tokens] = "the length of the context is neither told nor declared (max_context)"
        return [_rung(context, tokens, at) for at, tokens in enumerate(wanted) if tokens not in uncovered], uncovered
    most = context.context_tokens - ANSWER_TOKENS - MARGIN_TOKENS
    rungs = [_rung(context, tokens, at) for at, tokens in enumerate(wanted) if tokens <= most]
    for tokens in (one for one in wanted if one > most):
        uncovered[tokens] = f"beyond the context of {context.context_tokens} tokens less answer and margin"
    below = max((one.tokens for one in rungs), default=0)
    if uncovered and most > below * WORTH_A_RUNG:
        highest = _rung(context, most, len(rungs))
        if most >= haystack.shortest(highest.strata):
            rungs.append(highest)
    return rungs, uncovered


def _rung(context: PlanContext, tokens: int, place: int) -> Rung:
    if context.profile == "demo":  # the highest one costs most of the demo
        return Rung(tokens, 2 if place == len(RUNGS["demo"]) - 1 else 4)
    return Rung(tokens, 4 if context.profile == "smoke" else STRATA)


def _trials(context: PlanContext, rungs: list[Rung]) -> list[PlannedTrial]:
    """Calibration, then each rung's questions (0 is the cold one), its mended cold question, and its reserves."""
    thinking = str(Thinking.UNSAID if context.declared.get(Capability.THINKING) is False else Thinking.OFF)

    def planned(case: str, repeat: int, *, stream: bool = True) -> PlannedTrial:
        seed = context.case_seed(EXACT, case.partition("/")[0], 0)
        return PlannedTrial(TrialId(EXACT, case, Arm.SERVED, repeat), seed, stream, thinking)

    trials = [planned("calibration", repeat, stream=False) for repeat in range(TINY_REQUESTS)]
    for rung in rungs:
        case = f"rung-{rung.tokens}"
        trials += [planned(case, question) for question in range(rung.strata)]
        trials.append(planned(f"{case}/mended", 0))
        if context.profile != "demo":
            trials += [planned(f"{case}/reserve", question) for question in range(rung.strata * RESERVES)]
    return trials
