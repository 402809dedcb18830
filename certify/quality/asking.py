"""Asks planned cases of scenarios, several at once where the plan says so."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed

from certify.cases.scenarios import SCENARIOS
from certify.deployment.recorder import Recorder
from certify.plan import PlannedGate, PlannedTrial
from certify.records import Json, Thinking

# Judged over the cases of several scenarios, which the plan names, beside the requirement that a case was planned for.
PAIRED = "QUAL-SPEC-05"
OVER_SEVERAL = ("QUAL-ENV-01", "QUAL-VALUE-01", "QUAL-THINK-02", PAIRED)


def ask_cases(recorder: Recorder, gates: Sequence[PlannedGate]) -> None:
    """Every planned case of these gates that an arm at hand can answer and that was not asked before.

    Cases of different gates take turns, so that a fault of one kind of request meets the others.
    """
    cases = [(gate, trial) for gate in gates for trial in gate.trials if trial.trial_id.arm in recorder.arms]
    cases.sort(key=lambda case: case[1].trial_id.repeat)
    concurrency = max((_integer(gate.parameters.get("concurrency")) or 1 for gate in gates), default=1)
    in_parallel([_asking(recorder, *case) for case in cases], concurrency, recorder)


def in_parallel(tasks: Sequence[Callable[[], None]], concurrency: int, recorder: Recorder) -> None:
    """Run all tasks, at most `concurrency` at once; the first error, or an interruption, ends them all."""
    with ThreadPoolExecutor(concurrency, thread_name_prefix="case") as pool:
        futures = [pool.submit(task) for task in tasks]
        try:
            for done, future in enumerate(as_completed(futures), start=1):
                future.result()
                recorder.progress(f"quality: {done} of {len(tasks)} answers")
        except KeyboardInterrupt:
            for arm in recorder.arms:  # exchanges that run now end as interrupted instead of after their deadlines
                recorder.deployment(arm).close()
            raise
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _asking(recorder: Recorder, gate: PlannedGate, trial: PlannedTrial) -> Callable[[], None]:
    scenario = SCENARIOS[trial.trial_id.case.partition("/")[0]]
    mode = Thinking(trial.thinking)
    caps = _member(gate.parameters.get("max_tokens"), scenario.NAME)
    budget = _integer(gate.parameters.get("thinking_budget_tokens"))
    request = scenario.request(
        scenario.generate(trial.seed),
        thinking=mode,
        stream=trial.stream,
        max_tokens=_integer(_member(caps, str(mode))) or 1024,
        thinking_budget_tokens=budget if mode is Thinking.ON else None,
    )
    recipe: dict[str, Json] = {"scenario": scenario.NAME, "seed": trial.seed, "thinking": str(mode)}

    def ask() -> None:
        recorder.ask(trial.trial_id, request, serves=_serves(recorder, scenario.REQUIREMENT, gate), recipe=recipe)

    return ask


def _serves(recorder: Recorder, requirement: str, gate: PlannedGate) -> tuple[str, ...]:
    """Which gates over several scenarios read a case; of the other arm's cases only the paired counts do."""
    if gate.requirement == PAIRED:
        return ()
    several = ((one, recorder.plan.gate(one)) for one in OVER_SEVERAL)
    return tuple(one for one, planned in several if planned and requirement in _names(planned.parameters.get("over")))


def _names(value: Json) -> list[Json]:
    return value if isinstance(value, list) else []


def _member(value: Json, name: str) -> Json:
    return value.get(name) if isinstance(value, dict) else None


def _integer(value: Json) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
