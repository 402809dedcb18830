"""The judge reads raw evidence, plan and thresholds alone; answers to other questions are none."""

import ast
import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path

import pytest

from certify.child import package_environment
from certify.codec import canonical, parse_json
from certify.controller import open_thresholds
from certify.embedded.simulator import start_simulated
from certify.evidence import EvidenceView
from certify.judging import judge
from certify.plan import Plan, from_bytes
from certify.records import Outcome, Verdict
from certify.thresholds import Thresholds

PACKAGE = Path(__file__).parent.parent / "certify"
Change = Callable[[dict], None]


@dataclass(frozen=True)
class Ended:
    """A run against the simulated pair, as its files tell it."""

    folder: Path
    plan: Plan
    bars: Thresholds

    def view(self) -> EvidenceView:
        return EvidenceView(self.folder / "evidence.jsonl")

    def verdicts(self, view: EvidenceView) -> tuple[Verdict, ...]:
        return tuple(judge(gate.requirement, view, self.plan, self.bars) for gate in self.plan.gates)

    def verdict(self, requirement: str, view: EvidenceView) -> Verdict:
        return judge(requirement, view, self.plan, self.bars)


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Ended:
    folder = tmp_path_factory.mktemp("pure")
    with (
        start_simulated("spec-on", folder, time_scale=0.2) as on,
        start_simulated("spec-off", folder, time_scale=0.2) as off,
    ):
        command = [
            *(sys.executable, "-m", "certify", "run", "--base-url", on.base_url, "--spec-off-url", off.base_url),
            *("--profile", "demo", "--thresholds", "demo", "--keep-going", "--reports", str(folder)),
        ]
        said = subprocess.run(command, capture_output=True, text=True, env=package_environment(), check=False)
    path = next(folder.glob("*/report.html"), None)
    assert path is not None, said.stdout + said.stderr
    plan = from_bytes((path.parent / "plan.json").read_bytes())
    return Ended(path.parent, plan, open_thresholds(path.parent, plan))


def rewritten(source: Path, target: Path, change: Change) -> EvidenceView:
    """The chain after a change to each of its records, its digests made anew: what a forger would hand in."""
    head = ""
    with target.open("wb") as handle:
        for line in source.read_bytes().splitlines():
            record = parse_json(line)
            change(record)
            raw = canonical(record | {"prev": head})
            head = sha256(raw).hexdigest()
            handle.write(raw + b"\n")
    return EvidenceView(target)


def strip(record: dict) -> None:
    """Take out all that the suite computed or noted beside what came over the wire."""
    record["at_us"] = 0
    data = record["data"]
    blanks = {
        "header": {"client": {}, "suite_version": "", "base_url": ""},
        "probe": {"elapsed_ns": 0},
        "sample": {"at_us": 0},
        "event": {"detail": {"sha256": data["detail"]["sha256"]} if data.get("name") == "plan-locked" else {}},
        "exchange": {},
    }
    data |= {key: value for key, value in blanks.get(record["kind"], {}).items() if key in data}
    if record["kind"] == "exchange":
        kept = {"words", "dropped", "pad", "group"}  # what makes the prompt again
        data["recipe"] = {key: value for key, value in data["recipe"].items() if key in kept}
        data["exchange"] |= {"request_sha256": "", "request_bytes": 0, "sent_at_us": 0, "headers_ns": None}
        data["exchange"] |= {"body_sha256": ""}


def test_without_every_derived_field_the_verdicts_are_the_same(ended: Ended, tmp_path: Path) -> None:
    stripped = rewritten(ended.folder / "evidence.jsonl", tmp_path / "evidence.jsonl", strip)

    before, after = ended.verdicts(ended.view()), ended.verdicts(stripped)
    run_id_alone = [replace(one, action="") for one in after]
    assert run_id_alone == [replace(one, action="") for one in before]
    assert {one.outcome for one in before} >= {Outcome.PASS}


def asked(record: dict, requirement: str) -> dict:
    """The exchange of a record of this requirement, an empty one of every other."""
    data = record["data"]
    mine = record["kind"] == "exchange" and data["trial_id"]["requirement"] == requirement
    return data["exchange"] if mine else {"request_body": "", "asked": {}}


def other_text(record: dict) -> None:
    for requirement in ("QUAL-SCHEMA-02", "PERF-C1-01", "LCTX-USAGE-01", "PRE-THINK-01", "PERF-CACHE-01"):
        exchange = asked(record, requirement)
        body = json.loads(exchange["request_body"] or '{"messages": [{}]}')
        body["messages"][-1]["content"] = "Say hello."
        exchange["request_body"] = exchange["request_body"] and json.dumps(body)


@pytest.mark.parametrize(
    "requirement", ["QUAL-SCHEMA-02", "PERF-C1-01", "LCTX-USAGE-01", "PRE-THINK-01", "PERF-CACHE-01"]
)
def test_answers_to_another_question_are_none(ended: Ended, tmp_path: Path, requirement: str) -> None:
    forged = rewritten(ended.folder / "evidence.jsonl", tmp_path / "evidence.jsonl", other_text)

    found = ended.verdict(requirement, forged)
    assert (found.outcome, "not the question of the plan" in found.summary) == (Outcome.ERROR, True), found.summary


def otherwise(field: str, value: object) -> Change:
    def change(record: dict) -> None:
        asked(record, "PRE-CONTRACT-01")["asked"] |= {field: value}

    return change


@pytest.mark.parametrize(("field", "value"), [("stream", True), ("thinking", "on"), ("max_tokens", 7)])
def test_a_question_asked_otherwise_than_planned_is_none(
    ended: Ended, tmp_path: Path, field: str, value: object
) -> None:
    forged = rewritten(ended.folder / "evidence.jsonl", tmp_path / "evidence.jsonl", otherwise(field, value))

    assert ended.verdict("PRE-CONTRACT-01", forged).outcome is Outcome.ERROR


def again(record: dict) -> None:
    """The second pass over the corpus under the name of the third: the slower one vanishes."""
    place = record["data"].get("trial_id", {"requirement": ""})
    moved = {("PERF-C1-01", 2): 3}
    place |= {"repeat": moved.get((place["requirement"], place.get("repeat")), place.get("repeat"))}


def test_a_trial_asked_twice_is_no_measurement(ended: Ended, tmp_path: Path) -> None:
    forged = rewritten(ended.folder / "evidence.jsonl", tmp_path / "evidence.jsonl", again)

    found = ended.verdict("PERF-C1-01", forged)
    assert found.outcome is Outcome.ERROR
    assert "not the question of the plan" in found.summary


def test_a_challenge_that_did_not_seed_the_cases_is_found_out(ended: Ended) -> None:
    claimed = replace(ended.plan, challenge="the reader's nonce")

    found = judge("QUAL-SCHEMA-02", ended.view(), claimed, ended.bars)
    assert "its seed does not follow from the run's seed and challenge" in found.summary


IMPURE = {"time", "datetime", "random", "secrets", "os", "socket", "httpx", "urllib", "subprocess", "threading", "uuid"}
PURE = ("judging", "cases", "wire", "records.py", "codec.py", "stats.py", "plan.py", "requirements.py", "visible.py")


def imported(path: Path) -> set[str]:
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    plain = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    return {name.partition(".")[0] for name in plain} | {
        (node.module or "").partition(".")[0] for node in nodes if isinstance(node, ast.ImportFrom)
    }


@pytest.mark.parametrize("place", PURE)
def test_what_judges_knows_no_clock_chance_environment_or_network(place: str) -> None:
    paths = [path for path in PACKAGE.rglob("*.py") if path.relative_to(PACKAGE).parts[0] == place]

    assert paths
    assert not {path.name: imported(path) & IMPURE for path in paths if imported(path) & IMPURE}
