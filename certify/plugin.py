"""Certify as a pytest plug-in: the only module with pytest hooks."""

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Generator
from html import escape
from pathlib import Path

import pytest

from certify import options as opt
from certify.controller import UNREACHABLE, Controller, LaneResult
from certify.deployment.client import Deadlines
from certify.judging.summary import EXIT_INCOMPLETE, worst
from certify.options import OptionError, RunOptions
from certify.requirements import in_run_order
from certify.visible import visible

MARK = "requirement"
_LINE_CAP = 1200  # characters of an error line, which may quote a server
_CONTROLLER = pytest.StashKey[Controller]()
_LANES = pytest.StashKey[list[str]]()
_RESULTS = pytest.StashKey[list[LaneResult]]()
_LOG_CAP = 20_000  # characters of one failure in the run log


# --- options -----------------------------------------------------------------------------------------------------


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options of a certification run (docs/CONTRACT.md explains each)."""
    group = parser.getgroup("certify", "certification of a live LLM deployment")
    add = group.addoption
    with contextlib.suppress(ValueError):  # pytest-base-url owns the option; its value can be read all the same
        add(
            "--base-url",
            action="append",
            metavar="URL",
            help="the deployment under test; several are certified side by side with -n",
        )

    add(
        "--profile",
        default="gate",
        metavar="NAME",
        help="what is asked: demo, smoke, gate, release (default: %(default)s)",
    )
    add(
        "--thresholds",
        default="generic",
        metavar="FILE|SET",
        help="threshold set, or an owner's TOML file (default: %(default)s)",
    )
    add("--deployment", default="", metavar="FILE", help="deployment.toml: what the owner declares")
    add("--model", default="", metavar="ID", help="the served model to ask (default: the first in /v1/models)")
    add("--api-key-env", default="", metavar="NAME", help="environment variable that holds the API key")
    add(
        "--first-token-deadline",
        default="120s",
        metavar="TIME",
        help="how long an answer may take to begin; a long rung gets more (default: %(default)s)",
    )
    add(
        "--silence-deadline",
        default="60s",
        metavar="TIME",
        help="how long an answer that began may stand still (default: %(default)s)",
    )
    add("--budget", default="", metavar="TIME", help="time to spend, such as 45m; n is chosen within it")
    add("--only", default="", metavar="ID[,ID]", help="only these requirements: a diagnosis, never a certificate")
    add("--keep-going", action="store_true", help="go on after a hard FAIL")
    add("--spec-off-url", default="", metavar="URL", help="the same deployment launched without speculation")
    add("--spec-off-evidence", default="", metavar="FILE", help="evidence of the arm without speculation")
    add("--seed", default="", metavar="S", help="seed of all cases (default: fresh)")
    add(
        "--challenge",
        default="",
        metavar="NONCE",
        help="a reviewer's nonce: it seeds the cases and stands in the certificate",
    )
    add(
        "--sign-key",
        default=os.environ.get("CERTIFY_SIGN_KEY", ""),
        metavar="URI",
        help="ssh:PATH of an Ed25519 key that seals the certificate",
    )
    add("--signer-name", default="", metavar="NAME", help="the principal under which the key stands in allowed_signers")
    add("--require-signature", action="store_true", help="refuse to start without a key that works")
    add("--expect-commit", default="", metavar="SHA", help="the commit that the certificate speaks of")
    add("--reports", default="reports", metavar="DIR", help="where run folders are written (default: %(default)s)")
    add("--resume", default="", metavar="DIR", help="go on with an interrupted run; the URL comes from its plan")
    add("--certify-demo", action="store_true", help="mark the certificate as a demonstration")


def _option(config: pytest.Config, name: str) -> str:
    return str(config.getoption(name) or "")


def _deadlines(config: pytest.Config) -> Deadlines:
    return opt.deadlines(_option(config, "--first-token-deadline"), _option(config, "--silence-deadline"))


def _is_worker(config: pytest.Config) -> bool:
    return hasattr(config, "workerinput")


def _urls(config: pytest.Config) -> list[str]:
    given = config.getoption("--base-url", default=None) or []
    return [given] if isinstance(given, str) else list(given)


def _wanted(config: pytest.Config) -> bool:
    """Whether this session certifies: a URL or a folder to resume was given, and items will be run."""
    return bool(_urls(config) or config.getoption("--resume")) and not config.option.collectonly


def _diagnostic(config: pytest.Config) -> tuple[str, ...]:
    """Every way in which this session was told to leave something out."""
    reasons = {
        f"-k {config.option.keyword}": config.option.keyword,
        f"-m {config.option.markexpr}": config.option.markexpr,
        "--lf": config.getoption("lf", default=False),
        "--deselect": config.option.deselect,
        "--ignore": config.option.ignore or config.option.ignore_glob,
        f"--only {_option(config, '--only')}": _option(config, "--only"),
        "PYTEST_ADDOPTS": os.environ.get("PYTEST_ADDOPTS", "").strip(),
        "python -O": sys.flags.optimize,
    }
    return tuple(reason for reason, given in reasons.items() if given)


def _read_options(config: pytest.Config) -> RunOptions:
    resume = _option(config, "--resume")
    if resume:
        opt.check_resumable(Path(resume))
    off_evidence = _option(config, "--spec-off-evidence")
    if off_evidence and not Path(off_evidence).is_file():
        raise OptionError(f"--spec-off-evidence {off_evidence}: no such file")
    budget = _option(config, "--budget")
    return RunOptions(
        urls=() if resume else opt.check_urls(_urls(config)),
        profile=opt.profile_name(_option(config, "--profile")),
        thresholds=opt.threshold_set(_option(config, "--thresholds")),
        declaration=opt.declared(_option(config, "--deployment")),
        seed=_option(config, "--seed") or opt.fresh_seed(),
        challenge=_option(config, "--challenge"),
        reports=opt.reports_folder(_option(config, "--reports")),
        model=_option(config, "--model"),
        api_key_env=opt.api_key_variable(_option(config, "--api-key-env")),
        deadlines=_deadlines(config),
        budget_s=opt.duration_s(budget) if budget else None,
        only=opt.only_ids(_option(config, "--only")),
        keep_going=bool(config.getoption("--keep-going")),
        spec_off_url=_option(config, "--spec-off-url"),
        spec_off_evidence=Path(off_evidence) if off_evidence else None,
        resume=Path(resume) if resume else None,
        sign_key=_option(config, "--sign-key"),
        require_signature=bool(config.getoption("--require-signature")),
        identity=_option(config, "--signer-name"),
        expect_commit=_option(config, "--expect-commit"),
        demo=bool(config.getoption("--certify-demo")),
        diagnostic=_diagnostic(config),
    )


# --- the session -------------------------------------------------------------------------------------------------


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Check every option before anything is asked of a deployment; a mistake is a usage error (exit 4)."""
    config.addinivalue_line("markers", f"{MARK}(id): the requirement whose gate a test is")
    if _is_worker(config) or not _wanted(config):
        return
    try:
        run = _read_options(config)
        signer = opt.signer(run)
    except OptionError as error:
        raise pytest.UsageError(str(error)) from error
    controller = Controller(run, signer, lambda line: _say(config, line))
    config.stash[_CONTROLLER] = controller
    if threading.current_thread() is threading.main_thread():
        # A cancelled CI job ends with SIGTERM: stop as at Ctrl-C, with the certificate of what was measured.
        before = signal.signal(signal.SIGTERM, signal.default_int_handler)

        def restore() -> None:
            signal.signal(signal.SIGTERM, before)

        config.add_cleanup(restore)
    config.pluginmanager.register(VerdictLines(config), "certify-verdict-lines")
    if hasattr(config.option, "htmlpath") and not config.option.htmlpath:
        controller.folder.mkdir(parents=True, exist_ok=True)
        config.option.htmlpath = str(controller.run_log)
        config.option.self_contained_html = True


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    """Probe, and lock the plan, before any worker starts."""
    controller = session.config.stash.get(_CONTROLLER, None)
    if controller is None:
        return
    from certify.terminal import plan_lines, refusal  # noqa: PLC0415 - the workers have no terminal

    try:
        controller.prepare()
    except OptionError as error:
        raise pytest.UsageError(visible(str(error), _LINE_CAP)) from error
    except OSError as error:
        raise pytest.UsageError(f"cannot write {error.filename or controller.folder}: {error.strerror}") from error
    if all(lane.plan is None for lane in controller.lanes):
        controller.close()
        for lane in controller.lanes:
            _say(session.config, f"{refusal(lane)}\nevidence: {lane.folder}")
        if terminal := session.config.pluginmanager.getplugin("terminalreporter"):
            session.config.pluginmanager.unregister(terminal)  # it would say the same once more, and "no tests ran"
        pytest.exit("no deployment to certify", returncode=UNREACHABLE)

    for line in (line for lane in controller.lanes for line in plan_lines(lane)):
        _say(session.config, line)
    session.config.stash[_LANES] = [str(lane.folder) for lane in controller.lanes if lane.plan is not None]


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: object) -> None:
    """Hand the lanes' folders to an xdist worker."""
    config, workerinput = node.config, node.workerinput  # type: ignore[attr-defined]
    workerinput["certify_lanes"] = config.stash.get(_LANES, [])


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object | None:
    """All gates of one deployment run in one worker, in order.

    `--dist loadgroup` with `xdist_group` does not do that with pytest 9.2.0 and xdist 3.8.0: xdist writes `_nodeid`,
    which pytest no longer reads, and a group ran on two workers, green.
    """
    if _CONTROLLER not in config.stash:
        return None
    from certify.lanes import LaneScheduling  # noqa: PLC0415 - xdist is loaded only where it schedules

    return LaneScheduling(config, log)


def _lane_folders(config: pytest.Config) -> list[str]:
    if _is_worker(config):
        return list(config.workerinput["certify_lanes"])  # type: ignore[attr-defined]
    return config.stash.get(_LANES, [])


# --- collection --------------------------------------------------------------------------------------------------


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One lane a deployment; its id is the scope by which xdist keeps it in one worker."""
    if "lane" in metafunc.fixturenames:
        folders = _lane_folders(metafunc.config)
        metafunc.parametrize(
            "lane", folders, indirect=True, ids=[f"lane{i}" for i in range(len(folders))], scope="session"
        )


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Order the gates by lane, then by the registry; leave out what the lane's plan leaves out."""
    gates = [item for item in items if item.get_closest_marker(MARK)]
    if not gates:
        return
    if not _wanted(config) and not _is_worker(config) and not config.option.collectonly:
        try:
            opt.check_urls(_urls(config))
        except OptionError as error:
            raise pytest.UsageError(str(error)) from error
    from certify import plan  # noqa: PLC0415

    folders = _lane_folders(config)
    planned = [
        {gate.requirement for gate in plan.from_bytes((Path(one) / "plan.json").read_bytes()).gates} for one in folders
    ]
    order = {requirement.id: place for place, requirement in enumerate(in_run_order())}

    def place(item: pytest.Item) -> tuple[int, int]:
        return _lane_number(item, folders), order[requirement_of(item)]

    def in_plan(item: pytest.Item) -> bool:
        number = _lane_number(item, folders)
        return number < 0 or requirement_of(item) in planned[number]

    others = [item for item in items if not item.get_closest_marker(MARK)]
    items[:] = others + sorted((item for item in gates if in_plan(item)), key=place)


def requirement_of(item: pytest.Item) -> str:
    """The requirement id of a gate's test, "" of any other test."""
    mark = item.get_closest_marker(MARK)
    return str(mark.args[0]) if mark and mark.args else ""


def _lane_number(item: pytest.Item, folders: list[str]) -> int:
    call = getattr(item, "callspec", None)
    folder = call.params.get("lane") if call else None
    return folders.index(folder) if folder in folders else -1


# --- fixtures ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def lane(request: pytest.FixtureRequest) -> Generator[object]:
    """The lane of one deployment: asks, records, judges (`certify.fixtures.Lane`)."""
    from certify.evidence import EvidenceError  # noqa: PLC0415
    from certify.fixtures import Lane  # noqa: PLC0415 - the client is loaded where it is used
    from certify.terminal import Progress  # noqa: PLC0415

    config = request.config
    progress = Progress(config, Path(request.param))
    try:
        opened = Lane(
            Path(request.param),
            api_key_env=_option(config, "--api-key-env"),
            deadlines=_deadlines(config),
            keep_going=bool(config.getoption("--keep-going")),
            progress=progress.say,
        )
    except (EvidenceError, OptionError, OSError) as error:
        pytest.fail(f"the lane cannot be opened: {error}", pytrace=False)
    yield opened
    opened.close()
    progress.close()


# --- running -----------------------------------------------------------------------------------------------------


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """A gate whose lane was stopped is not run; one that breaks in our own code is recorded as such."""
    requirement = requirement_of(item)
    opened = getattr(item, "funcargs", {}).get("lane")
    if not requirement or opened is None:
        return (yield)
    if cause := opened.stopped_by():
        pytest.skip(f"not run: {cause} failed, and a hard FAIL stops the run (--keep-going goes on)")
    from certify.fixtures import GateFailure  # noqa: PLC0415

    try:
        return (yield)
    except (GateFailure, pytest.skip.Exception, pytest.fail.Exception, pytest.xfail.Exception):
        raise
    except Exception as error:
        opened.crashed(requirement, f"{type(error).__name__}: {error}")
        raise


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Let the verdict travel with the report (as text: xdist carries nothing else), and the failure be its text."""
    report = yield
    requirement = requirement_of(item)
    opened = getattr(item, "funcargs", {}).get("lane")
    if requirement and call.when == "call" and opened is not None and requirement in opened.verdicts:
        from certify.fixtures import GateFailure  # noqa: PLC0415
        from certify.terminal import verdict_line  # noqa: PLC0415

        report.user_properties.append(("certify", verdict_line(opened.verdicts[requirement], opened.plan)))
        if call.excinfo is not None and call.excinfo.errisinstance(GateFailure):
            report.longrepr = str(call.excinfo.value)[:_LOG_CAP]
    return report


@pytest.hookimpl(tryfirst=True)
def pytest_report_teststatus(report: pytest.TestReport) -> tuple[str, str, str] | None:
    """A gate's line is its verdict, not a dot."""
    if any(name == "certify" for name, _ in getattr(report, "user_properties", ())):
        # A category of its own keeps pytest's FAILURES section and short summary from telling the failure twice: the
        # end block tells it. The report itself, and with it junit and the run log, keeps the whole text.
        return ("passed" if report.passed else "not held"), "", ""
    return None


class VerdictLines:
    """Prints each verdict when it is known; registered in the controlling process."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """One line a verdict, whichever worker reached it."""
        for name, line in report.user_properties:
            if name == "certify" and report.when == "call":
                _say(self._config, str(line))

    @pytest.hookimpl(optionalhook=True)
    def pytest_handlecrashitem(self, crashitem: str) -> None:
        """A worker died in a gate: xdist runs the gate again, and the exchange that it was in is lost."""
        self._config.stash[_CONTROLLER].crashes.append(crashitem)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> Generator[None, object, object]:
    """After pytest-html wrote the run log: judge again from the files, seal, and set the exit status."""
    outcome = yield
    controller = session.config.stash.get(_CONTROLLER, None)
    if controller is None or _is_worker(session.config) or _LANES not in session.config.stash:
        return outcome
    interrupted = exitstatus in {pytest.ExitCode.INTERRUPTED, pytest.ExitCode.INTERNAL_ERROR}
    results = controller.conclude(interrupted=interrupted)
    session.config.stash[_RESULTS] = results
    # A test that failed without a FAIL in the evidence (a fixture, a test that is no gate) leaves the run incomplete.
    own = [EXIT_INCOMPLETE if exitstatus == pytest.ExitCode.TESTS_FAILED else int(exitstatus)]
    session.exitstatus = worst([*own, *(result.exit_code for result in results)])
    return outcome


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    """The end block; its last line is `report: PATH` (one a deployment)."""
    controller = config.stash.get(_CONTROLLER, None)
    if controller is not None:
        controller.close()
    if results := config.stash.get(_RESULTS, None):
        from certify.terminal import print_results  # noqa: PLC0415

        print_results(results)


def _say(config: pytest.Config, line: str) -> None:
    manager = config.pluginmanager.getplugin("capturemanager")
    if manager is None:
        print(line, flush=True)
        return
    with manager.global_and_fixture_disabled():
        print(line, flush=True)


# --- the run log -------------------------------------------------------------------------------------------------


@pytest.hookimpl(optionalhook=True, trylast=True)
def pytest_html_results_table_row(report: pytest.TestReport, cells: list[str]) -> None:
    """pytest-html puts cells in as HTML (its issue 1024): escape the one that carries the test's id."""
    if len(cells) > 1:
        cells[1] = f'<td class="col-testId">{escape(report.nodeid)}</td>'


@pytest.hookimpl(optionalhook=True)
def pytest_html_report_title(report: object) -> None:
    """Name the run log for what it is."""
    report.title = "Certify run log (not the certificate)"  # type: ignore[attr-defined]
