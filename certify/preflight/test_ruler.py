"""The ruler: the instrument's own error, against an emitter that stamps what it sends."""

import pytest

from certify.fixtures import Lane
from certify.preflight.ruler import collect_ruler


@pytest.mark.requirement("PRE-RULER-01")
def test_the_rulers_own_error_is_within_its_limit(lane: Lane) -> None:
    """The client reads decode window and TTFT of a known stream within the limits of the instrument.

    The emitter stamps every chunk as it sends it; compared are the client's receive stamps, on loopback, one stream at
    a time. Requirement: PRE-RULER-01.
    """
    collect_ruler(lane.recorder)

    lane.judge("PRE-RULER-01")
