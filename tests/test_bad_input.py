"""Bad input at the front doors, with real small servers: one clear line, the right exit code, evidence kept."""

import fcntl
import gzip
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from certify.evidence import EvidenceView
from tests.raw_server import replying, serving
from tests.toy import toy_deployment

ROOT = Path(__file__).parent.parent
HOSTILE = "<script>\x1b]0;owned\x07\x1b[31m\u202e"
TOY = ("-p", "tests.toy_plugin", "-p", "certify.plugin", "-p", "no:cacheprovider")


def command(*arguments: str, folder: Path, **environment: str) -> subprocess.Popen[str]:
    shut_off = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    return subprocess.Popen(
        [sys.executable, *arguments],
        cwd=folder,
        env={**shut_off, "PYTHONPATH": str(ROOT), **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # noqa: PLW1509 - a shell's background job ignores it
    )


def certify(*arguments: str, folder: Path) -> tuple[int, str]:
    process = command("-m", "certify", *arguments, folder=folder)
    said, _ = process.communicate(timeout=60)
    assert "Traceback" not in said
    return process.returncode, said


def test_a_refusal_is_told_once_and_its_escapes_stay_out_of_the_terminal(tmp_path):
    with serving(replying({"error": {"message": HOSTILE}}, status=401)) as server:
        code, said = certify("run", "--base-url", server.url, folder=tmp_path)

    assert code == 11
    assert said.count("the key is missing or refused; name the variable") == 1
    assert not {"\x1b", "\x07", "\u202e"} & set(said)
    assert list(tmp_path.rglob("evidence.jsonl"))


def test_a_compressed_answer_is_named_as_such(tmp_path):
    with serving(replying(gzip.compress(b'{"data":[{"id":"toy"}]}'))) as server:
        code, said = certify("run", "--base-url", server.url, folder=tmp_path)

    assert code == 11
    assert "gave a compressed answer that nobody asked for" in said


def test_a_lone_surrogate_in_a_configuration_page_is_kept_as_evidence(tmp_path):
    models = {"object": "list", "data": [{"id": "toy"}]}
    pages = {"/v1/models": models, "/server_info?config_format=json": {"model_path": "\ud800"}}
    with serving(lambda to, asked: to.reply(pages.get(asked.path, {}), 200 if asked.path in pages else 404)) as server:
        code, said = certify("run", "--base-url", server.url, folder=tmp_path)

    assert code == 11, said
    assert "no such model or no chat completions there" in said


@pytest.mark.parametrize("arguments", [("--port", "99999"), ("--port", "-5")])
def test_a_port_that_cannot_be_is_one_line(tmp_path, arguments):
    code, said = certify("simulate", *arguments, folder=tmp_path)

    assert code == 4
    assert "leave --port out for a free one" in said


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [((), 4, "certify demo"), (("--collect-only", "-q"), 0, "test_contract.py::")],
    ids=["without a URL", "collected"],
)
def test_the_suites_folder_is_the_front_door(arguments, code, words):
    process = command("-m", "pytest", "-p", "no:cacheprovider", str(ROOT / "certify"), *arguments, folder=ROOT)
    said, _ = process.communicate(timeout=60)

    assert process.returncode == code, said
    assert words in said


def toy_run(url: str, folder: Path, *arguments: str) -> tuple[int, str]:
    (folder / "test_toy.py").write_text("from tests.toy import SUITE\nexec(SUITE)\n")
    base = ("--base-url", url) if url else ()
    process = command("-m", "pytest", *TOY, "test_toy.py", *base, *arguments, folder=folder)
    said, _ = process.communicate(timeout=60)
    return process.returncode, said


@pytest.mark.slow
def test_a_failure_is_told_once_on_the_terminal_and_whole_in_junit(tmp_path):
    with toy_deployment(bad="PERF-C1-01") as url:
        code, said = toy_run(url, tmp_path, "--junitxml", "own.xml")

    assert code == 1, said
    assert said.count("repeat: certify run") == 1
    assert "repeat: certify run" in (tmp_path / "own.xml").read_text()


@pytest.fixture(scope="module")
def stopped(tmp_path_factory) -> Path:
    """The folder of a run in which one gate is missing."""
    folder = tmp_path_factory.mktemp("stopped")
    with toy_deployment() as url:
        toy_run(url, folder, "-k", "shape")
    return next((folder / "reports").iterdir())


def broken_copy(stopped: Path, folder: Path, name: str, content: str) -> Path:
    copy = folder / "run"
    copy.mkdir()
    for path in stopped.iterdir():
        (copy / path.name).write_bytes(path.read_bytes())
    (copy / name).unlink()
    (copy / name).write_text(content) if content else None
    return copy


BROKEN = {
    "a junk plan": ("plan.json", "junk", "is no plan of this version"),
    "junk evidence": ("evidence.jsonl", "junk\n", "line 1"),
    "no evidence": ("evidence.jsonl", "", "its evidence.jsonl is gone"),
    "no thresholds": ("thresholds.toml", "", "cannot be read"),
    "other thresholds": ("thresholds.toml", "schema = 1\n", "thresholds.toml"),
}


@pytest.mark.parametrize(("name", "content", "words"), BROKEN.values(), ids=BROKEN.keys())
def test_a_broken_folder_is_not_resumed(stopped, tmp_path, name, content, words):
    copy = broken_copy(stopped, tmp_path, name, content)
    code, said = certify("run", "--resume", str(copy), folder=tmp_path)

    assert code == 4, said
    assert words in said


def test_a_folder_in_which_a_run_works_is_not_resumed(stopped, tmp_path):
    with (stopped / ".run").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        code, said = certify("run", "--resume", str(stopped), folder=tmp_path)

    assert code == 4, said
    assert "another certify run works in it" in said


def test_a_deployment_that_is_gone_is_not_resumed(stopped, tmp_path):
    code, said = certify("run", "--resume", str(stopped), folder=tmp_path)

    assert code == 11, said
    assert "is the server running" in said


def test_evidence_of_this_arm_is_not_taken_for_the_other(stopped, tmp_path):
    chain = stopped / "evidence.jsonl"
    with toy_deployment() as url:
        code, said = certify("run", "--base-url", url, "--spec-off-evidence", str(chain), folder=tmp_path)

    assert code == 4, said
    assert "not a complete record of the arm without speculation" in said


def test_another_arm_that_is_unreachable_is_known_before_the_run(tmp_path):
    with toy_deployment() as url:
        code, said = certify("run", "--base-url", url, "--spec-off-url", "http://127.0.0.1:9", folder=tmp_path)

    assert code == 11, said
    assert "--spec-off-url: GET http://127.0.0.1:9" in said


SLOW = """
import pytest, time
from tests.toy import ask

@pytest.mark.requirement("PRE-CONTRACT-01")
def test_shape(lane):
    ask(lane.recorder, "PRE-CONTRACT-01")
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        time.sleep(0.02)
"""


@pytest.mark.slow
@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM], ids=["Ctrl-C", "SIGTERM"])
def test_a_stopped_run_leaves_its_certificate(tmp_path, sign):
    (tmp_path / "test_toy.py").write_text(SLOW)
    with toy_deployment() as url:
        process = command("-m", "pytest", *TOY, "test_toy.py", "--base-url", url, folder=tmp_path)
        deadline = time.monotonic() + 30
        while not any(b'"exchange"' in path.read_bytes() for path in tmp_path.rglob("evidence.jsonl")):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        process.send_signal(sign)
        said, _ = process.communicate(timeout=30)

    report = Path(said.splitlines()[-1].removeprefix("report: "))
    footer = list(EvidenceView(report.parent / "evidence.jsonl").records("footer"))[-1]
    assert process.returncode == 10, said
    assert report.is_file()
    assert footer.data["status"] == "interrupted"
