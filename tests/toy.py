"""A toy deployment and a toy suite of three gates: what the plug-in's tests run, in seconds instead of minutes."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from certify import judging
from certify.evidence import EvidenceView
from certify.plan import Plan, PlanContext, PlannedGate, PlannedTrial
from certify.records import Arm, ChatRequest, Level, Message, Outcome, TrialId, Verdict
from certify.thresholds import Thresholds
from certify.wire.answer import read_answer

GATES = ("PRE-CONTRACT-01", "PERF-C1-01", "PRE-CONTRACT-02")

SUITE = """
import pytest
from tests.toy import ask

@pytest.mark.requirement("PRE-CONTRACT-01")
def test_shape(lane):
    ask(lane.recorder, "PRE-CONTRACT-01")
    lane.judge("PRE-CONTRACT-01")

@pytest.mark.requirement("PERF-C1-01")
def test_speed(lane):
    ask(lane.recorder, "PERF-C1-01")
    lane.judge("PERF-C1-01")

@pytest.mark.requirement("PRE-CONTRACT-02")
def test_laws(lane):
    ask(lane.recorder, "PRE-CONTRACT-02")
    lane.judge("PRE-CONTRACT-02")
"""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class names it so
        """Keep quiet."""

    def _send(self, status: int, body: object, kind: str = "application/json") -> None:
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def do_GET(self) -> None:
        if self.path == "/v1/models":
            self._send(200, {"object": "list", "data": [{"id": "toy", "object": "model", "owned_by": "toy"}]})
        else:
            self._send(404, {"detail": "Not Found"})

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        word = self.server.word(request["messages"][-1]["content"])  # type: ignore[attr-defined]
        usage = {"prompt_tokens": 3, "completion_tokens": 1, "total_tokens": 4}
        choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": word}}
        self._send(200, {"object": "chat.completion", "model": "toy", "choices": [choice], "usage": usage})


@contextmanager
def toy_deployment(bad: str = "") -> Iterator[str]:
    """A deployment that answers "good", or "bad" when asked for the requirement `bad`; yields its URL."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.word = lambda prompt: "bad" if bad and bad in prompt else "good"  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


def ask(recorder: object, requirement: str) -> None:
    """One unary question that names the requirement."""
    request = ChatRequest((Message("user", f"are you good at {requirement}?"),), max_tokens=4, stream=False)
    recorder.ask(TrialId(requirement, "toy", Arm.SERVED, 0), request)  # type: ignore[attr-defined]


def toy_plan(context: PlanContext) -> tuple[PlannedGate, ...]:
    """The toy's gates, one trial each."""
    return tuple(
        PlannedGate(
            one,
            Level.REQUIRED,
            "the answer is good",
            1,
            (PlannedTrial(TrialId(one, "toy", Arm.SERVED, 0), "s", False, "off"),),
            {},
        )
        for one in GATES
    )


def toy_judge(requirement: str) -> judging.Judge:
    """PASS when every answer is good."""

    def judge(view: EvidenceView, plan: Plan, thresholds: Thresholds) -> Verdict:
        trials = list(view.trials(requirement))
        answers = [read_answer(trial.exchange).content for _, trial in trials]
        good = bool(answers) and all(answer == "good" for answer in answers)
        outcome = Outcome.PASS if good else Outcome.FAIL
        return Verdict(
            requirement, outcome, f"answers {answers}, required good", evidence=tuple(seq for seq, _ in trials)
        )

    return judge
