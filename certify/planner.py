"""Makes the plan of a run from what probing saw, what the owner declared, and what the profile asks."""

import time
from collections.abc import Callable
from dataclasses import replace

from certify import __version__
from certify.judging import JUDGE_VERSION
from certify.longctx import plans as longctx_plans
from certify.options import RunOptions
from certify.perf import plans as perf_plans
from certify.plan import SCHEMA, Absence, Pace, Plan, PlanContext, PlannedGate
from certify.preflight import plans as preflight_plans
from certify.quality import plans as quality_plans
from certify.records import Arm, Level
from certify.requirements import REGISTRY_VERSION, Requirement, in_run_order
from certify.wire.identity import Identity

# Profiles whose missing arm is only "not covered"; in the others it is INCONCLUSIVE (DESIGN §6).
ARM_IS_OPTIONAL = ("smoke", "gate")

# Judged over every exchange of the run: asked for alone, it takes the cheapest ones with it.
WHOLE_RUN, TO_LOOK_AT = "PRE-CONTRACT-02", "PRE-CONTRACT-01"

_PLANNERS: tuple[Callable[[PlanContext], tuple[PlannedGate, ...]], ...] = (
    preflight_plans.plan_gates,
    quality_plans.plan_gates,
    perf_plans.plan_gates,
    longctx_plans.plan_gates,
)


def make_plan(
    options: RunOptions,
    identity: Identity,
    pace: Pace,
    *,
    base_url: str,
    spec_off_url: str = "",
    arm: Arm = Arm.SERVED,
    attached: dict[str, str] | None = None,
) -> Plan:
    """The locked plan of one deployment."""
    declaration = options.declaration
    context_tokens = _smaller(identity.context_tokens, declaration.max_context)
    context = PlanContext(
        profile=options.profile,
        seed=options.seed,
        challenge=options.challenge,
        context_tokens=context_tokens,
        engine=identity.engine,
        max_sequences=_smaller(identity.max_sequences, declaration.max_sequences),
        declared=declaration.capabilities,
        has_spec_off=bool(spec_off_url or attached or arm is Arm.SPEC_OFF),
        budget_s=options.budget_s,
        pace=pace,
    )
    offered = {gate.requirement: gate for planner in _PLANNERS for gate in planner(context)}
    carriers = _carriers(options.only, offered)
    gates: list[PlannedGate] = []
    absent: list[Absence] = []
    for requirement in in_run_order():
        reason = _absent(requirement, options, context, offered, carriers)
        if reason:
            absent.append(Absence(requirement.id, reason))
        else:
            gate = _gate(requirement, options, context, offered)
            gates.append(replace(gate, level=Level.REPORTED) if requirement.id in carriers else gate)
    return Plan(
        schema=SCHEMA,
        suite_version=__version__,
        registry_version=REGISTRY_VERSION,
        judge_version=JUDGE_VERSION,
        profile=options.profile,
        arm=arm,
        base_url=base_url,
        spec_off_url=spec_off_url,
        model=identity.model,
        engine=identity.engine,
        seed=options.seed,
        challenge=options.challenge,
        thresholds_set=options.thresholds.name,
        thresholds_sha256=options.thresholds.sha256,
        declared=declaration.to_json(),
        context_tokens=context_tokens,
        gates=tuple(gates),
        absent=tuple(absent),
        attached=dict(attached or {}),
        diagnostic=options.diagnostic,
        locked_at_us=time.time_ns() // 1000,
    )


def _smaller(seen: int | None, declared: int | None) -> int | None:
    return min((one for one in (seen, declared) if one is not None), default=None)


def _carriers(only: tuple[str, ...], offered: dict[str, PlannedGate]) -> frozenset[str]:
    """The requirements whose exchanges those of `--only` are judged over: they are asked too, and only reported."""
    found = {TO_LOOK_AT} if WHOLE_RUN in only else set()
    for requirement in only:
        over = offered[requirement].parameters.get("over") if requirement in offered else None
        found |= {str(one) for one in over} if isinstance(over, list) else set()
    return frozenset(found - set(only))


def _absent(
    requirement: Requirement,
    options: RunOptions,
    context: PlanContext,
    offered: dict[str, PlannedGate],
    carriers: frozenset[str],
) -> str:
    """Why a requirement is not in this plan, "" when it is."""
    if not requirement.built:
        return "no gate for it in this version of the suite"
    if requirement.level(options.profile) is Level.ABSENT:
        return f"not part of profile {options.profile}"
    if options.only and requirement.id not in {*options.only, *carriers}:
        return "left out by --only"
    if requirement.needs_spec_off and not context.has_spec_off and options.profile in ARM_IS_OPTIONAL:
        return "the arm without speculation was not given (--spec-off-url or --spec-off-evidence)"
    if requirement.id not in offered and not requirement.needs_spec_off:
        return "its planner had nothing to ask of this deployment"
    return ""


def _gate(
    requirement: Requirement,
    options: RunOptions,
    context: PlanContext,
    offered: dict[str, PlannedGate],
) -> PlannedGate:
    level = requirement.level(options.profile)
    gate = offered.get(requirement.id)
    if gate is None or (requirement.needs_spec_off and not context.has_spec_off):
        return PlannedGate(requirement.id, level, "the arm without speculation was not given", 0, (), {})
    return replace(gate, level=level)
