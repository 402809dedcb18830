"""How xdist hands out gates: one lane, one worker, in order."""

import re

from xdist.scheduler import LoadScopeScheduling

_LANE = re.compile(r"\[(lane\d+)[\]-]")


class LaneScheduling(LoadScopeScheduling):  # type: ignore[misc]  # xdist ships no types
    """Load-scope scheduling whose scope is the lane in the parameter id."""

    def _split_scope(self, nodeid: str) -> str:
        found = _LANE.search(nodeid)
        return found.group(1) if found else str(super()._split_scope(nodeid))
