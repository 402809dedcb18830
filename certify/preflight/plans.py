"""What the preflight gates ask, planned before the first request."""

from certify.plan import PlanContext, PlannedGate, PlannedTrial
from certify.records import Arm, Json, Level, Thinking, TrialId

# The emitter's schedule: 150 chunks 8 ms apart make a decode window of 1.2 s; a ruler that errs by 0.1 % errs by
# 1.2 ms there, far above the clocks' resolution. Three tokens a chunk is what speculative decoding sends.
RULER_CHUNKS = 150
RULER_ITL_NS = 8_000_000
RULER_TOKENS_PER_CHUNK = (1, 3)

TINY_TOKENS = 32
# Enough to see that thinking begins, and what follows a short thought; the answer itself is not scored.
THINKING_TOKENS, THINKING_BUDGET_TOKENS = 96, 32

# Contract and switch are asked twice where minutes allow: one answer in two may hide a coin toss.
_REPEATS = {"demo": 1, "smoke": 1}
_RULER_REPEATS = {"demo": 2, "smoke": 2}


def plan_gates(context: PlanContext) -> tuple[PlannedGate, ...]:
    """The preflight gates that the profile asks for, in the registry's order."""
    repeats = _REPEATS.get(context.profile, 2)
    gates = (
        _gate(
            context,
            "PRE-CONTRACT-01",
            rule="every answer obeys every law; the streamed and the whole answer count the same prompt alike",
            expected_s=4 * repeats,
            cases=("stream", "whole"),
            repeats=repeats,
            thinking=Thinking.OFF,
            parameters={"max_tokens": TINY_TOKENS},
        ),
        _gate(context, "PRE-CONTRACT-02", rule="no exchange of the run breaks a law", expected_s=0),
        _gate(context, "PRE-IDENT-01", rule="nothing that tells who answers changes", expected_s=1),
        _gate(
            context,
            "PRE-RULER-01",
            rule="the worst error over all emitted streams stays within the ceilings",
            expected_s=2 * 2 * _RULER_REPEATS.get(context.profile, 4) + 2,
            cases=tuple(f"tokens-per-chunk-{tokens}" for tokens in RULER_TOKENS_PER_CHUNK),
            repeats=_RULER_REPEATS.get(context.profile, 4),
            parameters={
                "chunks": RULER_CHUNKS,
                "itl_ns": RULER_ITL_NS,
                "tokens_per_chunk": list(RULER_TOKENS_PER_CHUNK),
            },
        ),
        _gate(
            context,
            "PRE-THINK-01",
            rule="thinking is seen with the switch on and not with it off, in every repeat",
            expected_s=6 * repeats,
            cases=tuple(Thinking),
            repeats=repeats,
            parameters={"max_tokens": THINKING_TOKENS, "thinking_budget_tokens": THINKING_BUDGET_TOKENS},
        ),
    )
    return tuple(gate for gate in gates if gate.level is not Level.ABSENT)


def _gate(
    context: PlanContext,
    requirement: str,
    *,
    rule: str,
    expected_s: int,
    cases: tuple[str, ...] = (),
    repeats: int = 0,
    thinking: Thinking = Thinking.UNSAID,
    parameters: dict[str, Json] | None = None,
) -> PlannedGate:
    trials = tuple(
        PlannedTrial(
            TrialId(requirement, str(case), Arm.SERVED, repeat),
            # One seed for all cases of a repeat: they ask the same thing in different ways.
            context.case_seed(requirement, "prompt", repeat),
            stream=case != "whole",
            thinking=str(case) if case in tuple(Thinking) else str(thinking),
        )
        for repeat in range(repeats)
        for case in cases
    )
    return PlannedGate(requirement, context.level(requirement), rule, expected_s, trials, parameters or {})
