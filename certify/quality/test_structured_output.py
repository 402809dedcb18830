"""Structured output: envelope, form and values of seeded cases, thinking on and off, streamed and whole."""

import pytest

from certify.fixtures import Lane
from certify.quality.structured_output import collect_all, collect_scenario


@pytest.mark.requirement("QUAL-ENV-01")
def test_every_answer_keeps_the_envelope(lane: Lane) -> None:
    """Shape, finish reason, `usage`, calls and text of every quality answer are whole, and no markup leaks.

    Asks the cases of all scenarios. Counted are answers with a hard fault (none allowed) and with a rare one (three
    fail). Requirement: QUAL-ENV-01.
    """
    collect_all(lane.recorder)

    lane.judge("QUAL-ENV-01")


@pytest.mark.requirement("QUAL-JSON-01")
def test_a_record_comes_as_bare_json(lane: Lane) -> None:
    """Asked in words only, the answer is one JSON object, nothing beside it, every value right.

    Counted are right answers over all answers. Requirement: QUAL-JSON-01.
    """
    collect_scenario(lane.recorder, "QUAL-JSON-01")

    lane.judge("QUAL-JSON-01")


@pytest.mark.requirement("QUAL-SCHEMA-02")
def test_answers_under_a_schema_obey_it(lane: Lane) -> None:
    """Under a JSON schema every answer is valid or the request is refused, thinking on and off.

    Counted are valid answers; one that is neither valid nor refused fails. Requirement: QUAL-SCHEMA-02.
    """
    collect_scenario(lane.recorder, "QUAL-SCHEMA-02")

    lane.judge("QUAL-SCHEMA-02")


@pytest.mark.requirement("QUAL-TOOL-05")
def test_the_right_tool_is_called_with_typed_arguments(lane: Lane) -> None:
    """One call of the right tool, every argument of exactly the right type and value.

    Counted are right answers over all answers. Requirement: QUAL-TOOL-05.
    """
    collect_scenario(lane.recorder, "QUAL-TOOL-05")

    lane.judge("QUAL-TOOL-05")


@pytest.mark.requirement("QUAL-VALUE-01")
def test_values_are_right_over_all_scenarios(lane: Lane) -> None:
    """The share of right answers over all scenarios reaches the floor.

    Asks nothing itself; strata are scenarios with thinking on and off, each of weight one. Requirement: QUAL-VALUE-01.
    """
    lane.judge("QUAL-VALUE-01")


@pytest.mark.requirement("QUAL-THINK-02")
def test_thinking_gain_is_counted(lane: Lane) -> None:
    """What thinking changes is known: right with it on minus right with it off, paired by case, with its interval.

    Asks nothing itself; reported, no threshold. Requirement: QUAL-THINK-02.
    """
    lane.judge("QUAL-THINK-02")
