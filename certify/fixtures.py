"""What a gate's test is given: one lane, which asks, records and judges."""

import fcntl
from collections.abc import Callable
from pathlib import Path

from certify import plan
from certify.controller import EVIDENCE, PLAN, open_thresholds, open_view
from certify.deployment.client import Deadlines, Deployment
from certify.deployment.recorder import Recorder
from certify.evidence import EvidenceError, EvidenceWriter
from certify.judging import judge, judge_so_far
from certify.judging.summary import prevents
from certify.records import Arm, Event, Outcome, Verdict
from certify.report.text import failure_text


class GateFailure(AssertionError):  # noqa: N818 - pytest shows it as a failed gate, not as an error
    """A requirement that does not hold, or could not be shown to hold; its text is the product."""


class Lane:
    """All gates of one deployment, in one process, in order: its recorder, its evidence so far, its verdicts."""

    def __init__(
        self, folder: Path, *, api_key_env: str, deadlines: Deadlines, keep_going: bool, progress: Callable[[str], None]
    ) -> None:
        """Takes over the evidence of a run folder that a controller prepared.

        Raises:
            EvidenceError: the chain is broken, or another process holds the lane.
            OptionError: the thresholds are not those that the plan was locked with.
        """
        self.plan = plan.from_bytes((folder / PLAN).read_bytes())
        self.verdicts: dict[str, Verdict] = {}
        self._keep_going = keep_going
        self._deadlines = deadlines
        self._thresholds = open_thresholds(folder, self.plan)
        self._lock = (folder / ".lane").open("w", encoding="utf-8")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise EvidenceError(f"{folder}: another process asks and records there; wait for it to end") from error
        self._writer = EvidenceWriter.reopen(folder / EVIDENCE, reason="lane")
        self._view = open_view(folder, self.plan)
        self._deployments = {Arm.SERVED: self._connect(self.plan.base_url, api_key_env)}
        if self.plan.spec_off_url:
            self._deployments[Arm.SPEC_OFF] = self._connect(self.plan.spec_off_url, api_key_env)
        self.recorder = Recorder(self.plan, self._deployments, self._writer, before=self._view, progress=progress)

    def _connect(self, base_url: str, api_key_env: str) -> Deployment:
        deployment = Deployment(base_url, model=self.plan.model, api_key_env=api_key_env, deadlines=self._deadlines)
        deployment.settle(self.plan.engine)
        return deployment

    def so_far(self, requirement: str) -> Verdict:
        """The verdict on the evidence as it stands."""
        self._view.refresh()
        return judge_so_far(requirement, self._view, self.plan, self._thresholds)

    def judge(self, requirement: str) -> None:
        """End a gate: record that it ended, judge it.

        Raises:
            GateFailure: the requirement decides in this profile, and does not hold.
        """
        __tracebackhide__ = True
        self.recorder.event(Event("gate-finished", requirement))
        self._view.refresh()
        verdict = judge(requirement, self._view, self.plan, self._thresholds)
        self.verdicts[requirement] = verdict
        if self.decides(verdict):
            raise GateFailure(failure_text(verdict, self.plan))

    def decides(self, verdict: Verdict) -> bool:
        """Whether a verdict prevents certification in this profile."""
        gate = self.plan.gate(verdict.requirement)
        return gate is not None and prevents(gate.level, verdict.outcome)

    def stopped_by(self) -> str:
        """The requirement whose FAIL stops this lane, "" when none does."""
        if self._keep_going:
            return ""
        hard = (v for v in self.verdicts.values() if v.outcome is Outcome.FAIL and self.decides(v))
        return next((verdict.requirement for verdict in hard), "")

    def crashed(self, requirement: str, line: str) -> None:
        """Record that a gate broke in the suite's own code: the requirement could not be measured."""
        self.recorder.event(Event("gate-crashed", requirement, {"error": line[:400]}))

    def close(self) -> None:
        """Release the evidence and the connections."""
        self._writer.close()
        self._lock.close()
        for deployment in self._deployments.values():
            deployment.close()
