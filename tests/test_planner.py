"""What `--only` takes along, and that a run folder is opened under its own plan alone."""

from dataclasses import replace
from pathlib import Path

import pytest

from certify import planner
from certify.controller import open_view
from certify.declaration import Declaration
from certify.evidence import EvidenceError
from certify.options import RunOptions
from certify.plan import Pace
from certify.records import Level
from certify.requirements import REQUIREMENTS
from certify.thresholds import load
from certify.wire.identity import read_identity
from tests.certified import toy_plan, toy_view

BUILT = [one.id for one in REQUIREMENTS.values() if one.built and one.level("gate") is not Level.ABSENT]


def levels(*only: str) -> dict[str, Level]:
    options = RunOptions((), "gate", load("generic"), Declaration(), "5eed", "", Path("reports"), only=only)
    url = "http://127.0.0.1:9"
    made = planner.make_plan(options, read_identity([]), Pace(), base_url=url, spec_off_url=url)
    return {gate.requirement: gate.level for gate in made.gates}


@pytest.mark.parametrize("requirement", BUILT)
def test_only_plans_the_requirement_at_its_own_level(requirement: str) -> None:
    assert levels(requirement)[requirement] is REQUIREMENTS[requirement].level("gate")


@pytest.mark.parametrize(
    ("requirement", "carriers"),
    [
        ("QUAL-ENV-01", {"QUAL-JSON-01", "QUAL-SCHEMA-02", "QUAL-TOOL-05"}),
        ("QUAL-SPEC-05", {"QUAL-JSON-01", "QUAL-SCHEMA-02", "QUAL-TOOL-05"}),
        ("PRE-CONTRACT-02", {"PRE-CONTRACT-01"}),
        ("PERF-C1-01", set()),
    ],
)
def test_only_takes_along_what_is_judged_over_and_reports_it(requirement: str, carriers: set[str]) -> None:
    others = {name: level for name, level in levels(requirement).items() if name != requirement}

    assert others == dict.fromkeys(carriers, Level.REPORTED)


def test_a_run_folder_is_not_opened_under_another_plan(tmp_path: Path) -> None:
    plan = toy_plan(load("generic"), diagnostic=("-k shape",))
    toy_view(tmp_path, plan)

    assert open_view(tmp_path, plan).complete
    with pytest.raises(EvidenceError, match="was not made under this plan"):
        open_view(tmp_path, replace(plan, diagnostic=()))
