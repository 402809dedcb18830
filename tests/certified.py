"""A run made by hand: real evidence, plan and thresholds, judged by a toy judge that counts the answers saying `ok`."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import certify
from certify import judging
from certify.codec import digest
from certify.evidence import EvidenceView, EvidenceWriter, Header
from certify.plan import Absence, Plan, PlannedGate
from certify.records import (
    Arm,
    Asked,
    Event,
    Exchange,
    Figure,
    Finding,
    Outcome,
    Probe,
    Reads,
    Thinking,
    Trial,
    TrialId,
    Verdict,
)
from certify.report.certificate import write_run
from certify.report.seal import KeyFile, Signer, allowed_signers_line
from certify.requirements import REGISTRY_VERSION, planned
from certify.thresholds import Thresholds, load

MODELS = '{"object":"list","data":[{"id":"toy-7b","object":"model","owned_by":"vllm","max_model_len":8192}]}'
ISSUED_US = 1_800_000_000_000_000  # 2027-01-15T08:00:00Z
BOUND = ("PERF-CACHE-01", "cold_over_warm_ttft")


def exchange(text: str) -> Exchange:
    body = text.encode()
    asked = Asked(
        stream=False, max_tokens=8, thinking=Thinking.UNSAID, thinking_budget_tokens=None, ignore_eos=False,
        tools=(), tool_choice="", constrained=False,
    )  # fmt: skip
    return Exchange(
        asked, digest(b"{}"), "{}", 2, ISSUED_US, 200, "application/json", body, len(body),
        hashlib.sha256(body).hexdigest(), Reads((len(body),), (1_000,)), 900, 1_100,
    )  # fmt: skip


def toy_judge(requirement: str) -> judging.Judge:
    def judge_it(view: EvidenceView, plan: Plan, thresholds: Thresholds) -> Verdict:
        trials = list(view.trials(requirement))
        wrong = [(seq, trial) for seq, trial in trials if trial.exchange.body != b"ok"]
        bound = thresholds.bound(*BOUND)
        return Verdict(
            requirement,
            Outcome.FAIL if wrong else Outcome.PASS,
            f"{len(trials) - len(wrong)} of {len(trials)} answers say ok",
            rule="every answer says ok",
            figures=(Figure("cold_over_warm_ttft", 300, 2, "x", len(trials), "by hand", "toys", 250, 350, "95 %"),),
            bounds=(bound,) if bound else (),
            findings=tuple(
                Finding(f"{trial.exchange.body.decode('utf-8', 'backslashreplace')} is not ok", (seq,),
                        trial.exchange.body.decode("utf-8", "backslashreplace"))
                for seq, trial in wrong
            ),
            cause="a toy" if wrong else "",
            action="say ok" if wrong else "",
            evidence=tuple(seq for seq, _ in trials),
        )  # fmt: skip

    return judge_it


def toy_judges() -> dict[str, judging.Judge]:
    return {requirement.id: toy_judge(requirement.id) for requirement in planned("full")}


def toy_plan(thresholds: Thresholds, **changes: object) -> Plan:
    gates = tuple(
        PlannedGate(requirement.id, requirement.level("smoke"), "one answer", 1, (), {})
        for requirement in planned("smoke")
    )
    plan = Plan(
        schema=1, suite_version=certify.__version__, registry_version=REGISTRY_VERSION,
        judge_version=judging.JUDGE_VERSION, profile="smoke", arm=Arm.SERVED, base_url="http://127.0.0.1:9",
        spec_off_url="", model="toy-7b", engine="vllm", seed="5eed", challenge="", thresholds_set=thresholds.name,
        thresholds_sha256=thresholds.sha256, declared={"tp": 2, "share": 0.5}, context_tokens=8192, gates=gates,
        absent=(Absence("QUAL-SPEC-05", "no other arm was given"),), attached={}, diagnostic=(),
        locked_at_us=ISSUED_US,
    )  # fmt: skip
    return replace(plan, **changes)  # type: ignore[arg-type]


@dataclass(frozen=True)
class ToyRun:
    folder: Path
    report: Path
    trust: Path
    plan: Plan
    view: EvidenceView
    thresholds: Thresholds
    verdicts: tuple[Verdict, ...]
    signer: Signer | None


def toy_view(
    folder: Path, plan: Plan, answers: Sequence[str] = ("ok",), *, model_page: str = MODELS, status: str = "complete"
) -> EvidenceView:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "evidence.jsonl"
    header = Header(1, "toy", certify.__version__, plan.base_url, {"python": "3.11", "load": 0.25})
    with EvidenceWriter.create(path, header) as writer:
        writer.probe(
            Probe("identity:/v1/models", "GET", "/v1/models", 200, "application/json", model_page, elapsed_ns=1)
        )
        writer.event(Event("plan-locked", detail={"sha256": plan.sha256}))
        for gate in plan.gates:
            for repeat, answer in enumerate(answers):
                trial_id = TrialId(gate.requirement, "toy", Arm.SERVED, repeat)
                writer.trial(Trial(trial_id, (gate.requirement,), warm_up=False, recipe={}, exchange=exchange(answer)))
            writer.event(Event("gate-finished", gate.requirement))
        writer.footer(status)
    return EvidenceView(path)


def toy_run(
    folder: Path,
    answers: Sequence[str] = ("ok",),
    *,
    signer: Signer | None = None,
    thresholds: Thresholds | None = None,
    changes: dict[str, object] | None = None,
    view_changes: dict[str, str] | None = None,
    **options: object,
) -> ToyRun:
    """A run whose files lie in `folder`; the caller has put `toy_judges` in place of the suite's."""
    bars = thresholds or load("generic")
    plan = toy_plan(bars, **(changes or {}))
    view = toy_view(folder, plan, answers, **(view_changes or {}))
    verdicts = tuple(judging.judge(gate.requirement, view, plan, bars) for gate in plan.gates)
    report = write_run(folder, plan, view, bars, verdicts, signer=signer, issued_at_us=ISSUED_US, **options)
    trust = folder.parent / f"{folder.name}.trust"
    trust.write_text(allowed_signers_line(signer) if signer else "", encoding="utf-8")
    return ToyRun(folder, report, trust, plan, view, bars, verdicts, signer)


def toy_pair(folder: Path, signer: Signer | None = None) -> ToyRun:
    """A run that binds the evidence of another arm."""
    bars = load("generic")
    other = toy_view(folder / "other", toy_plan(bars))
    plan = toy_plan(bars, attached={"spec-off": other.head_sha256})
    view = EvidenceView(toy_view(folder / "run", plan).path, {"spec-off": other})
    verdicts = tuple(judging.judge(gate.requirement, view, plan, bars) for gate in plan.gates)
    report = write_run(folder / "run", plan, view, bars, verdicts, signer=signer, issued_at_us=ISSUED_US)
    return ToyRun(folder / "run", report, folder / "none", plan, view, bars, verdicts, signer)


def new_signer(name: str = "tester@example.org") -> KeyFile:
    return KeyFile.generate(name)
