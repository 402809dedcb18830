"""The prefix cache. Method: docs/METHODS.md, prefix cache. Floors: thresholds.toml, PERF-CACHE-01."""

import pytest

from certify.fixtures import Lane
from certify.perf.prefix_cache import collect_pairs


@pytest.mark.requirement("PERF-CACHE-01")
def test_a_repeated_prompt_hits_the_prefix_cache(lane: Lane) -> None:
    """The same prompt again finds its tokens cached, and is answered sooner.

    Cached tokens by `usage`, else by the engine's counters around one exchange; the time to first token, cold over
    warm, must agree. Requirement: PERF-CACHE-01.
    """
    collect_pairs(lane.recorder)

    lane.judge("PERF-CACHE-01")


@pytest.mark.requirement("PERF-CACHE-02")
def test_a_prompt_behind_a_fresh_nonce_is_cold(lane: Lane) -> None:
    """A prompt that nobody sent before finds nothing cached but the chat template's own preamble.

    Counted as for PERF-CACHE-01, on the cold half of the same pairs. Requirement: PERF-CACHE-02.
    """
    collect_pairs(lane.recorder)

    lane.judge("PERF-CACHE-02")
