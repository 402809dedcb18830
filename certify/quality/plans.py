"""What the quality and speculation gates ask, planned before the first request."""

from dataclasses import dataclass, replace

from certify.cases import scenarios
from certify.plan import PlanContext, PlannedGate, PlannedTrial
from certify.records import Arm, Json, Level, Thinking, TrialId

# Which scenario a requirement scores, in the registry's order: a new scenario is one new module.
SCENARIOS = {scenario.REQUIREMENT: scenario.NAME for scenario in scenarios.SCENARIOS.values()}
CONSTRAINED = tuple(scenario.REQUIREMENT for scenario in scenarios.SCENARIOS.values() if scenario.CONSTRAINED)
# The demo does not grow with the scenarios.
_DEMO = ("QUAL-JSON-01", "QUAL-SCHEMA-02", "QUAL-TOOL-05")

# Judged over the exchanges of the scenarios: they ask nothing themselves.
OVER_ALL = {
    "QUAL-ENV-01": "zero of what no healthy deployment does; of rare faults 1 or 2 settle nothing and 3 fail",
    "QUAL-VALUE-01": "stratified: PASS when m - 2.07 SE reaches the floor, FAIL when m + 3.3 SE stays below it",
    "QUAL-THINK-02": "on minus off, paired by case, with Newcombe's 95 % interval; reported",
}

# Profiles in which an arm that was not given makes speculation INCONCLUSIVE instead of absent.
_ARM_IS_EXPECTED = ("release", "full", "soak")
COPY_TOKENS = 128  # of twelve copied lines about two thirds: enough steps to draft in
_PROMPT_TOKENS = 300  # of a question, about


@dataclass(frozen=True, slots=True)
class Size:
    """How much a profile asks: cases for each scenario and thinking mode, answer caps in tokens, streams at once.

    `asked` are the requirements whose scenarios are asked, `copies` the texts to copy in each arm, `off_arm` the
    requirements whose cases the other arm is asked too, `envelope` those whose answers must keep the envelope.
    Answers under a schema have a cap and a number of cases of their own.
    """

    cases: int
    schema_cases: int
    modes: tuple[Thinking, ...]
    answer_tokens: int
    schema_tokens: int
    thinking_tokens: int
    concurrency: int
    copies: int
    off_arm: tuple[str, ...]
    envelope: tuple[str, ...]
    asked: tuple[str, ...]

    def cases_of(self, requirement: str) -> int:
        """The cases of a scenario in each thinking mode."""
        return self.schema_cases if requirement in CONSTRAINED else self.cases


_BOTH = (Thinking.ON, Thinking.OFF)
_ALL = tuple(SCENARIOS)
_SCHEMA = ("QUAL-SCHEMA-02",)
_SIZES = {
    # A model of 135M parameters writes prose until its cap where nothing constrains it, and after a thinking budget it
    # repeats the closing tag by itself: there the envelope is asked of constrained answers. It also fills strings up
    # to their bounds: with 200 tokens one of eight answers under the schema was cut.
    "demo": Size(1, 2, _BOTH, 200, 360, 32, 1, 1, _SCHEMA, _SCHEMA, _DEMO),
    "smoke": Size(1, 1, (Thinking.OFF,), 1024, 1024, 1024, 1, 2, (), _ALL, _ALL),
    "gate": Size(5, 5, _BOTH, 1024, 1024, 1024, 8, 4, _ALL, _ALL, _ALL),
    "release": Size(10, 10, _BOTH, 1024, 1024, 7168, 8, 6, _ALL, _ALL, _ALL),
    "full": Size(40, 40, _BOTH, 1024, 1024, 7168, 8, 6, _ALL, _ALL, _ALL),
    "soak": Size(10, 10, _BOTH, 1024, 1024, 1024, 8, 4, (), _ALL, _ALL),
}


def plan_gates(context: PlanContext) -> tuple[PlannedGate, ...]:
    """The quality and speculation gates that the profile asks for, in the registry's order."""
    size = _size(context)
    gates = (
        _over_all(context, "QUAL-ENV-01", size.envelope),
        *(_scenario_gate(context, requirement, size) for requirement in size.asked),
        _over_all(context, "QUAL-VALUE-01", size.asked),
        _over_all(context, "QUAL-THINK-02", size.asked),
        *_speculation(context, size),
    )
    return tuple(gate for gate in gates if gate.level is not Level.ABSENT)


def _size(context: PlanContext) -> Size:
    """The profile's size, within the context, the declared sequences, and half of the budget."""
    size = _SIZES[context.profile]
    if context.max_sequences:
        size = replace(size, concurrency=max(1, min(size.concurrency, context.max_sequences)))
    if context.context_tokens:  # half of the window is left to the prompt
        quarter = context.context_tokens // 4
        size = replace(
            size,
            answer_tokens=min(size.answer_tokens, quarter),
            schema_tokens=min(size.schema_tokens, quarter),
            thinking_tokens=min(size.thinking_tokens, quarter),
        )
    while context.budget_s and size.cases > 1 and 2 * len(size.asked) * _expected_s(context, size) > context.budget_s:
        size = replace(size, cases=size.cases - 1, schema_cases=max(1, size.schema_cases - 1))
    return size


def _expected_s(context: PlanContext, size: Size, requirement: str = "") -> int:
    """About how long a scenario takes: half of the answer's cap, streams side by side costing half of their sum."""
    each = sum(context.pace.seconds(_PROMPT_TOKENS, _max_tokens(size, mode, requirement) / 2) for mode in size.modes)
    return round(each * size.cases_of(requirement) / (1 + (size.concurrency - 1) / 2))


def _max_tokens(size: Size, mode: Thinking, requirement: str = "") -> int:
    answer = size.schema_tokens if requirement in CONSTRAINED else size.answer_tokens
    return answer + (size.thinking_tokens if mode is Thinking.ON else 0)


def _parameters(size: Size) -> dict[str, Json]:
    return {
        "concurrency": size.concurrency,
        "max_tokens": {
            scenario: {str(mode): _max_tokens(size, mode, requirement) for mode in _BOTH}
            for requirement, scenario in SCENARIOS.items()
        },
        "thinking_budget_tokens": size.thinking_tokens,
    }


def _trials(context: PlanContext, requirement: str, owner: str, arm: Arm, size: Size) -> tuple[PlannedTrial, ...]:
    """The cases of a scenario, thinking on and off and both arms alike; every second one is streamed."""
    scenario = SCENARIOS[requirement]
    return tuple(
        PlannedTrial(
            TrialId(owner, f"{scenario}/{mode}", arm, repeat),
            context.case_seed(requirement, scenario, repeat),
            stream=repeat % 2 == 0,
            thinking=str(mode),
        )
        for repeat in range(size.cases_of(requirement))
        for mode in size.modes
    )


def _scenario_gate(context: PlanContext, requirement: str, size: Size) -> PlannedGate:
    rule = (
        "every answer obeys the schema, or the request is refused"
        if requirement in CONSTRAINED
        else "PASS when m - 2.07 SE reaches the floor, FAIL when m + 3.3 SE stays below it"
    )
    return PlannedGate(
        requirement,
        context.level(requirement),
        rule,
        _expected_s(context, size, requirement),
        _trials(context, requirement, requirement, Arm.SERVED, size),
        _parameters(size),
    )


def _over_all(context: PlanContext, requirement: str, over: tuple[str, ...]) -> PlannedGate:
    return PlannedGate(requirement, context.level(requirement), OVER_ALL[requirement], 0, (), {"over": list(over)})


def _speculation(context: PlanContext, size: Size) -> tuple[PlannedGate, ...]:
    if not (context.has_spec_off or context.profile in _ARM_IS_EXPECTED):
        return ()
    arms = (Arm.SERVED, Arm.SPEC_OFF) if context.has_spec_off else (Arm.SERVED,)
    copies = tuple(
        PlannedTrial(
            TrialId("QUAL-SPEC-01", "copying", arm, repeat),
            context.case_seed("QUAL-SPEC-01", "copying", repeat),
            stream=True,
            thinking=str(Thinking.OFF),
        )
        for arm in arms
        for repeat in range(size.copies)
    )
    paired = tuple(
        trial
        for requirement in (size.off_arm if context.has_spec_off else ())
        for trial in _trials(context, requirement, "QUAL-SPEC-05", Arm.SPEC_OFF, size)
        if trial.trial_id.repeat < size.cases
    )
    return (
        PlannedGate(
            "QUAL-SPEC-01",
            context.level("QUAL-SPEC-01"),
            "tokens are drafted in the served arm and none in the other, by counters and by the answers' own figures",
            round(len(copies) * context.pace.seconds(_PROMPT_TOKENS, COPY_TOKENS)),
            copies,
            {"max_tokens": COPY_TOKENS},
        ),
        PlannedGate(
            "QUAL-SPEC-05",
            context.level("QUAL-SPEC-05"),
            "counts of paired cases, with the exact McNemar probability; reported, no threshold",
            sum(_expected_s(context, size, one) for one in size.off_arm) if paired and Arm.SPEC_OFF in arms else 0,
            paired,
            _parameters(size) | {"over": list(size.off_arm)},
        ),
    )
