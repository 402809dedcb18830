"""Asks the deployment and writes every exchange into the evidence; what a resumed run already has is not asked."""

import threading
from collections.abc import Callable, Mapping
from dataclasses import replace

from certify.deployment.client import Deployment
from certify.evidence import EvidenceView, EvidenceWriter
from certify.plan import REPLACEMENT, Plan
from certify.records import Arm, ChatRequest, Event, Exchange, FailureKind, Json, Probe, Sample, Trial, TrialId


class Recorder:
    """One lane's way to the deployment. Threads may share it."""

    def __init__(
        self,
        plan: Plan,
        deployments: Mapping[Arm, Deployment],
        writer: EvidenceWriter,
        *,
        before: EvidenceView,
        progress: Callable[[str], None],
    ) -> None:
        """`before` is the chain as it was when this run took it over; its finished trials are not asked again.

        `probes` are those that it holds: what preflight saw.
        """
        self.plan = plan
        self.progress = progress
        self._deployments = deployments
        self._writer = writer
        self._known = {trial.trial_id: trial.exchange for _, trial in before.trials()}
        self._lock = threading.Lock()
        self.probes = tuple(probe for _, probe in before.probes())

    @property
    def arms(self) -> tuple[Arm, ...]:
        """The arms that this run can ask."""
        return tuple(self._deployments)

    def deployment(self, arm: Arm = Arm.SERVED) -> Deployment:
        """The deployment of an arm, for questions that are not trials (probes, tokenize)."""
        return self._deployments[arm]

    def ask(
        self,
        trial_id: TrialId,
        request: ChatRequest,
        *,
        serves: tuple[str, ...] = (),
        recipe: Mapping[str, Json] | None = None,
        warm_up: bool = False,
        deployment: Deployment | None = None,
    ) -> Exchange:
        """The exchange of a trial: asked and recorded now, or as the evidence has it from before an interruption.

        `serves` are further requirements beside `trial_id.requirement`; `deployment` stands in for the arm's own (the
        ruler's emitter).
        """
        trial_id, known = self._place(trial_id)
        if known is not None:
            return known
        exchange = (deployment or self._deployments[trial_id.arm]).exchange(request)
        everything = tuple(dict.fromkeys((trial_id.requirement, *serves)))
        self._writer.trial(Trial(trial_id, everything, warm_up, dict(recipe or {}), exchange))
        with self._lock:
            self._known[trial_id] = exchange
        if exchange.failure and exchange.failure.kind is FailureKind.INTERRUPTED:
            raise KeyboardInterrupt
        return exchange

    def sample(self, name: str, arm: Arm = Arm.SERVED) -> Sample:
        """The arm's counters now, recorded under a name."""
        sample = self._deployments[arm].counters(name, arm)
        self._writer.sample(sample)
        return sample

    def probe(self, name: str, path: str, arm: Arm = Arm.SERVED) -> Probe:
        """What the arm answers to a GET of `path` now, recorded under a name."""
        probe = self._deployments[arm].probe(name, "GET", path)
        self._writer.probe(probe)
        return probe

    def event(self, event: Event) -> None:
        """Record something that happened to the run itself."""
        self._writer.event(event)

    def _place(self, trial_id: TrialId) -> tuple[TrialId, Exchange | None]:
        with self._lock:
            while (known := self._known.get(trial_id)) is not None:
                if known.failure is None or known.failure.kind is not FailureKind.INTERRUPTED:
                    return trial_id, known
                trial_id = replace(trial_id, repeat=trial_id.repeat + REPLACEMENT)
        return trial_id, None
