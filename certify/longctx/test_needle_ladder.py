"""The needle ladder: rungs exact by `usage`, needles found at every depth. Method: docs/METHODS.md, long context."""

import pytest

from certify.fixtures import Lane
from certify.longctx.ladder import climb


@pytest.mark.requirement("LCTX-USAGE-01")
def test_every_rung_is_exact_by_usage(lane: Lane) -> None:
    """Every rung of the ladder has its length to the token.

    The prompt is built of words that calibration found to be one token each; the length is what the server's
    `usage.prompt_tokens` says. Requirement: LCTX-USAGE-01.
    """
    climb(lane.recorder)

    lane.judge("LCTX-USAGE-01")


@pytest.mark.requirement("LCTX-NEEDLE-01")
def test_needles_are_found_at_every_rung(lane: Lane) -> None:
    """A code told somewhere in the prompt is repeated exactly when asked for.

    One question for each stratum of depth on one haystack a rung, the first one cold; exact match of the code's words;
    a missed stratum is asked for its reserve keys. Requirement: LCTX-NEEDLE-01.
    """
    climb(lane.recorder)

    lane.judge("LCTX-NEEDLE-01")
