"""Loaded as a plug-in (`-p tests.toy_plugin`): the toy's planners and judges in place of the suite's.

Everything else is the real thing: client, evidence, controller, lanes, certificate.
"""

import certify.judging.summary
from certify import planner, requirements
from tests.toy import GATES, toy_judge, toy_plan

_TOYS = tuple(one for one in requirements.in_run_order() if one.id in GATES)
_JUDGES = {one: toy_judge(one) for one in GATES}

planner._PLANNERS = (toy_plan,)
planner.in_run_order = lambda: _TOYS
certify.judging.judges = lambda: _JUDGES
certify.judging.summary.planned = lambda profile: _TOYS
