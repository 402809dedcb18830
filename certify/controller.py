"""One run from its options to its certificates: probe, lock the plan, hand over to the gates, judge again, seal."""

import fcntl
import os
import platform
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from certify import __version__, evidence, plan, planner, thresholds
from certify.child import ChildError
from certify.codec import CodecError
from certify.deployment.client import Deployment, DeploymentError
from certify.deployment.pace import probe_pace
from certify.deployment.recorder import Recorder
from certify.evidence import EvidenceError, EvidenceView, EvidenceWriter, Header
from certify.judging import judge
from certify.judging.summary import EXIT_INCOMPLETE, Overall, lock_fault, overall
from certify.options import EMBEDDED_REAL, EMBEDDED_SIMULATED, OptionError, RunOptions
from certify.plan import Pace, Plan
from certify.records import Arm, Event, Verdict
from certify.report.certificate import write_run
from certify.report.seal import SealError, Signer
from certify.thresholds import Thresholds
from certify.visible import visible
from certify.wire.identity import Identity, read_identity

EVIDENCE = "evidence.jsonl"
PLAN = "plan.json"
THRESHOLDS = "thresholds.toml"
SPEC_OFF = "spec-off"
UNREACHABLE = 11  # exit code: unreachable, or refused at preflight

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class LaneRun:
    """One deployment's part of a run: its folder and its locked plan, or why it was refused."""

    label: str
    folder: Path
    plan: Plan | None
    refused: str = ""


@dataclass(frozen=True, slots=True)
class LaneResult:
    """What became of a lane: its verdicts, the overall outcome, and where the report lies."""

    label: str
    folder: Path
    plan: Plan | None
    verdicts: tuple[Verdict, ...]
    overall: Overall | None
    report: Path | None
    exit_code: int
    refused: str = ""


def attached_file(name: str) -> str:
    """The file name of an attached chain in a run folder."""
    return f"evidence-{name}.jsonl"


def open_view(folder: Path, locked: Plan) -> EvidenceView:
    """The chain of a run folder, with the chains that its plan attached.

    Raises:
        EvidenceError: a chain is broken, or was not made under this plan, or an attached one is not the one that the
            plan was locked with.
    """
    attached = {name: EvidenceView(folder / attached_file(name)) for name in locked.attached}
    for name, view in attached.items():
        if view.head_sha256 != locked.attached[name]:
            raise EvidenceError(
                f"{folder / attached_file(name)}: not the {name} evidence that the plan was locked with"
            )
    view = EvidenceView(folder / EVIDENCE, attached)
    if fault := lock_fault(locked, view):
        raise EvidenceError(f"{folder / PLAN}: {fault}")
    return view


def open_thresholds(folder: Path, locked: Plan) -> Thresholds:
    """The thresholds that a run folder's plan was locked with.

    Raises:
        OptionError: the file is not the one whose digest the plan holds.
    """
    try:
        text = (folder / THRESHOLDS).read_text(encoding="utf-8")
        resolved = thresholds.parse(text, locked.thresholds_set, str(folder / THRESHOLDS))
    except (OSError, ValueError) as error:
        raise OptionError(f"{folder / THRESHOLDS} cannot be read: {error}") from error
    if resolved.sha256 != locked.thresholds_sha256:
        raise OptionError(f"{folder / THRESHOLDS} is not the file that the plan was locked with")
    return resolved


class Controller:
    """Prepares the lanes before the gates run and concludes them after; the only process that probes and signs."""

    def __init__(self, options: RunOptions, signer: Signer | None, say: Say) -> None:
        self.options = options
        self.lanes: list[LaneRun] = []
        self.crashes: list[str] = []
        self._signer = signer
        self._say = say
        self._services = ExitStack()
        self._hold = ExitStack()
        self.folder = options.resume or options.reports / f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(4)}"

    @property
    def run_log(self) -> Path:
        """Where pytest-html writes the run log."""
        return self.folder / "run-log.html"

    def prepare(self) -> None:
        """Probe every deployment and lock its plan; a deployment that refuses keeps its evidence and its reason."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self._hold.enter_context(_alone_in(self.folder))
        if self.options.resume:
            self.lanes.append(self._resume(self.options.resume))
            return
        several = len(self.options.urls) > 1
        for number, url in enumerate(self.options.urls):
            folder = self.folder / f"lane{number}" if several else self.folder
            folder.mkdir(exist_ok=True)
            try:
                self.lanes.append(self._prepare(url, folder))
            except (DeploymentError, ChildError) as error:
                self.lanes.append(LaneRun(url, folder, None, str(error)))

    def _prepare(self, url: str, folder: Path) -> LaneRun:
        options = self.options
        attached: dict[str, str] = {}
        base_url = url
        if options.spec_off_evidence and url not in {EMBEDDED_REAL, EMBEDDED_SIMULATED}:
            attached, options = _attach(options, folder)
        if url in {EMBEDDED_REAL, EMBEDDED_SIMULATED}:
            base_url, attached, options = self._start_embedded(url, folder)
        with _deployment(base_url, options) as deployment, _new_chain(folder, base_url) as writer:
            identity, pace = _probe(deployment, writer)
            _refuse_other_model(attached, folder, identity.model)
            other_arm = replace(options, model=identity.model)
            other_is_simulated = bool(options.spec_off_url) and _probe_other_arm(other_arm, writer)
            locked = planner.make_plan(
                options, identity, pace, base_url=base_url, spec_off_url=options.spec_off_url, attached=attached
            )
            _lock(folder, locked, options, writer)
            if identity.simulated:
                _hand_over_seed(deployment, locked)
            if other_is_simulated:
                with _deployment(options.spec_off_url, other_arm) as other:
                    _hand_over_seed(other, locked)
        return LaneRun(url, folder, locked)

    def _resume(self, folder: Path) -> LaneRun:
        try:
            locked = plan.from_bytes((folder / PLAN).read_bytes())
        except CodecError as error:
            raise OptionError(f"{folder / PLAN} is no plan of this version: {error}") from error
        if locked.suite_version != __version__:
            raise OptionError(
                f"{folder / PLAN} was locked by certify {locked.suite_version}, this is {__version__}: "
                f"go on with `uvx certify=={locked.suite_version}`, or start a new run"
            )
        open_thresholds(folder, locked)
        if not (folder / EVIDENCE).is_file():
            raise OptionError(f"--resume {folder}: its {EVIDENCE} is gone; start a new run")
        try:
            open_view(folder, locked)
            return self._take_up(folder, locked)
        except DeploymentError as error:
            return LaneRun(locked.base_url, folder, None, str(error))
        except EvidenceError as error:
            raise OptionError(f"--resume {folder}: {error}") from error

    def _take_up(self, folder: Path, locked: Plan) -> LaneRun:
        """Ask who answers now, and note the answers; the lane is refused where it is not whom the plan was made for."""
        with (
            _deployment(locked.base_url, replace(self.options, model=locked.model)) as deployment,
            EvidenceWriter.reopen(folder / EVIDENCE, reason="resume") as writer,
        ):
            identity, probes = deployment.identify()
            for probe in probes:
                writer.probe(replace(probe, name=probe.name.replace("identity:", "identity-resume:")))
            for reason in self.options.diagnostic:
                writer.event(Event("diagnostic", detail={"reason": reason}))
            if identity.simulated:
                _hand_over_seed(deployment, locked)
        if identity.model != locked.model or identity.engine != locked.engine:
            refusal = (
                f"{locked.base_url} serves {identity.model} by {identity.engine}, not what the plan was locked with"
            )
            return LaneRun(locked.base_url, folder, None, refusal)
        return LaneRun(locked.base_url, folder, locked)

    def _start_embedded(self, url: str, folder: Path) -> tuple[str, dict[str, str], RunOptions]:
        """Start an embedded pair, its arm without speculation first: two instances, one after the other."""
        from certify import embedded_pairs  # noqa: PLC0415 - the embedded engines are an extra, loaded when asked for

        pair = embedded_pairs.PAIRS[url]
        self._say("recording the arm without speculation")
        with pair.start(speculation=False, log_dir=folder) as without:
            record_spec_off(self.options, without.base_url, folder, self._say)
        served = self._services.enter_context(pair.start(speculation=True, log_dir=folder))
        head = EvidenceView(folder / attached_file(SPEC_OFF)).head_sha256
        return served.base_url, {SPEC_OFF: head}, self.options

    def conclude(self, *, interrupted: bool) -> list[LaneResult]:
        """Judge every lane again from its file, write and seal its certificate.

        A lane whose files were lost or changed on the way gets no certificate, and does not take the others with it.
        """
        self._services.close()
        results = []
        for lane in self.lanes:
            try:
                results.append(self._conclude(lane, interrupted=interrupted))
            except (EvidenceError, OptionError, SealError, OSError) as error:
                why = f"no certificate could be written: {error}"
                results.append(LaneResult(lane.label, lane.folder, None, (), None, None, EXIT_INCOMPLETE, why))
        self._hold.close()
        return results

    def _conclude(self, lane: LaneRun, *, interrupted: bool) -> LaneResult:
        if lane.plan is None:
            return LaneResult(lane.label, lane.folder, None, (), None, None, UNREACHABLE, lane.refused)
        with EvidenceWriter.reopen(lane.folder / EVIDENCE, reason="conclusion") as writer:
            for gate in self.crashes:
                writer.event(Event("diagnostic", detail={"reason": f"a worker died in {gate}"}))
            writer.footer("interrupted" if interrupted else "complete")
        view = open_view(lane.folder, lane.plan)
        bars = open_thresholds(lane.folder, lane.plan)
        verdicts = tuple(judge(gate.requirement, view, lane.plan, bars) for gate in lane.plan.gates)
        if self.run_log.exists() and lane.folder != self.folder:
            shutil.copy2(self.run_log, lane.folder / self.run_log.name)
        report = write_run(
            lane.folder,
            lane.plan,
            view,
            bars,
            verdicts,
            signer=self._signer,
            run_log=log if (log := lane.folder / self.run_log.name).exists() else None,
            demo=self.options.demo,
            simulated=read_identity(probe for _, probe in view.probes()).simulated,
            commit=self.options.expect_commit,
        )
        whole = overall(lane.plan, verdicts, view)
        return LaneResult(lane.label, lane.folder, lane.plan, verdicts, whole, report, whole.exit_code)

    def close(self) -> None:
        """Stop whatever this run started, and let go of its folder."""
        self._services.close()
        self._hold.close()


def record_spec_off(options: RunOptions, base_url: str, folder: Path, say: Say) -> Path:
    """Make the evidence of the arm without speculation; returns its file.

    Raises:
        DeploymentError: the deployment cannot be asked.
    """
    from certify.quality.speculation import collect_arm  # noqa: PLC0415 - only this arm needs it

    path = folder / attached_file(SPEC_OFF)
    with _deployment(base_url, options) as deployment, _new_chain(folder, base_url, path.name) as writer:
        identity, pace = _probe(deployment, writer)
        locked = planner.make_plan(options, identity, pace, base_url=base_url, arm=Arm.SPEC_OFF)
        writer.event(_locked_event(locked))
        if identity.simulated:
            _hand_over_seed(deployment, locked)
        recorder = Recorder(locked, {Arm.SPEC_OFF: deployment}, writer, before=EvidenceView(path), progress=say)
        collect_arm(recorder)
        writer.footer("complete")
    return path


@contextmanager
def _deployment(base_url: str, options: RunOptions) -> Iterator[Deployment]:
    deployment = Deployment(base_url, model=options.model, api_key_env=options.api_key_env, deadlines=options.deadlines)
    try:
        yield deployment
    finally:
        deployment.close()


def _probe(deployment: Deployment, writer: EvidenceWriter) -> tuple[Identity, Pace]:
    """Ask who answers and how fast, and keep every answer."""
    identity, probes = deployment.identify()
    for probe in probes:
        writer.probe(probe)
    pace, cost = probe_pace(deployment)
    writer.probe(cost)
    return identity, pace


def _hand_over_seed(deployment: Deployment, locked: Plan) -> None:
    """Give the simulated pair its answer key, out of band: no other deployment is ever told the seed."""
    deployment.probe("simulator-seed", "POST", "/simulator/seed", {"seed": locked.seed, "challenge": locked.challenge})


def _probe_other_arm(options: RunOptions, writer: EvidenceWriter) -> bool:
    """Ask the launch without speculation who it is: one that cannot be asked is known before the run, not after.

    Returns whether it is simulated.

    Raises:
        DeploymentError: it cannot be asked.
    """
    with _deployment(options.spec_off_url, options) as other:
        try:
            identity, probes = other.identify()
        except DeploymentError as error:
            raise DeploymentError(f"--spec-off-url: {error}") from error
    for probe in probes:
        writer.probe(replace(probe, name=probe.name.replace("identity:", "identity-spec-off:")))
    return identity.simulated


@contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """Hold a run folder; the kernel lets go of it when this process ends, however it ends.

    Raises:
        OptionError: another run holds it: two writers would break the chain of evidence.
    """
    with (folder / ".run").open("w", encoding="utf-8") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise OptionError(f"{folder}: another certify run works in it; let it end first") from error
        yield


def _new_chain(folder: Path, base_url: str, name: str = EVIDENCE) -> EvidenceWriter:
    client = {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "cpus": os.cpu_count(),
    }
    return EvidenceWriter.create(
        folder / name, Header(evidence.SCHEMA, secrets.token_hex(16), __version__, base_url, dict(client))
    )


def _locked_event(locked: Plan) -> Event:
    return Event(
        "plan-locked",
        detail={
            "sha256": locked.sha256,
            "seed": locked.seed,
            "challenge": locked.challenge,
            "profile": locked.profile,
            "model": locked.model,
            "engine": locked.engine,
        },
    )


def _lock(folder: Path, locked: Plan, options: RunOptions, writer: EvidenceWriter) -> None:
    (folder / PLAN).write_bytes(locked.to_bytes())
    (folder / THRESHOLDS).write_text(options.thresholds.text, encoding="utf-8")
    writer.event(_locked_event(locked))


def _refuse_other_model(attached: dict[str, str], folder: Path, model: str) -> None:
    """Raise an OptionError where an attached arm served another model: pairs over two models say nothing."""
    for name in attached:
        _, locked = next(EvidenceView(folder / attached_file(name)).events("plan-locked"))
        if (other := locked.detail.get("model")) != model:
            raise OptionError(
                f"the {name} evidence was made with model {visible(str(other), 80)}, this deployment serves "
                f"{visible(model, 80)}: launch both arms with the same model and --served-model-name"
            )


def _attach(options: RunOptions, folder: Path) -> tuple[dict[str, str], RunOptions]:
    """Copy the other arm's evidence into the run folder; its seed becomes the run's."""
    source = options.spec_off_evidence
    if source is None:
        return {}, options
    told = f"--spec-off-evidence {source}"
    remedy = f"make it with `certify run --arm spec-off --profile {options.profile}`"
    try:
        view = EvidenceView(source)
        locked = next((event.detail for _, event in view.events("plan-locked")), {})
        is_other_arm = any(trial.trial_id.arm is Arm.SPEC_OFF for _, trial in view.trials())
    except EvidenceError as error:
        raise OptionError(f"{told}: {error}; {remedy}") from error
    if not view.complete or not is_other_arm or not {"profile", "seed", "challenge"} <= set(locked):
        raise OptionError(f"{told}: not a complete record of the arm without speculation; {remedy}")
    if locked["profile"] != options.profile:
        raise OptionError(f"{told} was made with profile {locked['profile']}, this run has {options.profile}; {remedy}")
    if options.challenge and locked["challenge"] != options.challenge:
        raise OptionError(
            f"{told} was made with challenge {locked['challenge'] or 'none'}, not {options.challenge}: "
            f"its cases do not answer this one; {remedy} --challenge {options.challenge}"
        )
    shutil.copy2(source, folder / attached_file(SPEC_OFF))
    return {SPEC_OFF: view.head_sha256}, replace(options, seed=str(locked["seed"]), challenge=str(locked["challenge"]))
