"""The simulator's answer key: a run names its cases and seeds out of band, and their truth is computed here again."""

import json
from types import ModuleType

from certify.embedded.simulator.asking import RefusedError
from certify.embedded.simulator.mind import Call, Key
from certify.records import Thinking

MOST_CASES = 100_000
_SEED_CHARACTERS = 256


def scenarios() -> dict[str, ModuleType]:
    """The scenario modules by name."""
    return {}


def read_keys(raw: bytes) -> dict[str, Key]:
    """The answers of the named cases by the text of their question.

    Raises:
        RefusedError: the body is not {"cases": [[scenario, seed], …]}, or names an unknown scenario.
    """
    try:
        body = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise RefusedError(f"the body is not JSON: {error}") from error
    cases = body.get("cases") if isinstance(body, dict) else None
    if not isinstance(cases, list) or len(cases) > MOST_CASES:
        raise RefusedError(f"expected an object with a list of at most {MOST_CASES} cases", param="cases")
    known = scenarios()
    keys: dict[str, Key] = {}
    for case in cases:
        match case:
            case [str(name), str(seed)] if name in known and len(seed) <= _SEED_CHARACTERS:
                question, key = _key(known[name], seed)
                keys[question] = key
            case _:
                raise RefusedError(f"{str(case)[:80]} is no pair of a scenario ({', '.join(known)}) and a seed")
    return keys


def _key(scenario: ModuleType, seed: str) -> tuple[str, Key]:
    case = scenario.generate(seed)
    request = scenario.request(case, thinking=Thinking.OFF, stream=False, max_tokens=1, thinking_budget_tokens=None)
    question = request.messages[-1].content
    if request.tools:
        calls = case.truth if isinstance(case.truth, list) else [case.truth]
        return question, Key(calls=tuple(Call(call["name"], json.dumps(call["arguments"])) for call in calls))
    return question, Key(content=json.dumps(case.truth, ensure_ascii=False))
