"""The scenarios: every module of this package is one (`certify.cases.scoring.Scenario`); nothing else names them."""

from collections.abc import Mapping
from importlib import import_module
from pkgutil import iter_modules
from types import MappingProxyType
from typing import cast

from certify.cases.scoring import Scenario


def _discovered() -> Mapping[str, Scenario]:
    modules = [cast("Scenario", import_module(f"{__name__}.{found.name}")) for found in iter_modules(__path__)]
    # QUAL-JSON-01, QUAL-SCHEMA-02, ...: the number of a scenario's requirement is its place.
    modules.sort(key=lambda scenario: scenario.REQUIREMENT.rsplit("-", 1)[-1])
    return MappingProxyType({scenario.NAME: scenario for scenario in modules})


# Scenario name -> scenario, in the order of their requirements' numbers.
SCENARIOS: Mapping[str, Scenario] = _discovered()
