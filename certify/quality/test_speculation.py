"""Speculation: on in one arm and off in the other, by effect, and the same cases counted in both."""

import pytest

from certify.fixtures import Lane
from certify.quality.speculation import collect_copies, collect_pairs


@pytest.mark.requirement("QUAL-SPEC-01")
def test_speculation_is_on_in_one_arm_and_off_in_the_other(lane: Lane) -> None:
    """Tokens are drafted as served, and none in the other arm.

    Counted are drafted tokens by the engine's totals around texts that copy their prompt, and by the answers' own
    figures. Requirement: QUAL-SPEC-01.
    """
    collect_copies(lane.recorder)

    lane.judge("QUAL-SPEC-01")


@pytest.mark.requirement("QUAL-SPEC-05")
def test_the_same_cases_are_counted_in_both_arms(lane: Lane) -> None:
    """What speculation changes is counted: right in both arms, in one alone, in neither.

    Pairs are one case in one thinking mode, asked in both arms; reported, no threshold. Requirement: QUAL-SPEC-05.
    """
    collect_pairs(lane.recorder)

    lane.judge("QUAL-SPEC-05")
