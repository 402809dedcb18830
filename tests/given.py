"""Evidence made by hand: raw bodies of answers, put into a real chain; and plans by the real planners."""

import json
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

from certify.evidence import EvidenceView, EvidenceWriter, Header
from certify.plan import SCHEMA, Plan, PlanContext
from certify.preflight import plans as preflight_plans
from certify.quality import plans as quality_plans
from certify.records import (
    Arm,
    Asked,
    Exchange,
    Failure,
    FailureKind,
    Probe,
    Reads,
    Sample,
    Thinking,
    Trial,
    TrialId,
)
from certify.thresholds import METRICS, Thresholds, parse

ASKED = Asked(
    stream=True,
    max_tokens=100,
    thinking=Thinking.UNSAID,
    thinking_budget_tokens=None,
    ignore_eos=False,
    tools=(),
    tool_choice="",
    constrained=False,
)
NO_BARS = parse("schema = 1\n[sets.none]", "none", "test")


def bars(requirement, **metrics: str) -> Thresholds:
    """A threshold set with bounds on one requirement: `share_right="floor = 85"`."""
    text = "schema = 1\n" + "".join(
        f'[sets.t."{requirement}".{metric}]\n{bound}\nunit = "{METRICS[requirement, metric]}"\nsource = "test"\n'
        for metric, bound in metrics.items()
    )
    return parse(text, "t", "test")


def context(profile="gate", *, has_spec_off=False, **more) -> PlanContext:
    given = {
        "seed": "s",
        "challenge": "",
        "context_tokens": None,
        "engine": "vllm",
        "max_sequences": None,
        "declared": {},
        "budget_s": None,
    }
    return PlanContext(profile=profile, has_spec_off=has_spec_off, **{**given, **more})


def plan(profile="gate", *, declared=None, has_spec_off=False) -> Plan:
    made = context(profile, has_spec_off=has_spec_off, declared=declared or {})
    return Plan(
        schema=SCHEMA,
        suite_version="t",
        registry_version="t",
        judge_version="t",
        profile=profile,
        arm=Arm.SERVED,
        base_url="http://x",
        spec_off_url="",
        model="m",
        engine="vllm",
        seed="s",
        challenge="",
        thresholds_set="t",
        thresholds_sha256="",
        declared=dict(declared or {}),
        context_tokens=None,
        gates=(*preflight_plans.plan_gates(made), *quality_plans.plan_gates(made)),
        absent=(),
        attached={},
        diagnostic=(),
        locked_at_us=0,
    )


def exchange(body: bytes, *, asked=ASKED, status=200, failure=None, reads=None, **changes) -> Exchange:
    """An exchange with this raw body; `changes` are facts of the request."""
    asked = replace(asked, **changes)
    kind = "text/event-stream" if body.startswith((b"data:", b":")) else "application/json"
    return Exchange(
        asked=asked,
        request_sha256="",
        request_body="{}",
        request_bytes=2,
        sent_at_us=1,
        status=status,
        content_type=kind,
        body=body,
        body_bytes=len(body),
        body_sha256=sha256(body).hexdigest(),
        reads=reads or Reads((len(body),), (1000,), ()),
        headers_ns=500,
        ended_ns=2000,
        failure=failure,
    )


CUT = Failure(FailureKind.BROKEN, "the peer closed the connection")
STOPPED = Failure(FailureKind.INTERRUPTED, "the run was stopped")


def usage(prompt=10, completion=5, **details) -> dict:
    told = {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}
    return told | details


def sse(content="hello there", *, reasoning="", finish="stop", counts=(10, 5), calls=None, tail=b"", **more) -> bytes:
    """A whole stream: role, reasoning, content, finish, usage, done."""
    counted = counts if isinstance(counts, dict) or counts is None else usage(*counts)
    deltas = [{"role": "assistant", "content": ""}]
    deltas += [{"reasoning_content": reasoning}] if reasoning else []
    deltas += [{"content": content}] if content else []
    deltas += [{"tool_calls": calls}] if calls else []
    events = [_event([{"index": 0, "delta": delta, "finish_reason": None}], **more) for delta in deltas]
    events += [_event([{"index": 0, "delta": {}, "finish_reason": finish}], **more)] if finish else []
    events += [_event([], usage=counted, **more)] if counted else []
    return b"".join(events) + (tail or b"data: [DONE]\n\n")


def _event(choices, *, model="m", **more) -> bytes:
    value = {
        "id": "c",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": model,
        "choices": choices,
        **more,
    }
    return b"data: " + json.dumps(value).encode() + b"\n\n"


def whole(
    content="hello there", *, reasoning="", counts=(10, 5), finish="stop", calls=None, model="m", **more
) -> bytes:
    """A chat completion in one body."""
    message = {"role": "assistant", "content": content}
    message |= {"reasoning_content": reasoning} if reasoning else {}
    message |= {"tool_calls": calls} if calls else {}
    choice = {"index": 0, "message": message, "finish_reason": finish}
    body = {"id": "c", "object": "chat.completion", "created": 1, "model": model, "choices": [choice], **more}
    return json.dumps(body | ({"usage": usage(*counts)} if counts else {})).encode()


def chat(content="hello there", *, stream=True, **more) -> bytes:
    """The same answer, streamed or whole."""
    return (sse if stream else whole)(content, **more)


def error(message, status_type="BadRequestError", code=400) -> bytes:
    return json.dumps({"error": {"message": message, "type": status_type, "code": code}}).encode()


class Chain:
    """Evidence in the making."""

    def __init__(self, folder: Path, name="evidence.jsonl") -> None:
        self._path = folder / name
        self._writer = EvidenceWriter.create(self._path, Header(1, "run", "t", "http://x", {}))

    def trial(self, requirement, case, made: Exchange, *, arm=Arm.SERVED, repeat=0, serves=(), warm_up=False, **recipe):
        place = TrialId(requirement, case, arm, repeat)
        return self._writer.trial(Trial(place, (requirement, *serves), warm_up, dict(recipe), made))

    def probe(self, name, path, body, status=200):
        return self._writer.probe(Probe(name, "GET", path, status, "application/json", body, 1))

    def sample(self, name, text, arm=Arm.SERVED):
        return self._writer.sample(Sample(name, arm, 1, 200, text))

    def view(self, **attached: "Chain") -> EvidenceView:
        self._writer.close()
        return EvidenceView(self._path, {name.replace("_", "-"): chain.view() for name, chain in attached.items()})
