"""One stream (C1). Method: docs/METHODS.md, one stream. Floors: thresholds.toml, PERF-C1-01."""

import pytest

from certify.fixtures import Lane
from certify.perf.single_stream import collect_single_stream


@pytest.mark.requirement("PERF-C1-01")
def test_one_stream_decodes_at_the_floor(lane: Lane) -> None:
    """One stream decodes at or above the floor, as the median over passes of a fixed corpus.

    A pass counts completion tokens by the server's `usage` and wall seconds from sending to the end of the answer; the
    warm-up pass is recorded and excluded; passes go on until the sequential rule decides. Requirement: PERF-C1-01.
    """
    collect_single_stream(lane.recorder, lambda: lane.so_far("PERF-C1-01"))

    lane.judge("PERF-C1-01")
