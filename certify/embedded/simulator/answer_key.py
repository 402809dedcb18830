"""The simulator's answer key: a run hands over its seed out of band, and the truth of its cases is computed again."""

import json
from collections.abc import Iterator

from certify.cases.scenarios import SCENARIOS
from certify.cases.scoring import Scenario
from certify.embedded.simulator.asking import RefusedError
from certify.embedded.simulator.mind import Call, Key
from certify.plan import case_seed
from certify.records import Json, Thinking

REPEATS = 200  # more cases of one scenario than any profile plans
MOST_CASES = 100_000
_LONGEST_SEED = 4096


def read_keys(raw: bytes) -> dict[str, Key]:
    """The answers by the text of their question.

    The body is {"seed": …, "challenge": …}, the run's own, for the cases of every scenario; or {"cases": [[scenario,
    case seed], …]} for single ones.

    Raises:
        RefusedError: it is neither, or names an unknown scenario.
    """
    try:
        body = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise RefusedError(f"the body is not JSON: {error}") from error
    match body:
        case {"seed": str(seed), "challenge": str(challenge)} if len(seed) + len(challenge) <= _LONGEST_SEED:
            return dict(_of_run(seed, challenge))
        case {"cases": list(cases)} if len(cases) <= MOST_CASES:
            return dict(_of_case(case) for case in cases)
        case _:
            raise RefusedError("expected an object with seed and challenge, or with a list of cases", param="seed")


def _of_run(seed: str, challenge: str) -> Iterator[tuple[str, Key]]:
    for name, scenario in SCENARIOS.items():
        for repeat in range(REPEATS):
            yield _key(scenario, case_seed(seed, challenge, scenario.REQUIREMENT, name, repeat))


def _of_case(case: Json) -> tuple[str, Key]:
    match case:
        case [str(name), str(seed)] if name in SCENARIOS and len(seed) <= _LONGEST_SEED:
            return _key(SCENARIOS[name], seed)
        case _:
            raise RefusedError(f"{str(case)[:80]} is no pair of a scenario ({', '.join(SCENARIOS)}) and a seed")


def _key(scenario: Scenario, seed: str) -> tuple[str, Key]:
    case = scenario.generate(seed)
    request = scenario.request(case, thinking=Thinking.OFF, stream=False, max_tokens=1, thinking_budget_tokens=None)
    question = request.messages[-1].content
    if request.tools:
        wanted = case.truth if isinstance(case.truth, list) else [case.truth]
        return question, Key(calls=tuple(_call(one) for one in wanted))
    return question, Key(content=json.dumps(case.truth, ensure_ascii=False), bare=not scenario.CONSTRAINED)


def _call(wanted: Json) -> Call:
    match wanted:
        case {"name": str(name), "arguments": dict(arguments)}:
            return Call(name, json.dumps(arguments, ensure_ascii=False))
        case _:
            raise TypeError("the truth of a case with tools is an object with name and arguments, or several")
