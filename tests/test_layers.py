"""Who may import whom (DESIGN §4), read from the source; and what the names promise."""

import ast
from pathlib import Path

import pytest

from certify.embedded.faults import FAULTS
from certify.judging import judges
from certify.requirements import REQUIREMENTS

PACKAGE = Path(__file__).parent.parent / "certify"

GROUND = {"records", "codec", "stats", "wire", "visible", "child"}
BOOKS = {"thresholds", "evidence", "plan", "requirements", "declaration", "waivers"}
ROOMS = {"preflight", "quality", "perf", "longctx"}
TOP = {
    *("controller", "planner", "options", "fixtures", "plugin", "terminal", "lanes", "demo", "spec_off"),
    *("embedded_pairs", "cli", "__main__"),
}
ALLOWED = {
    **dict.fromkeys(GROUND, GROUND),
    **dict.fromkeys(BOOKS, GROUND | BOOKS),
    "cases": GROUND | BOOKS | {"cases"},
    "judging": GROUND | BOOKS | {"cases", "judging"},
    "report": GROUND | BOOKS | {"cases", "judging", "report"},
    "deployment": GROUND | BOOKS | {"cases", "deployment"},
    "embedded": GROUND | BOOKS | {"cases", "embedded", "preflight.schedule"},
    **{room: GROUND | BOOKS | {"cases", "deployment", room} for room in ROOMS},
    **dict.fromkeys(TOP, GROUND | BOOKS | ROOMS | TOP | {"cases", "judging", "report", "deployment"}),
}
EMBEDDED_ONLY_FROM = {"embedded", "cli", "embedded_pairs", "demo"}
PYTEST_ONLY_IN = {"plugin", "cli"}


def modules() -> list[tuple[str, Path]]:
    return [
        (".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix(".__init__"), path)
        for path in sorted(PACKAGE.rglob("*.py"))
        if path != PACKAGE / "__init__.py"
    ]


def imported(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.Import(names=names):
                found |= {name.name for name in names}
            case ast.ImportFrom(module=str(module), names=names) if module == "certify":
                found |= {f"certify.{name.name}" for name in names}
            case ast.ImportFrom(module=str(module)):
                found.add(module)
    return found


def is_gate(name: str) -> bool:
    return name.rpartition(".")[2].startswith("test_")


@pytest.mark.parametrize(("name", "path"), modules(), ids=[name for name, _ in modules()])
def test_imports_go_one_way(name: str, path: Path) -> None:
    room = name.partition(".")[0]
    ours = {one.split(".")[1] for one in imported(path) if one.startswith("certify.") and one != "certify.__version__"}
    allowed = (
        ALLOWED[room]
        | ({"embedded"} if room in EMBEDDED_ONLY_FROM else set())
        | ({"fixtures"} if is_gate(name) else set())
    )

    assert ours <= allowed, f"{name} imports {sorted(ours - allowed)}"


def test_pytest_is_known_to_the_plugin_and_the_gates_alone() -> None:
    users = {name for name, path in modules() if "pytest" in imported(path) and not is_gate(name)}

    assert users <= PYTEST_ONLY_IN


def test_sockets_are_opened_by_the_deployment_room_alone() -> None:
    network = {"httpx", "httpcore", "requests", "urllib.request", "http.client"}
    users = {name.split(".")[0] for name, path in modules() if imported(path) & network}

    assert users <= {"deployment", "embedded"}


def test_no_fault_is_named_outside_of_the_embedded_deployments() -> None:
    names = {f'"{name}"' for name in FAULTS}
    named = {
        name: found
        for name, path in modules()
        if not name.startswith("embedded.")
        and (found := sorted(one for one in names if one in path.read_text(encoding="utf-8")))
    }

    assert FAULTS
    assert not named


def test_every_requirement_that_a_profile_asks_has_a_judge_and_nothing_else_has() -> None:
    assert set(judges()) == {requirement.id for requirement in REQUIREMENTS.values() if requirement.built}


def gates() -> list[tuple[str, ast.FunctionDef]]:
    return [
        (name, node)
        for name, path in modules()
        if is_gate(name)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    ]


def marked(node: ast.FunctionDef) -> str:
    marks = [
        d for d in node.decorator_list if isinstance(d, ast.Call) and ast.unparse(d.func) == "pytest.mark.requirement"
    ]
    return str(ast.literal_eval(marks[0].args[0]))


def test_every_built_requirement_has_exactly_one_gate() -> None:
    found = sorted(marked(node) for _, node in gates())

    assert found == sorted(requirement.id for requirement in REQUIREMENTS.values() if requirement.built)


@pytest.mark.parametrize(("name", "node"), gates(), ids=[node.name for _, node in gates()])
def test_a_gate_reads_as_one_sentence(name: str, node: ast.FunctionDef) -> None:
    forbidden = (ast.If, ast.For, ast.While, ast.BinOp, ast.Compare, ast.IfExp, ast.comprehension)

    assert not [ast.unparse(inner) for inner in ast.walk(node) if isinstance(inner, forbidden)]
    assert marked(node) in (ast.get_docstring(node) or ""), f"{name}: the docstring names the requirement"
    assert (node.end_lineno or 0) - node.lineno <= 25
