"""The thinking switch, by its effect."""

import pytest

from certify.fixtures import Lane
from certify.preflight.thinking import collect_thinking


@pytest.mark.requirement("PRE-THINK-01")
def test_thinking_switch_has_an_effect(lane: Lane) -> None:
    """Thinking comes with the switch on, stays away with it off, and never leaks into the content.

    Counted are answers with reasoning text or reasoning tokens, of one question asked with the switch on, off and
    unsaid. Requirement: PRE-THINK-01.
    """
    collect_thinking(lane.recorder)

    lane.judge("PRE-THINK-01")
