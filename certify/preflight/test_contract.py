"""The contract: the documented shape of answers, and the laws of `usage`."""

import pytest

from certify.fixtures import Lane
from certify.preflight.contract import collect_contract


@pytest.mark.requirement("PRE-CONTRACT-01")
def test_answers_keep_shape_and_laws(lane: Lane) -> None:
    """Tiny chats, streamed and whole, keep the documented shape and the laws of `usage`.

    Counted are exchanges with a breach; none is allowed. Requirement: PRE-CONTRACT-01.
    """
    collect_contract(lane.recorder)

    lane.judge("PRE-CONTRACT-01")


@pytest.mark.requirement("PRE-CONTRACT-02")
def test_laws_hold_on_every_exchange_of_the_run(lane: Lane) -> None:
    """No exchange of the whole run, warm-ups included, breaks a law or stops in mid-answer.

    Asks nothing itself: counted are all exchanges that the other gates recorded. Requirement: PRE-CONTRACT-02.
    """
    lane.judge("PRE-CONTRACT-02")
