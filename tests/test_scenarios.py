import json
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from certify.cases.scenarios import SCENARIOS
from certify.cases.scoring import Case, Grade
from certify.codec import digest
from certify.records import Thinking
from certify.requirements import REQUIREMENTS
from tests.case_answers import answered, asked_by, exchange

GOLDEN = Path(__file__).parent / "golden"
CONTENT_SCENARIOS = ("json-prompt", "schema-nested")

seeds = st.integers(0, 2**256 - 1).map("{:064x}".format)


def golden_answers():
    for path in sorted(GOLDEN.glob("*/*.json")):
        written = json.loads(path.read_text(encoding="utf-8"))
        for place, answer in enumerate(written["answers"]):
            yield pytest.param(path.parent.name, written, answer, id=f"{path.parent.name}-{path.stem}-{place}")


def asking(scenario, case, thinking=Thinking.OFF):
    return scenario.request(case, thinking=thinking, stream=True, max_tokens=256, thinking_budget_tokens=None)


def scored(name, case, answer, *, thinking=Thinking.OFF, status=200):
    scenario = SCENARIOS[name]
    return scenario.score(case, exchange(asked_by(asking(scenario, case, thinking)), status=status), answer)


def content(name, seed):
    case = SCENARIOS[name].generate(seed)
    return case, json.dumps(case.truth, ensure_ascii=False)


def call(seed, arguments=None, name=None):
    case = SCENARIOS["tool-typed"].generate(seed)
    text = json.dumps(case.truth["arguments"] if arguments is None else arguments, ensure_ascii=False)
    return case, answered(None, calls=[(name or case.truth["name"], text)])


@pytest.mark.parametrize(("name", "written", "said"), list(golden_answers()))
def test_golden_answers_written_by_hand_score_as_a_person_graded_them(name, written, said):
    case = Case(name, "golden", written["about"], written["truth"], written["detail"])
    answer = answered(
        said.get("content", ""),
        calls=said.get("calls", ()),
        ids=said.get("ids", ()),
        finish=said.get("finish", ""),
        reasoning=said.get("reasoning", ""),
        error=said.get("error", ""),
    )
    score = scored(name, case, answer, thinking=Thinking(said.get("thinking", "off")), status=said.get("status", 200))
    assert (score.grade.value, said.get("says", "") in score.reason) == (said["grade"], True), score.reason


@pytest.mark.parametrize("name", list(SCENARIOS))
def test_each_scenario_has_five_golden_cases(name):
    assert len(list((GOLDEN / name).glob("*.json"))) >= 5


def test_scenarios_are_discovered_in_the_order_of_their_requirements():
    assert list(SCENARIOS) == ["json-prompt", "schema-nested", "tool-typed"]
    assert [scenario.REQUIREMENT for scenario in SCENARIOS.values()] == [
        "QUAL-JSON-01",
        "QUAL-SCHEMA-02",
        "QUAL-TOOL-05",
    ]
    assert all(scenario.REQUIREMENT in REQUIREMENTS for scenario in SCENARIOS.values())


# What a certificate of today asks must be what its verifier regenerates in ten years.
@pytest.mark.parametrize(
    ("name", "pinned"),
    [
        ("json-prompt", "df09bac1a515aa18"),
        ("schema-nested", "9cb4ac409e60881e"),
        ("tool-typed", "a54e0d58a2662d2e"),
    ],
)
def test_a_seed_is_a_case_for_all_time(name, pinned):
    case = SCENARIOS[name].generate("c0ffee" * 10)
    told = json.dumps([case.prompt, case.truth, case.detail], sort_keys=True)
    assert digest(told.encode())[:16] == pinned


@pytest.mark.parametrize("name", list(SCENARIOS))
@given(seed=seeds)
def test_prompts_stay_short_and_the_request_carries_the_form(name, seed):
    scenario = SCENARIOS[name]
    case = scenario.generate(seed)
    request = asking(scenario, case)
    assert len(case.prompt) < 1_100
    assert len(json.dumps(case.truth, ensure_ascii=False)) < 420
    assert (request.schema is not None) == scenario.CONSTRAINED
    assert request.messages[-1].content == case.prompt


@pytest.mark.parametrize("name", CONTENT_SCENARIOS)
@given(seed=seeds, indent=st.sampled_from([None, 0, 2]), escaped=st.booleans(), blanks=st.text(" \n\r\t", max_size=9))
def test_the_truth_is_right_in_every_form_that_the_prompt_allows(name, seed, indent, escaped, blanks):
    case = SCENARIOS[name].generate(seed)
    text = json.dumps(case.truth, ensure_ascii=escaped, indent=indent, sort_keys=escaped)
    score = scored(name, case, answered(blanks + text + blanks))
    assert score.grade is Grade.RIGHT, score.reason


@given(seed=seeds, escaped=st.booleans())
def test_the_right_call_is_right_in_every_form(seed, escaped):
    case = SCENARIOS["tool-typed"].generate(seed)
    text = json.dumps(case.truth["arguments"], ensure_ascii=escaped, sort_keys=escaped, indent=1)
    score = scored("tool-typed", case, answered("Done soon.", calls=[(case.truth["name"], text)]))
    assert score.grade is Grade.RIGHT, score.reason


def other(value):
    """A near miss of the same type."""
    match value:
        case bool():
            return not value
        case int() | str():
            return value + type(value)("1")
        case float():
            return float(Decimal(repr(value)) + Decimal("0.001"))
        case None:
            return "none"
        case list():
            return [*value, value[0]]
        case _:
            return {key: other(inner) for key, inner in value.items()}


def retyped(value):
    """The same value in another type; an array and a null have none that their schema would refuse by type alone."""
    match value:
        case bool():
            return int(value)
        case int() | float():
            return str(value)
        case str():
            return [value]
        case _:
            return 0


TEXT_MUTATIONS = {
    "fence": (lambda text: f"```json\n{text}\n```", Grade.FORMAT),
    "bare fence": (lambda text: f"```\n{text}\n```", Grade.FORMAT),
    "prose before": (lambda text: f"Here it is: {text}", Grade.FORMAT),
    "prose after": (lambda text: f"{text}\nAnything else?", Grade.FORMAT),
    "in an array": (lambda text: f"[{text}]", Grade.FORMAT),
    "said twice": (lambda text: text + text, Grade.FORMAT),
    "cut": (lambda text: text[:-1], Grade.FORMAT),
    "single quotes": (lambda text: text.replace('"', "'"), Grade.FORMAT),
    "trailing comma": (lambda text: f"{text[:-1]},}}", Grade.FORMAT),
    "duplicate key": (lambda text: f"{{{text[1 : text.index(',')]},{text[1:]}", Grade.FORMAT),
    "byte order mark": (lambda text: "\ufeff" + text, Grade.FORMAT),
    "leaked end of thinking": (lambda text: f"</think>{text}", Grade.PROTOCOL),
    "leaked template token": (lambda text: f"{text}<|im_end|>", Grade.PROTOCOL),
    "leaked tool markup": (lambda text: f"<tool_call>{text}", Grade.PROTOCOL),
    "blanks run away": (lambda text: text[:1] + " " * 64 + text[1:-1], Grade.FORMAT),
}


@pytest.mark.parametrize("name", CONTENT_SCENARIOS)
@pytest.mark.parametrize("mutation", list(TEXT_MUTATIONS))
@settings(max_examples=20)
@given(seed=seeds)
def test_every_mutation_of_the_text_is_refused(name, mutation, seed):
    mutate, grade = TEXT_MUTATIONS[mutation]
    case, text = content(name, seed)
    assert scored(name, case, answered(mutate(text))).grade is grade


@given(seed=seeds)
def test_a_broken_character_is_wrong_in_words_and_a_protocol_fault_under_a_schema(seed):
    grades = []
    for name, key in (("json-prompt", None), ("schema-nested", "customer")):
        case = SCENARIOS[name].generate(seed)
        record = json.loads(json.dumps(case.truth))
        part = record.get(key, record)
        part[next(name for name, value in part.items() if isinstance(value, str))] += "\ufffd"
        grades.append(scored(name, case, answered(json.dumps(record, ensure_ascii=False))).grade)
    assert grades == [Grade.VALUE, Grade.PROTOCOL]


@given(seed=seeds, data=st.data())
def test_every_mutation_of_a_record_is_refused(seed, data):
    case, _ = content("json-prompt", seed)
    truth = case.truth
    key = data.draw(st.sampled_from(sorted(truth)))
    dropped = {name: value for name, value in truth.items() if name != key}
    grades = {
        "dropped": scored("json-prompt", case, answered(json.dumps(dropped))).grade,
        "extra": scored("json-prompt", case, answered(json.dumps({**truth, "extra": 1}))).grade,
        "renamed": scored("json-prompt", case, answered(json.dumps({**dropped, key.upper(): truth[key]}))).grade,
        "retyped": scored("json-prompt", case, answered(json.dumps({**truth, key: retyped(truth[key])}))).grade,
        "near miss": scored("json-prompt", case, answered(json.dumps({**truth, key: other(truth[key])}))).grade,
    }
    assert grades == dict.fromkeys(("dropped", "extra", "renamed", "retyped"), Grade.SCHEMA) | {
        "near miss": Grade.VALUE
    }


@given(seed=seeds, data=st.data())
def test_every_mutation_of_a_nested_answer_is_refused(seed, data):
    case, text = content("schema-nested", seed)
    field = data.draw(st.sampled_from(["item", "count", "note"]))

    def line_with(value):
        changed = json.loads(text)
        changed["lines"][-1][field] = value
        return scored("schema-nested", case, answered(json.dumps(changed))).grade

    truth = case.truth["lines"][-1][field]
    assert line_with(other(truth)) is Grade.VALUE
    assert line_with(retyped(truth)) is Grade.SCHEMA
    for wrong in ({**case.truth, "kind": "other"}, {**case.truth, "lines": []}, {**case.truth, "extra": None}):
        assert scored("schema-nested", case, answered(json.dumps(wrong))).grade is Grade.SCHEMA


@given(seed=seeds, data=st.data())
def test_every_mutation_of_a_call_is_refused(seed, data):
    truth = SCENARIOS["tool-typed"].generate(seed).truth["arguments"]
    key = data.draw(st.sampled_from(sorted(truth)))
    dropped = {name: value for name, value in truth.items() if name != key}

    def grade(arguments):
        return scored("tool-typed", *call(seed, arguments)).grade

    assert grade(dropped) is Grade.SCHEMA
    assert grade({**truth, "extra": 1}) is Grade.SCHEMA
    assert grade({**truth, key: retyped(truth[key])}) is Grade.SCHEMA
    # A wrong member of an enum breaks the schema; every other near miss is a wrong value.
    assert grade({**truth, key: other(truth[key])}) in {Grade.VALUE, Grade.SCHEMA}
    assert scored("tool-typed", *call(seed, name="no_such_tool")).grade is Grade.PROTOCOL


@given(seed=seeds)
def test_the_truth_under_a_schema_obeys_it_and_the_schema_bounds_every_text(seed):
    case = SCENARIOS["schema-nested"].generate(seed)
    schema = json.dumps(case.detail["schema"])
    assert schema.count('"type": "string", "enum"') == 2
    assert schema.count('"type": "string", "maxLength"') == 5
    assert schema.count('"type": "array", "minItems": 1, "maxItems"') == 1
    assert schema.count('"additionalProperties": false') == schema.count('"type": "object"') == 5


@given(seed=seeds)
def test_the_integer_of_a_call_is_one_that_a_float_would_spoil(seed):
    _, answer = call(seed)
    big = max(value for value in json.loads(answer.tool_calls[0].arguments).values() if type(value) is int)
    assert int(float(big)) != big


@pytest.mark.parametrize(
    "monster",
    ["[" * 60_000, '{"a":' * 12_000, "9" * 60_000, '{"a":1e999999999999}', "x" * 1_000_000, '{"a":"\\ud800"}', "\x01"],
    ids=["deep array", "deep object", "long integer", "huge exponent", "a megabyte", "lone surrogate", "control"],
)
def test_hostile_content_is_graded_within_bounds(monster):
    case = SCENARIOS["json-prompt"].generate("0")
    score = scored("json-prompt", case, answered(monster))
    assert score.grade in {Grade.FORMAT, Grade.SCHEMA}
    assert len(score.reason.encode()) < 1_000
    assert len(score.quote) <= 2_000
