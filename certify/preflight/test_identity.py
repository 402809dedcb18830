"""Identity: the same deployment answers from start to end."""

import pytest

from certify.fixtures import Lane
from certify.preflight.identity import collect_identity


@pytest.mark.requirement("PRE-IDENT-01")
def test_the_same_deployment_answers_to_the_end(lane: Lane) -> None:
    """Engine, version, model, context, configuration and fingerprint are at the end what they were at the start.

    Compared are the identity probes of start and end, the echoes in every answer, and the engine's totals, which
    never fall. Requirement: PRE-IDENT-01.
    """
    collect_identity(lane.recorder)

    lane.judge("PRE-IDENT-01")
