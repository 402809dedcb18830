"""The speculation judges, on counters and answers made by hand, and what the planners plan."""

import json

import pytest

from certify.cases.scenarios import SCENARIOS
from certify.judging.speculation import AFTER, BEFORE, JUDGES
from certify.preflight import plans as preflight_plans
from certify.quality import plans as quality_plans
from certify.records import Arm, Level, Outcome, Thinking
from tests import given
from tests.given import CUT, NO_BARS, Chain, exchange, sse

LAYER0, PAIRED = "QUAL-SPEC-01", "QUAL-SPEC-05"


@pytest.fixture
def chain(tmp_path):
    return Chain(tmp_path)


@pytest.fixture
def other(tmp_path):
    return Chain(tmp_path, "spec-off.jsonl")


COPIES = 4  # of profile gate


def totals(drafts, drafted, accepted, generated=1000):
    return (
        f"vllm:generation_tokens_total {generated}\n"
        f"vllm:spec_decode_num_drafts_total {drafts}\n"
        f"vllm:spec_decode_num_draft_tokens_total {drafted}\n"
        f"vllm:spec_decode_num_accepted_tokens_total {accepted}\n"
    )


NONE_COUNTED = "vllm:generation_tokens_total 1000\n"


def copied(chain, arm, before, after, body=None):
    chain.sample(BEFORE, before, arm)
    for repeat in range(COPIES):
        chain.trial(LAYER0, "copying", exchange(body or sse(), thinking=Thinking.OFF), arm=arm, repeat=repeat)
    chain.sample(AFTER, after.replace("generation_tokens_total 1000", "generation_tokens_total 1600"), arm)


def layer0(chain, declared=None, **attached):
    made = given.plan(declared=declared, has_spec_off=True)
    return JUDGES[LAYER0](chain.view(**attached), made, NO_BARS)


def test_drafts_in_one_arm_and_none_in_the_other_pass(chain):
    copied(chain, Arm.SERVED, totals(5, 20, 10), totals(25, 100, 74))
    copied(chain, Arm.SPEC_OFF, NONE_COUNTED, NONE_COUNTED)

    verdict = layer0(chain)

    assert verdict.outcome is Outcome.PASS
    assert [(figure.name, str(figure)) for figure in verdict.figures] == [
        ("drafted_served", "80 tokens"),
        ("drafted_spec-off", "0 tokens"),
        ("acceptance_rate", "80.0 %"),
    ]
    assert verdict.evidence == tuple(range(1, 13))


def timed(**drafts):
    return sse(timings={"predicted_n": 40, "predicted_ms": 1.5, **drafts})


def test_the_answers_own_figures_are_enough_and_the_arm_may_be_attached(chain, other):
    copied(chain, Arm.SERVED, "", "", timed(draft_n=30, draft_n_accepted=21))
    copied(other, Arm.SPEC_OFF, "", "", timed())

    verdict = layer0(chain, spec_off=other)

    assert verdict.outcome is Outcome.PASS
    assert str(verdict.figures[2]) == "70.0 %"
    assert verdict.evidence == (2, 3, 4, 5)  # the other arm's records are not of this chain


@pytest.mark.parametrize(
    ("served", "off", "words"),
    [
        ((totals(0, 0, 0), totals(9, 36, 5)), (totals(0, 0, 0), totals(9, 36, 5)), "drafts too"),
        ((totals(4, 8, 5), totals(4, 8, 5)), (totals(0, 0, 0), totals(9, 36, 5)), "swapped"),
    ],
)
def test_arms_that_are_alike_or_swapped_fail(chain, served, off, words):
    copied(chain, Arm.SERVED, *served)
    copied(chain, Arm.SPEC_OFF, *off)

    verdict = layer0(chain)

    assert verdict.outcome is Outcome.FAIL
    assert words in verdict.summary


@pytest.mark.parametrize(
    ("declared", "outcome"),
    [
        ({"speculation": True}, Outcome.FAIL),
        ({}, Outcome.INCONCLUSIVE),
        ({"speculation": False}, Outcome.NOT_APPLICABLE),
    ],
)
def test_no_draft_at_all_is_judged_by_what_is_declared(chain, declared, outcome):
    copied(chain, Arm.SERVED, NONE_COUNTED, NONE_COUNTED)
    copied(chain, Arm.SPEC_OFF, NONE_COUNTED, NONE_COUNTED)

    assert layer0(chain, declared).outcome is outcome


def test_without_the_other_arm_nothing_is_compared(chain):
    copied(chain, Arm.SERVED, totals(0, 0, 0), totals(9, 36, 5))

    verdict = layer0(chain)

    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert "--spec-off-url" in verdict.action


def test_an_arm_that_tells_nothing_is_not_taken_as_off(chain):
    copied(chain, Arm.SERVED, totals(0, 0, 0), totals(9, 36, 5))
    copied(chain, Arm.SPEC_OFF, "", "")

    assert layer0(chain).outcome is Outcome.INCONCLUSIVE


def test_a_broken_copy_measures_nothing(chain):
    copied(chain, Arm.SERVED, totals(0, 0, 0), totals(9, 36, 5))
    chain.trial(LAYER0, "copying", exchange(sse(finish="", counts=None), failure=CUT), arm=Arm.SPEC_OFF)

    assert layer0(chain).outcome is Outcome.ERROR


# --- paired counts -----------------------------------------------------------------------------------------------


def answered(chain, trials, *, good):
    """Shipments: right where `good(repeat)` holds, another object elsewhere."""
    for planned in trials:
        place = planned.trial_id
        value = SCENARIOS["schema-nested"].generate(planned.seed).truth if good(place.repeat) else {}
        made = exchange(
            given.chat(json.dumps(value), stream=planned.stream),
            thinking=Thinking(planned.thinking),
            stream=planned.stream,
            constrained=True,
        )
        chain.trial(place.requirement, place.case, made, arm=place.arm, repeat=place.repeat, serves=(PAIRED,))


def off_trials(plan):
    return [one for one in plan.gate(PAIRED).trials if one.trial_id.case.startswith("schema-nested")]


def test_the_same_cases_are_counted_in_both_arms(chain, other):
    plan = given.plan(has_spec_off=True)
    answered(chain, plan.gate("QUAL-SCHEMA-02").trials, good=lambda repeat: repeat in {0, 1})
    answered(other, off_trials(plan), good=lambda repeat: repeat in {0, 2, 3})

    verdict = JUDGES[PAIRED](chain.view(spec_off=other), plan, NO_BARS)

    assert verdict.outcome is Outcome.PASS  # five cases, thinking on and off: ten pairs
    assert [(figure.name, figure.scaled) for figure in verdict.figures] == [
        ("both_right", 2),
        ("only_on", 2),
        ("only_off", 4),
        ("neither", 2),
        ("mcnemar_p", 6875),  # 2 (1 + 6 + 15) / 64
    ]


def test_without_pairs_nothing_is_counted(chain):
    plan = given.plan(has_spec_off=True)
    answered(chain, plan.gate("QUAL-SCHEMA-02").trials, good=lambda _: True)

    assert JUDGES[PAIRED](chain.view(), plan, NO_BARS).outcome is Outcome.INCONCLUSIVE


# --- plans -------------------------------------------------------------------------------------------------------


def planned(profile, **more):
    made = given.context(profile, **more)
    return (*preflight_plans.plan_gates(made), *quality_plans.plan_gates(made))


@pytest.mark.parametrize("profile", ["demo", "smoke", "gate", "release", "full", "soak"])
def test_every_planned_gate_is_asked_for_by_its_profile(profile):
    gates = planned(profile, has_spec_off=True)

    assert all(gate.level is not Level.ABSENT for gate in gates)
    assert len({gate.requirement for gate in gates}) == len(gates)
    ids = [trial.trial_id for gate in gates for trial in gate.trials]
    assert len(set(ids)) == len(ids)


def test_modes_and_arms_of_a_case_share_its_seed_and_half_is_streamed():
    gates = {gate.requirement: gate for gate in planned("demo", has_spec_off=True)}
    served, off = gates["QUAL-SCHEMA-02"].trials, gates[PAIRED].trials

    assert (len(served), len(off)) == (4, 2)
    assert [one.seed for one in served[:2]] == [one.seed for one in off]
    assert len({one.seed for one in served}) == 2
    assert sum(one.stream for one in served) == 2


def test_the_demo_asks_eight_quality_cases():
    trials = [one for gate in planned("demo") for one in gate.trials if gate.requirement in quality_plans.SCENARIOS]

    assert len(trials) == 8


def test_without_the_other_arm_speculation_is_planned_only_where_it_is_expected():
    assert not [gate for gate in planned("gate") if "SPEC" in gate.requirement]
    assert [gate.requirement for gate in planned("release") if "SPEC" in gate.requirement] == [LAYER0, PAIRED]


def test_sequences_context_and_budget_bound_the_plan():
    small = {gate.requirement: gate for gate in planned("gate", max_sequences=2, context_tokens=2048, budget_s=60)}
    gate = small["QUAL-JSON-01"]

    assert gate.parameters["concurrency"] == 2
    assert gate.parameters["max_tokens"]["json-prompt"] == {"on": 1024, "off": 512}
    assert len(gate.trials) < 10


def test_totals_that_stand_still_prove_nothing(chain):
    copied(chain, Arm.SERVED, totals(5, 20, 10), totals(25, 100, 74))
    chain.sample(BEFORE, NONE_COUNTED, Arm.SPEC_OFF)
    for repeat in range(COPIES):
        chain.trial(LAYER0, "copying", exchange(sse(), thinking=Thinking.OFF), arm=Arm.SPEC_OFF, repeat=repeat)
    chain.sample(AFTER, NONE_COUNTED, Arm.SPEC_OFF)

    assert layer0(chain).outcome is Outcome.INCONCLUSIVE


def test_an_arm_that_was_not_asked_is_not_off(chain):
    copied(chain, Arm.SERVED, totals(5, 20, 10), totals(25, 100, 74))
    chain.sample(BEFORE, NONE_COUNTED, Arm.SPEC_OFF)
    chain.sample(AFTER, NONE_COUNTED.replace("1000", "1600"), Arm.SPEC_OFF)

    assert layer0(chain).outcome is Outcome.ERROR
