"""The judge: every verdict is a pure function of evidence, plan and thresholds; the run and `verify` call the same."""

from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module

from certify.evidence import EvidenceView
from certify.judging.questions import not_as_planned
from certify.plan import Plan
from certify.records import Outcome, Verdict
from certify.thresholds import Thresholds

# A change that can flip a verdict on old evidence changes this.
JUDGE_VERSION = "1"

Judge = Callable[[EvidenceView, Plan, Thresholds], Verdict]

_ROOMS = ("preflight", "quality", "speculation", "perf", "longctx")


@cache
def judges() -> Mapping[str, Judge]:
    """Requirement id -> its judge, collected from the rooms' `JUDGES` tables; each looks at the questions first."""
    table: dict[str, Judge] = {}
    for room in _ROOMS:
        table.update(import_module(f"certify.judging.{room}").JUDGES)
    return {requirement: _of_the_plan(requirement, one) for requirement, one in table.items()}


def _of_the_plan(requirement: str, judge_answers: Judge) -> Judge:
    """The judge, or an ERROR where what was asked is not what the plan says."""

    def judge_both(view: EvidenceView, plan: Plan, thresholds: Thresholds) -> Verdict:
        return not_as_planned(requirement, view, plan) or judge_answers(view, plan, thresholds)

    return judge_both


def judge(requirement: str, view: EvidenceView, plan: Plan, thresholds: Thresholds) -> Verdict:
    """The verdict on one requirement; NOT_RUN when its gate did not run to its end, ERROR when it broke.

    Raises:
        KeyError: no such judge: a mistake in the suite itself.
    """
    crashes = [(seq, event) for seq, event in view.events("gate-crashed") if event.requirement == requirement]
    if crashes and requirement not in view.finished_gates():
        return Verdict(
            requirement,
            Outcome.ERROR,
            f"the gate broke in the suite's own code: {crashes[-1][1].detail.get('error', '')}"[:400],
            action="this is a defect of Certify, not of the deployment: report it with the run folder",
            evidence=tuple(seq for seq, _ in crashes),
        )
    if requirement not in view.finished_gates():
        return Verdict(
            requirement,
            Outcome.NOT_RUN,
            "the gate did not run to its end",
            action="run it without -k, --only or an interruption; `--resume DIR` goes on where it stopped",
        )
    return judges()[requirement](view, plan, thresholds)


def judge_so_far(requirement: str, view: EvidenceView, plan: Plan, thresholds: Thresholds) -> Verdict:
    """The verdict on the evidence as it stands: what a sequential rule asks between its looks."""
    return judges()[requirement](view, plan, thresholds)
