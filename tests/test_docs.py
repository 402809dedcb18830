"""The documentation says what the code does: options, metrics, requirement ids, sections, totals, commands."""

import re
from pathlib import Path

import pytest
from _pytest.config.argparsing import Parser

from certify import plugin, thresholds
from certify.cases.scenarios import SCENARIOS
from certify.cli import _parser as cli_parser
from certify.embedded.faults import FAULTS, HEALTHY
from certify.embedded.real import CONTEXT_TOKENS
from certify.judging import judges
from certify.longctx.plans import RUNGS
from certify.perf.plans import STREAMS
from certify.report.verify import Code
from certify.requirements import REQUIREMENTS

ROOT = Path(__file__).parent.parent
PAGES = {path.name: path.read_text(encoding="utf-8") for path in (*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"))}
METHODS, CONTRACT, README = PAGES["METHODS.md"], PAGES["CONTRACT.md"], PAGES["README.md"]
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]+")
ID = re.compile(r"\b(?:PRE|QUAL|PERF|LCTX)-[A-Z0-9]+-\d\d\b")
# Of other programs, which the pages also call.
FOREIGN = {
    *("--enable-prompt-tokens-details", "--enable-cache-report"),  # engines
    *("--lf", "--deselect", "--ignore"),  # pytest
    *("--target", "--no-compile"),  # pip
}


def plugin_options():
    parser = Parser(_ispytest=True)
    plugin.pytest_addoption(parser)
    return {name for group in parser._groups for option in group.options for name in option.names()}


def cli_options():
    commands = next(action for action in cli_parser()._actions if action.dest == "command" or action.choices)
    return {name for one in commands.choices.values() for action in one._actions for name in action.option_strings}


def options_table():
    section = CONTRACT.split("## Options")[1].split("\n## ")[0]
    return set(re.findall(r"^\| `(--[a-z-]+)", section, re.MULTILINE))


def headings(page):
    return {line.lstrip("# ").lower() for line in page.splitlines() if line.startswith("#")}


def sources():
    return [ROOT / "thresholds.toml", *sorted((ROOT / "certify").rglob("*.py"))]


def test_every_option_of_the_suite_is_described():
    assert options_table() == plugin_options()


@pytest.mark.parametrize("page", ["README.md", "CONTRACT.md", "CERTIFICATE.md", "METHODS.md", "CHANGELOG.md"])
def test_every_option_that_is_named_exists(page):
    known = plugin_options() | cli_options() | FOREIGN | {"--arm", "--help"}

    assert set(OPTION.findall(PAGES[page])) <= known


@pytest.mark.parametrize("page", sorted(PAGES))
def test_every_requirement_that_is_named_exists(page):
    assert set(ID.findall(PAGES[page])) <= set(REQUIREMENTS)


def test_every_gate_has_its_method():
    assert set(judges()) <= set(ID.findall(METHODS))


def test_every_requirement_that_is_called_reserved_is():
    named = re.findall(r"\(((?:[A-Z0-9-]+,? ?(?:and |to )?)+)(?:is|are) reserved\)", METHODS)

    assert named
    assert not [one for text in named for one in ID.findall(text) if REQUIREMENTS[one].built]


@pytest.mark.parametrize(("requirement", "metric"), sorted(thresholds.METRICS))
def test_every_metric_that_decides_is_described(requirement, metric):
    section = next(part for part in METHODS.split("\n## ") if f"`{metric}`" in part and requirement in part)

    assert thresholds.METRICS[requirement, metric] in section


@pytest.mark.parametrize("name", ["generic", "demo"])
def test_every_bound_of_the_suite_is_stated(name):
    table = METHODS.split("## Threshold sets")[1].split("\n## ")[0]

    for bound in thresholds.load(name).bounds.values():
        assert re.search(rf"`{bound.metric}` [≤≥] {re.escape(str(bound).split()[1])} {bound.unit}", table), str(bound)


def test_every_section_that_code_points_to_exists():
    cited = [
        (path.name, section.lower())
        for path in sources()
        for section in re.findall(r'docs/METHODS\.md, "?([A-Za-z ]+?)"?[:.)]', path.read_text(encoding="utf-8"))
    ]

    assert cited
    assert [one for one in cited if not {one[1], one[1].removeprefix("the ")} & headings(METHODS) - {""}] == []


def test_links_between_the_pages_lead_somewhere():
    for name, page in PAGES.items():
        folder = ROOT if (ROOT / name).exists() else ROOT / "docs"
        for target in re.findall(r"\]\((?!https?:)([^)]+)\)", page):
            file, _, anchor = target.partition("#")
            assert not file or (folder / file).is_file(), f"{name}: {target}"
            assert not anchor or anchor.replace("-", " ") in headings(page), f"{name}: {target}"


def test_the_totals_of_faults_are_those_of_the_catalogue():
    assert f"{len(FAULTS)} lies of a deployment and {len(HEALTHY)} oddities" in METHODS


def test_the_profiles_table_has_the_sizes_of_the_plans():
    table = METHODS.split("## Profiles")[1].split("\n## ")[0]
    streams = [STREAMS[profile] for profile in ("demo", "smoke", "gate", "release")]
    rungs = {tokens for profile in ("demo", "smoke", "gate", "release") for tokens in RUNGS[profile]}

    assert [one for one in streams if f"{one.prompts} × {one.max_tokens}" not in table] == []
    assert [tokens for tokens in rungs if f"{tokens:,}" not in table] == []
    assert f"context {CONTEXT_TOKENS:,} tokens" in METHODS


def test_every_scenario_has_its_method():
    assert [name for name in SCENARIOS if name not in METHODS] == []


def test_the_exit_codes_of_verify_are_listed():
    table = PAGES["CERTIFICATE.md"].split("| exit | meaning |")[1].split("\n\n")[0]

    assert [int(number) for number in re.findall(r"^\| (\d) \|", table, re.MULTILINE)] == [int(code) for code in Code]


def test_every_command_that_the_readme_calls_exists():
    commands = next(action for action in cli_parser()._actions if action.choices).choices

    assert set(re.findall(r"^certify ([a-z]+)|`certify ([a-z]+)", README, re.MULTILINE))
    assert {
        one or other for one, other in re.findall(r"^certify ([a-z]+)|`certify ([a-z]+)", README, re.MULTILINE)
    } <= {*commands}


def test_toml_that_the_readme_shows_is_accepted(tmp_path):
    bars, declared = re.findall(r"```toml\n(.*?)```", README, re.DOTALL)
    mine, deployment = tmp_path / "mine.toml", tmp_path / "deployment.toml"
    mine.write_text(bars)
    deployment.write_text(declared)

    from certify import declaration  # noqa: PLC0415

    assert thresholds.load(str(mine)).bound("PERF-C1-01", "decode_rate") is not None
    assert declaration.load(deployment).capabilities["tools"] is False
