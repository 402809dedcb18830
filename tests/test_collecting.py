"""The collectors of preflight, quality and speculation, against a deployment that answers over real sockets."""

import json
import threading
from contextlib import ExitStack, closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from certify.deployment.client import Deployment
from certify.deployment.recorder import Recorder
from certify.evidence import EvidenceView, EvidenceWriter, Header
from certify.judging import judges
from certify.plan import Plan
from certify.preflight.contract import collect_contract
from certify.preflight.identity import collect_identity
from certify.preflight.ruler import collect_ruler
from certify.preflight.thinking import collect_thinking
from certify.quality.asking import in_parallel
from certify.quality.speculation import collect_arm, collect_copies, collect_pairs
from certify.quality.structured_output import collect_all, collect_scenario
from certify.records import Arm, Outcome
from certify.thresholds import load
from tests import given


class _Answers(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class names it so
        """Keep quiet."""

    def do_GET(self) -> None:
        card = {"id": "m", "object": "model", "owned_by": "vllm", "max_model_len": 8192}
        body = json.dumps({"object": "list", "data": [card]}).encode() if self.path == "/v1/models" else b"{}"
        self._send(200 if self.path == "/v1/models" else 404, "application/json", body)

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked.append(asked)  # type: ignore[attr-defined]
        thinks = asked.get("chat_template_kwargs", {}).get("enable_thinking", False)
        body = given.chat(
            "7", stream=asked.get("stream", False), reasoning="hm" if thinks else "", counts=(10 + thinks, 5)
        )
        self._send(200, "text/event-stream" if asked.get("stream") else "application/json", body)

    def _send(self, status: int, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def server():
    serving = ThreadingHTTPServer(("127.0.0.1", 0), _Answers)
    serving.asked = []  # type: ignore[attr-defined]
    thread = threading.Thread(target=serving.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield serving
    serving.shutdown()
    serving.server_close()
    thread.join()


class Run:
    """A recorder on a fresh chain."""

    def __init__(self, path, server, plan: Plan, arms=(Arm.SERVED,)) -> None:
        self._path, self._plan = path, plan
        self._deployment = Deployment(f"http://127.0.0.1:{server.server_port}", model="m")
        self._deployment.engine = "vllm"
        self._writer = EvidenceWriter.create(path, Header(1, "run", "t", "http://x", {}))
        self.said: list[str] = []
        self._arms = arms
        self.recorder = self._recorder()

    def _recorder(self) -> Recorder:
        deployments = dict.fromkeys(self._arms, self._deployment)
        return Recorder(self._plan, deployments, self._writer, before=self.view(), progress=self.said.append)

    def probed(self) -> "Run":
        _, probes = self._deployment.identify()
        for probe in probes:
            self._writer.probe(probe)
        self.recorder = self._recorder()
        return self

    def close(self) -> None:
        self._writer.close()
        self._deployment.close()

    def view(self) -> EvidenceView:
        return EvidenceView(self._path)

    def trials(self, requirement=""):
        return [trial for _, trial in self.view().trials(requirement)]

    def verdict(self, requirement, thresholds="generic"):
        return judges()[requirement](self.view(), self._plan, load(thresholds))


@pytest.fixture
def run(tmp_path, server):
    with ExitStack() as opened:
        yield lambda plan, **more: opened.enter_context(closing(Run(tmp_path / "evidence.jsonl", server, plan, **more)))


def test_preflight_asks_what_was_planned_and_an_honest_deployment_passes(run):
    started = run(given.plan("smoke")).probed()

    collect_contract(started.recorder)
    collect_thinking(started.recorder)
    collect_identity(started.recorder)

    assert [trial.trial_id.case for trial in started.trials()] == ["stream", "whole", "on", "off", "unsaid"]
    for requirement in ("PRE-CONTRACT-01", "PRE-THINK-01", "PRE-IDENT-01", "PRE-CONTRACT-02"):
        assert started.verdict(requirement).outcome is Outcome.PASS, started.verdict(requirement)


def test_the_ruler_is_calibrated_by_its_own_client(run):
    started = run(given.plan("smoke"))

    collect_ruler(started.recorder)

    verdict = started.verdict("PRE-RULER-01")
    assert verdict.outcome is not Outcome.ERROR, verdict.summary
    assert [figure.n for figure in verdict.figures] == [4, 4]


def test_every_case_is_asked_once_whoever_asks_for_it(run, server):
    started = run(given.plan("gate"))

    collect_all(started.recorder)
    collect_scenario(started.recorder, "QUAL-JSON-01")
    collect_scenario(started.recorder, "QUAL-TOOL-05")

    assert len(started.trials("QUAL-ENV-01")) == len(server.asked) == 30
    assert len(started.trials("QUAL-JSON-01")) == 10
    assert started.said[-1] == "quality: 10 of 10 answers"


def test_both_modes_ask_the_same_question_with_their_caps(run, server):
    started = run(given.plan("demo"))

    collect_scenario(started.recorder, "QUAL-SCHEMA-02")

    assert sorted(asked["max_tokens"] for asked in server.asked) == [360, 360, 392, 392]
    assert len({asked["messages"][-1]["content"] for asked in server.asked}) == 2
    assert sum(asked.get("stream", False) for asked in server.asked) == 2


def test_the_demo_asks_its_envelope_of_constrained_answers(run):
    started = run(given.plan("demo"))

    collect_all(started.recorder)

    assert {trial.trial_id.requirement for trial in started.trials("QUAL-ENV-01")} == {"QUAL-SCHEMA-02"}
    assert len(started.trials("QUAL-VALUE-01")) == 8


def test_arms_that_this_run_cannot_ask_are_not_asked(run, server):
    started = run(given.plan("demo", has_spec_off=True))

    collect_copies(started.recorder)
    collect_pairs(started.recorder)

    assert {trial.trial_id.arm for trial in started.trials()} == {Arm.SERVED}
    assert len(server.asked) == 1


def test_the_other_arm_records_copies_pairs_and_its_totals(run):
    started = run(given.plan("demo", has_spec_off=True), arms=(Arm.SPEC_OFF,))

    collect_arm(started.recorder)

    assert {trial.trial_id.arm for trial in started.trials()} == {Arm.SPEC_OFF}
    assert len(started.trials("QUAL-SPEC-01")) == 1
    assert len(started.trials("QUAL-SPEC-05")) == 2
    assert [sample.name for _, sample in started.view().samples()] == ["spec:before", "spec:after"]


def test_at_most_so_many_run_at_once_and_the_first_error_ends_them_all(run):
    started = run(given.plan("demo"))
    together = threading.Barrier(2, timeout=10)
    begun: list[int] = []

    def pair():
        begun.append(1)
        together.wait()

    in_parallel([pair] * 4, 2, started.recorder)  # with one at a time the barrier would break
    assert len(begun) == 4

    def broken():
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        in_parallel([broken], 1, started.recorder)
