"""The plug-in: exit codes, and every way in which a failing gate could vanish."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from certify.evidence import EvidenceView
from tests.toy import GATES, SUITE, toy_deployment

ROOT = Path(__file__).parent.parent
Run = Callable[..., pytest.RunResult]


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs the toy suite in a process of its own; returns what came out."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # hypothesis alone would cost seconds a run
    pytester.makepyfile(test_toy=SUITE)

    def go(*arguments: str) -> pytest.RunResult:
        return pytester.runpytest_subprocess(
            *(
                "-p",
                "tests.toy_plugin",
                "-p",
                "certify.plugin",
                "-p",
                "pytest_metadata.plugin",
                "-p",
                "pytest_html.plugin",
            ),
            *("-p", "xdist.plugin", "-p", "no:cacheprovider", "--tb=short", "test_toy.py"),
            *arguments,
        )

    return go


@pytest.fixture
def healthy() -> Iterator[str]:
    with toy_deployment() as url:
        yield url


@pytest.fixture
def failing() -> Iterator[str]:
    with toy_deployment(bad="PERF-C1-01") as url:
        yield url


def report_of(result: pytest.RunResult) -> Path:
    assert result.outlines[-1].startswith("report: "), result.stdout.str()[-2000:]
    return Path(result.outlines[-1].removeprefix("report: "))


# Two workers start two more interpreters: those runs are slow, and `make test-all` has them.
WORKERS = pytest.mark.parametrize(
    "workers", [(), pytest.param(("-n", "2"), marks=pytest.mark.slow)], ids=["alone", "two workers"]
)


@WORKERS
def test_all_gates_passed_is_certified(run: Run, healthy: str, workers: tuple[str, ...]) -> None:
    result = run("--base-url", healthy, *workers)

    assert result.ret == 0, result.stdout.str()
    assert report_of(result).is_file()


@WORKERS
def test_a_failing_gate_is_exit_1_and_its_text_says_why(run: Run, failing: str, workers: tuple[str, ...]) -> None:
    result = run("--base-url", failing, *workers)

    assert result.ret == 1
    result.stdout.fnmatch_lines(["*PERF-C1-01 FAIL  answers ?'bad'?, required good*", "*repeat: certify run*"])


VANISHING = {
    "-k": ("-k", "not speed"),
    "-m": ("-m", "not requirement"),
    "--lf": ("-p", "cacheprovider", "--lf", "--deselect", "test_toy.py::test_speed"),
    "deselection": ("--deselect", "test_toy.py::test_speed[lane0]"),
    "a node id": ("test_toy.py::test_shape",),
    "-x elsewhere": ("--maxfail=1", "-k", "shape"),
    "--only": ("--only", "PRE-CONTRACT-01"),
}


@WORKERS
@pytest.mark.parametrize("arguments", VANISHING.values(), ids=VANISHING.keys())
def test_a_failing_gate_left_out_by_an_option_is_never_exit_0(
    run: Run, failing: str, arguments: tuple[str, ...], workers: tuple[str, ...]
) -> None:
    assert run("--base-url", failing, *arguments, *workers).ret in {1, 4, 5, 10}


def conftest_marking(mark: str) -> str:
    return f"""
import pytest
def pytest_collection_modifyitems(items):
    for item in items:
        item.add_marker({mark})
"""


CONFTESTS = {
    "trims the items": """
def pytest_collection_modifyitems(items):
    items[:] = [item for item in items if "speed" not in item.name]
""",
    "skips": conftest_marking("pytest.mark.skip"),
    "expects the failure": conftest_marking("pytest.mark.xfail(strict=False)"),
    "replaces the call": "def pytest_pyfunc_call(pyfuncitem):\n    return True\n",
}


@WORKERS
@pytest.mark.parametrize("conftest", CONFTESTS.values(), ids=CONFTESTS.keys())
def test_a_failing_gate_hidden_by_a_foreign_conftest_is_never_exit_0(
    run: Run, failing: str, pytester: pytest.Pytester, conftest: str, workers: tuple[str, ...]
) -> None:
    pytester.makeconftest(conftest)

    assert run("--base-url", failing, *workers).ret in {1, 10}


@WORKERS
def test_a_failing_gate_hidden_by_addopts_of_the_environment_is_never_exit_0(
    run: Run, failing: str, monkeypatch: pytest.MonkeyPatch, workers: tuple[str, ...]
) -> None:
    monkeypatch.setenv("PYTEST_ADDOPTS", "-k shape")

    assert run("--base-url", failing, *workers).ret == 10


@WORKERS
def test_a_failing_gate_hidden_by_a_foreign_ini_is_never_exit_0(
    run: Run, failing: str, pytester: pytest.Pytester, workers: tuple[str, ...]
) -> None:
    pytester.makeini("[pytest]\naddopts = -k shape\n")

    assert run("--base-url", failing, *workers).ret == 10


@pytest.mark.parametrize("plugin", ["no:certify.plugin", "no:terminal", "no:html"])
def test_a_plugin_switched_off_never_makes_a_failing_gate_exit_0(run: Run, failing: str, plugin: str) -> None:
    assert run("--base-url", failing, "-p", plugin).ret in {1, 4}


def test_optimised_python_is_a_diagnosis(run: Run, healthy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONOPTIMIZE", "1")

    assert run("--base-url", healthy).ret == 10


def test_optimised_python_does_not_hide_a_failing_gate(run: Run, failing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONOPTIMIZE", "1")

    assert run("--base-url", failing).ret == 1


@pytest.mark.parametrize(
    ("deployments", "workers"),
    [
        (2, 2),
        *(pytest.param(lanes, n, marks=pytest.mark.slow) for lanes in (1, 2, 3) for n in (2, 3, 5) if lanes * n != 4),
    ],
)
def test_a_lane_stays_in_one_worker_and_in_order(run: Run, deployments: int, workers: int) -> None:
    with ExitStack() as stack:
        urls = [stack.enter_context(toy_deployment()) for _ in range(deployments)]
        result = run(*(part for url in urls for part in ("--base-url", url)), "-n", str(workers))

    assert result.ret == 0, result.stdout.str()
    reports = [Path(line.removeprefix("report: ")) for line in result.outlines if line.startswith("report: ")]
    assert len(reports) == deployments
    for report in reports:
        view = EvidenceView(report.parent / "evidence.jsonl")
        openings = [record for record in view.records("segment") if record.data["reason"] == "lane"]
        assert len(openings) == 1
        assert tuple(event.requirement for _, event in view.events("gate-finished")) == GATES


@pytest.mark.slow
def test_a_worker_that_dies_leaves_no_certificate(run: Run, healthy: str, pytester: pytest.Pytester) -> None:
    pytester.makeconftest("""
import os, pathlib
def pytest_runtest_call(item):
    mark = pathlib.Path("died")
    if "speed" in item.name and not mark.exists():
        mark.touch()
        os._exit(1)
""")
    result = run("--base-url", healthy, "-n", "1")

    assert result.ret == 10, result.stdout.str()
    result.stdout.fnmatch_lines(["*diagnostic run: a worker died in *speed*"])


def test_the_worst_of_several_deployments_wins(run: Run, healthy: str, failing: str) -> None:
    assert run("--base-url", healthy, "--base-url", failing, "-n", "2").ret == 1


def test_a_deployment_that_refuses_beside_one_that_passes_is_exit_11(run: Run, healthy: str) -> None:
    assert run("--base-url", healthy, "--base-url", "http://127.0.0.1:9").ret == 11


def test_a_hard_fail_stops_the_lane_unless_told_to_go_on(run: Run, failing: str) -> None:
    stopped, through = run("--base-url", failing), run("--base-url", failing, "--keep-going")

    assert "PRE-CONTRACT-02" not in EvidenceView(report_of(stopped).parent / "evidence.jsonl").finished_gates()
    assert "PRE-CONTRACT-02" in EvidenceView(report_of(through).parent / "evidence.jsonl").finished_gates()
    assert (stopped.ret, through.ret) == (1, 1)


BAD_OPTIONS = {
    "no URL": ((), "certify demo"),
    "an unknown profile": (("--base-url", "http://x", "--profile", "gold"), "known profiles are"),
    "an unknown threshold set": (("--base-url", "http://x", "--thresholds", "none"), "it holds: demo, generic"),
    "a missing thresholds file": (
        ("--base-url", "http://x", "--thresholds", "none.toml"),
        "cannot read thresholds file",
    ),
    "a missing key": (("--base-url", "http://x", "--sign-key", "ssh:/nonexistent"), "--sign-key"),
    "a key of another scheme": (("--base-url", "http://x", "--sign-key", "gpg:me"), "expected ssh:PATH"),
    "no key": (("--base-url", "http://x", "--require-signature"), "certify keygen"),
    "an unset variable": (("--base-url", "http://x", "--api-key-env", "NO_SUCH_KEY"), "no such variable"),
    "a bad budget": (("--base-url", "http://x", "--budget", "soon"), "45m"),
    "no budget at all": (("--base-url", "http://x", "--budget", "0m"), "45m"),
    "an unknown requirement": (("--base-url", "http://x", "--only", "PERF-C9-01"), "no such requirement"),
    "a reserved requirement": (("--base-url", "http://x", "--only", "PERF-SOAK-01"), "reserved"),
    "a missing declaration": (("--base-url", "http://x", "--deployment", "none.toml"), "cannot read deployment file"),
    "a URL twice": (("--base-url", "http://x", "--base-url", "http://x"), "given twice"),
    "nothing to resume": (("--resume", "nowhere"), "no plan.json there"),
    "missing evidence": (("--base-url", "http://x", "--spec-off-evidence", "none"), "no such file"),
    "unwritable reports": (("--base-url", "http://x", "--reports", "/proc/none"), "cannot write there"),
}


@pytest.mark.parametrize(("arguments", "words"), BAD_OPTIONS.values(), ids=BAD_OPTIONS.keys())
def test_a_mistake_is_one_clear_line_and_exit_4(run: Run, arguments: tuple[str, ...], words: str) -> None:
    result = run(*arguments)
    said = result.stdout.str() + result.stderr.str()

    assert result.ret == 4, said
    assert words in said
    assert "Traceback" not in said


def test_an_unreachable_deployment_is_exit_11_and_its_evidence_is_kept(run: Run, pytester: pytest.Pytester) -> None:
    result = run("--base-url", "http://127.0.0.1:9")
    said = result.stdout.str() + result.stderr.str()

    assert result.ret == 11, said
    assert "Traceback" not in said
    assert list((pytester.path / "reports").rglob("evidence.jsonl"))


def test_an_interrupted_run_is_resumed_and_nothing_is_asked_twice(run: Run, healthy: str) -> None:
    first = run("--base-url", healthy, "-k", "shape")
    folder = report_of(first).parent
    result = run("--resume", str(folder))

    view = EvidenceView(folder / "evidence.jsonl")
    assert result.ret == 10  # the plan was locked as a diagnosis (-k), and stays one
    assert sorted(trial.trial_id.requirement for _, trial in view.trials()) == sorted(GATES)


def test_a_planted_key_reaches_no_file(
    run: Run, failing: str, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = "sk-planted-0123456789abcdef"
    monkeypatch.setenv("TOY_KEY", secret)
    result = run(
        "--base-url", failing, "--api-key-env", "TOY_KEY", "--junitxml", "own.xml", "--tb=long", "--showlocals"
    )

    files = [path for path in pytester.path.rglob("*") if path.is_file()]
    assert result.ret == 1
    assert len(files) > 5
    assert secret not in result.stdout.str() + result.stderr.str()
    assert not [path for path in files if secret.encode() in path.read_bytes()]


def test_without_a_url_the_suites_own_tests_run_undisturbed(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), *sys.path]))
    pytester.makepyfile("def test_other():\n    assert True is not None\n")

    assert pytester.runpytest_subprocess("-p", "certify.plugin").ret == 0
