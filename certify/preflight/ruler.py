"""Measures the ruler's emitter with the very client that measures the deployment."""

import tempfile
from pathlib import Path

from certify.cases.tiny import TICK
from certify.deployment.client import Deployment
from certify.deployment.recorder import Recorder
from certify.preflight.emitter import MODEL, Emitter
from certify.preflight.plans import RULER_CHUNKS, RULER_ITL_NS
from certify.records import ChatRequest, Message
from certify.wire.emissions import Schedule

REQUIREMENT = "PRE-RULER-01"
TTFT_US = 20_000  # longer than any scheduler's slice, short enough to ask often


def collect_ruler(recorder: Recorder) -> None:
    """Each planned stream of the emitter, one at a time.

    Raises:
        ChildError: the emitter did not start.
    """
    gate = recorder.plan.gate(REQUIREMENT)
    with tempfile.TemporaryDirectory(prefix="ruler-") as folder, Emitter(Path(folder) / "emitter.log") as emitter:
        for trial in gate.trials if gate else ():
            tokens_per_chunk = int(trial.trial_id.case.rpartition("-")[2])
            schedule = Schedule(TTFT_US, RULER_ITL_NS // 1000, tokens_per_chunk, RULER_CHUNKS)
            request = ChatRequest((Message("user", TICK),), max_tokens=RULER_CHUNKS * tokens_per_chunk)
            recorder.progress(f"ruler: {trial.trial_id.case}")
            deployment = Deployment(emitter.url(schedule), model=MODEL)
            recorder.ask(trial.trial_id, request, recipe={"schedule": schedule.path}, deployment=deployment)
            deployment.close()
