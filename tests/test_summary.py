"""The overall outcome (exit codes 0, 1, 10), and what is written for a PR and for a CI server."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from certify import judging
from certify.evidence import EvidenceView, EvidenceWriter, Header
from certify.judging.summary import Overall, overall, worst
from certify.plan import Absence, Plan, PlannedGate
from certify.records import Arm, Event, Level, Outcome, Trial, TrialId, Verdict
from certify.report.junit import junit_xml
from certify.report.shown import markdown
from certify.report.statement import Certificate, from_bytes
from certify.requirements import planned
from certify.thresholds import load
from tests.certified import BOUND, exchange, new_signer, toy_judges, toy_plan, toy_run, toy_view

REQUIRED, REPORTED = "PRE-CONTRACT-01", "QUAL-JSON-01"


@pytest.fixture(autouse=True)
def _toys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judging, "judges", toy_judges)


def judged(plan: Plan, **outcomes: Outcome) -> list[Verdict]:
    named = {key.replace("_", "-"): outcome for key, outcome in outcomes.items()}
    return [
        Verdict(gate.requirement, named.get(gate.requirement, Outcome.PASS), "by hand")
        for gate in plan.gates
        if named.get(gate.requirement, "") is not None
    ]


def outcome_of(folder: Path, plan: Plan, status: str = "complete", **outcomes: Outcome) -> Overall:
    return overall(plan, judged(plan, **outcomes), toy_view(folder, plan, status=status))


@pytest.fixture
def plan() -> Plan:
    return toy_plan(load("generic"))


def without(plan: Plan, requirement: str) -> Plan:
    return replace(plan, gates=tuple(gate for gate in plan.gates if gate.requirement != requirement))


def leveled(plan: Plan, requirement: str, level: Level) -> Plan:
    gates = tuple(replace(gate, level=level) if gate.requirement == requirement else gate for gate in plan.gates)
    return replace(plan, gates=gates)


def test_a_whole_run_without_a_flaw_is_certified(tmp_path: Path, plan: Plan) -> None:
    found = outcome_of(tmp_path, plan)

    assert (found.outcome, found.exit_code, found.reasons, found.counts) == ("CERTIFIED", 0, (), {"PASS": 13})


@pytest.mark.parametrize("level", [Level.REQUIRED, Level.GUARDED])
def test_a_fail_that_decides_is_1(tmp_path: Path, plan: Plan, level: Level) -> None:
    found = outcome_of(tmp_path, leveled(plan, REPORTED, level), QUAL_JSON_01=Outcome.FAIL)

    assert (found.outcome, found.exit_code) == ("NOT CERTIFIED", 1)
    assert found.reasons == ("QUAL-JSON-01 FAIL: by hand",)


def test_a_fail_stays_1_in_an_incomplete_run(tmp_path: Path, plan: Plan) -> None:
    assert (
        outcome_of(tmp_path, without(plan, "PRE-RULER-01"), "interrupted", PRE_CONTRACT_01=Outcome.FAIL).exit_code == 1
    )


def test_a_fail_that_is_only_reported_does_not_decide(tmp_path: Path, plan: Plan) -> None:
    assert outcome_of(tmp_path, plan, QUAL_JSON_01=Outcome.FAIL).exit_code == 0


def test_not_applicable_does_not_prevent_certification(tmp_path: Path, plan: Plan) -> None:
    assert outcome_of(tmp_path, plan, PRE_THINK_01=Outcome.NOT_APPLICABLE).exit_code == 0


@pytest.mark.parametrize("outcome", [Outcome.INCONCLUSIVE, Outcome.ERROR, Outcome.WAIVED, Outcome.NOT_RUN])
def test_a_required_requirement_that_carries_nothing_is_10(tmp_path: Path, plan: Plan, outcome: Outcome) -> None:
    found = outcome_of(tmp_path, plan, PRE_CONTRACT_01=outcome)

    assert (found.outcome, found.exit_code) == ("INCOMPLETE", 10)


@pytest.mark.parametrize("outcome", [Outcome.INCONCLUSIVE, Outcome.ERROR, Outcome.NOT_RUN])
def test_a_guarded_requirement_decides_only_by_a_fail(tmp_path: Path, plan: Plan, outcome: Outcome) -> None:
    assert outcome_of(tmp_path, leveled(plan, REPORTED, Level.GUARDED), QUAL_JSON_01=outcome).exit_code == 0


GAPS: dict[str, Callable[[Plan], Plan]] = {
    "diagnostic option": lambda plan: replace(plan, diagnostic=("--only",)),
    "requirement left out": lambda plan: without(plan, REQUIRED),
    "requirement told absent without a right to": lambda plan: replace(
        without(plan, REQUIRED), absent=(Absence(REQUIRED, "no time"),)
    ),
    "level lowered": lambda plan: leveled(plan, REQUIRED, Level.REPORTED),
    "unknown profile": lambda plan: replace(plan, profile="easy"),
    "only the other arm": lambda plan: replace(plan, arm=Arm.SPEC_OFF),
    "bound evidence missing": lambda plan: replace(plan, attached={"spec-off": "0" * 64}),
}


@pytest.mark.parametrize("change", GAPS.values(), ids=GAPS)
def test_a_gap_is_10(tmp_path: Path, plan: Plan, change: Callable[[Plan], Plan]) -> None:
    found = outcome_of(tmp_path, change(plan))

    assert (found.outcome, found.exit_code) == ("INCOMPLETE", 10)
    assert found.reasons


def test_an_interrupted_run_is_10(tmp_path: Path, plan: Plan) -> None:
    assert outcome_of(tmp_path, plan, "interrupted").exit_code == 10


def test_a_missing_verdict_is_10(tmp_path: Path, plan: Plan) -> None:
    found = overall(plan, judged(plan)[1:], toy_view(tmp_path, plan))

    assert found.reasons == (f"{plan.gates[0].requirement} has no verdict",)


def test_a_diagnostic_event_is_10(tmp_path: Path, plan: Plan) -> None:
    view = toy_view(tmp_path, plan)
    with EvidenceWriter.reopen(view.path, reason="test") as writer:
        writer.event(Event("diagnostic", detail={"reason": "-k"}))
        writer.footer("complete")

    assert overall(plan, judged(plan), EvidenceView(view.path)).reasons == ("diagnostic run: -k",)


@pytest.mark.parametrize("requirement", ["PRE-THINK-01", "PRE-RULER-01"])
def test_what_is_required_may_not_be_absent(tmp_path: Path, plan: Plan, requirement: str) -> None:
    lacking = replace(without(plan, requirement), absent=(Absence(requirement, "not given"),))

    assert outcome_of(tmp_path, lacking).exit_code == 10


@pytest.mark.parametrize(("given_as", "code"), [("", 0), ("http://127.0.0.1:8", 10)])
def test_at_the_gate_the_other_arm_may_be_absent_if_it_was_not_given(
    tmp_path: Path, plan: Plan, given_as: str, code: int
) -> None:
    arm = ("QUAL-SPEC-01", "QUAL-SPEC-05")
    gates = tuple(
        PlannedGate(one.id, one.level("gate"), "one answer", 1, (), {}) for one in planned("gate") if one.id not in arm
    )
    absent = tuple(Absence(one, "not given") for one in arm)
    lacking = replace(plan, profile="gate", gates=gates, absent=absent, spec_off_url=given_as)

    assert outcome_of(tmp_path, lacking).exit_code == code


def test_a_plan_locked_after_the_first_request_is_10(tmp_path: Path, plan: Plan) -> None:
    header = Header(1, "late", "0", plan.base_url, {})
    trial = Trial(
        TrialId(REQUIRED, "toy", Arm.SERVED, 0), (REQUIRED,), warm_up=False, recipe={}, exchange=exchange("ok")
    )
    with EvidenceWriter.create(tmp_path / "evidence.jsonl", header) as writer:
        writer.trial(trial)
        writer.event(Event("plan-locked", detail={"sha256": plan.sha256}))
        writer.footer("complete")

    found = overall(plan, judged(plan), EvidenceView(tmp_path / "evidence.jsonl"))
    assert found.reasons == ("the plan was locked after the first request (record 2, the request is record 1)",)


@pytest.mark.parametrize(
    ("codes", "expected"),
    [((0, 10, 1), 1), ((10, 11), 11), ((0, 10, 4), 10), ((0, 3, 5), 3), ((0, 0), 0), ((), 0), ((0, 77), 77)],
)
def test_of_several_deployments_the_worst_counts(codes: tuple[int, ...], expected: int) -> None:
    assert worst(codes) == expected


def test_the_summary_starts_with_the_verdict_and_ends_with_the_check(tmp_path: Path) -> None:
    run = toy_run(tmp_path / "run", signer=new_signer())
    text = (run.folder / "summary.md").read_text(encoding="utf-8")

    assert text.startswith("# CERTIFIED\n")
    assert text.rstrip().endswith("`certify verify report.html --trust allowed_signers`")


def test_the_summary_says_unsigned_and_demo_first(tmp_path: Path) -> None:
    run = toy_run(tmp_path / "run", ("ok", "no"), demo=True, simulated=True)

    first = (run.folder / "summary.md").read_text(encoding="utf-8").splitlines()[0]
    assert first == "# NOT CERTIFIED · UNSIGNED · DEMO · SIMULATED"


def test_the_summary_stays_within_a_pr_comment(tmp_path: Path) -> None:
    run = toy_run(tmp_path / "run", changes={"absent": tuple(Absence("PRE-HOST-01", "<" * 400) for _ in range(500))})

    assert len((run.folder / "summary.md").read_text(encoding="utf-8")) <= 60_000


@given(st.text(max_size=200))
def test_foreign_text_in_markdown_is_one_inert_line(text: str) -> None:
    shown = markdown(text)

    assert not set("\n\r<>[]()|`*_\\") & set(shown)
    assert "@" not in shown.replace("@\u200b", "")


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(judging, "judges", toy_judges)
        run = toy_run(tmp_path_factory.mktemp("junit") / "run")
    return from_bytes((run.folder / "certificate.json").read_bytes())


@given(text=st.text(st.characters(codec=None), max_size=60))
def test_junit_is_xml_whatever_the_text(certificate: Certificate, text: str) -> None:
    results = tuple(
        replace(one, verdict=replace(one.verdict, outcome=Outcome.FAIL, summary=text, cause=text))
        for one in certificate.predicate.results
    )
    hostile = replace(certificate, predicate=replace(certificate.predicate, results=results))

    assert len(ET.fromstring(junit_xml(hostile)).findall("testsuite/testcase")) == 13


def test_junit_fails_what_decides_and_skips_what_does_not(tmp_path: Path) -> None:
    run = toy_run(tmp_path / "run", ("no",))
    suite = ET.parse(run.folder / "junit.xml").getroot().find("testsuite")

    assert suite is not None
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors"), suite.get("skipped")) == (
        "13",
        "9",
        "0",
        "4",
    )


def test_junit_is_never_green_where_a_required_gate_did_not_run(tmp_path: Path) -> None:
    missing = {"view_changes": {"status": "interrupted"}}
    run = toy_run(tmp_path / "run", changes={"gates": toy_plan(load("generic")).gates[:2]}, **missing)
    properties = {one.get("name"): one.get("value") for one in ET.parse(run.folder / "junit.xml").iter("property")}

    assert properties["verdict"] == "INCOMPLETE"


def test_the_toy_measures_a_metric_that_exists() -> None:
    assert load("generic").bound(*BOUND) is not None
