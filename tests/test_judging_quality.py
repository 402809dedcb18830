"""The quality judges, on raw answers made from the truth of real cases."""

import json

import pytest

from certify.cases.scenarios import SCENARIOS
from certify.judging.proportions import Paired, mcnemar, newcombe, stratified
from certify.judging.quality import JUDGES
from certify.plan import REPLACEMENT
from certify.quality.asking import OVER_SEVERAL
from certify.records import Arm, Outcome, Thinking
from tests import given
from tests.given import CUT, NO_BARS, STOPPED, Chain, bars, error, exchange, sse, whole

TOOL = "QUAL-TOOL-05"
SCHEMA = "QUAL-SCHEMA-02"
JSON = "QUAL-JSON-01"


@pytest.fixture
def chain(tmp_path):
    return Chain(tmp_path)


def truth(planned):
    scenario = SCENARIOS[planned.trial_id.case.partition("/")[0]]
    return scenario.generate(planned.seed).truth


def as_asked(planned, content="", **more):
    """An answer to a planned case, streamed or whole as it was asked for."""
    tool = planned.trial_id.case.startswith("tool")
    return exchange(
        given.chat(content, stream=planned.stream, **more),
        thinking=Thinking(planned.thinking),
        stream=planned.stream,
        constrained=planned.trial_id.case.startswith("schema"),
        thinking_budget_tokens=32 if thinks(planned) else None,
        tools=(truth(planned)["name"],) if tool else (),
        tool_choice="auto" if tool else "",
    )


def right(planned):
    """The answer that is right."""
    value, reasoning = truth(planned), "hm" if thinks(planned) else ""
    if planned.trial_id.case.startswith("tool"):
        call = {"name": value["name"], "arguments": json.dumps(value["arguments"])}
        calls = [{"index": 0, "id": "c1", "type": "function", "function": call}]
        return as_asked(planned, calls=calls, reasoning=reasoning, finish="tool_calls")
    return as_asked(planned, json.dumps(value), reasoning=reasoning)


def telling(text):
    """Answers that say this instead."""
    return lambda planned: as_asked(planned, text, reasoning="hm" if thinks(planned) else "")


def wrong(planned):
    """The right form of a shipment with a wrong value in it."""
    value = truth(planned)
    return as_asked(
        planned, json.dumps(value | {"customer": value["customer"] | {"vip": not value["customer"]["vip"]}})
    )


def cut_by_cap(planned):
    """Thinking took all tokens."""
    return as_asked(planned, reasoning="on and on", finish="length", counts=(10, 100))


def answered(chain, plan, requirement, answer=right, *, only=lambda _: True, keep=lambda _: True):
    """The planned cases of a requirement, each answered by `answer` where `only` holds, right elsewhere."""
    for planned in plan.gate(requirement).trials:
        if keep(planned):
            place = planned.trial_id
            made = answer(planned) if only(planned) else right(planned)
            chain.trial(requirement, place.case, made, arm=place.arm, repeat=place.repeat, serves=OVER_SEVERAL)
    return plan


def judged(requirement, chain, plan, thresholds=NO_BARS):
    return JUDGES[requirement](chain.view(), plan, thresholds)


def thinks(planned):
    return planned.thinking == "on"


def first(planned):
    return planned.trial_id.repeat == 0 and not thinks(planned)


# --- constrained output ------------------------------------------------------------------------------------------


def test_valid_answers_in_both_modes_pass_right_or_wrong(chain):
    plan = answered(chain, given.plan(), SCHEMA, wrong, only=first)

    verdict = judged(SCHEMA, chain, plan)

    assert verdict.outcome is Outcome.PASS
    assert (verdict.figures[0].scaled, verdict.figures[0].n) == (10, 10)
    assert "9 right, 1 value" in verdict.figures[0].population


@pytest.mark.parametrize(
    ("told", "grade"),
    [("Here you are: {}", "format"), ('{"kind": "delivery"}', "schema"), ("```json\n{}\n```", "format")],
)
def test_one_answer_that_breaks_the_schema_fails(chain, told, grade):
    plan = answered(chain, given.plan(), SCHEMA, telling(told), only=first)

    verdict = judged(SCHEMA, chain, plan)

    assert verdict.outcome is Outcome.FAIL
    assert verdict.findings[0].text.startswith(f"{SCHEMA} schema-nested/off #0: {grade}")
    assert verdict.findings[0].quote == told
    assert "only with thinking off" in verdict.cause


def test_an_exchange_that_breaks_is_neither_valid_nor_refused(chain):
    broken = exchange(sse(finish="", counts=None), failure=CUT, constrained=True)
    plan = answered(chain, given.plan(), SCHEMA, lambda _: broken, only=first)

    assert judged(SCHEMA, chain, plan).outcome is Outcome.FAIL


def test_an_arm_with_nothing_but_cut_answers_is_inconclusive_and_names_the_cap(chain):
    plan = answered(chain, given.plan(), SCHEMA, cut_by_cap, only=thinks)

    verdict = judged(SCHEMA, chain, plan)

    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert "max_tokens 100" in verdict.cause


def test_some_cut_answers_are_counted_apart(chain):
    plan = answered(chain, given.plan(), SCHEMA, cut_by_cap, only=lambda p: thinks(p) and p.trial_id.repeat == 0)

    verdict = judged(SCHEMA, chain, plan)

    assert verdict.outcome is Outcome.PASS
    assert "1 cut by the thinking cap" in verdict.figures[0].population


@pytest.mark.parametrize(
    ("declared", "outcome"),
    [(True, Outcome.FAIL), (None, Outcome.INCONCLUSIVE), (False, Outcome.NOT_APPLICABLE)],
)
def test_refusing_every_schema_is_judged_by_what_is_declared(chain, declared, outcome):
    made = given.plan(declared={} if declared is None else {"json-schema": declared})
    refusal = exchange(error("response_format json_schema is not supported"), status=400, constrained=True)
    plan = answered(chain, made, SCHEMA, lambda _: refusal)

    assert judged(SCHEMA, chain, plan).outcome is outcome


def test_without_usage_the_schema_is_not_blamed(chain):
    plan = answered(chain, given.plan(), SCHEMA, lambda planned: as_asked(planned, "{}", counts=None))

    assert judged(SCHEMA, chain, plan).outcome is Outcome.ERROR


def test_a_planned_case_that_is_missing_is_no_pass(chain):
    plan = answered(chain, given.plan(), SCHEMA, keep=lambda planned: not first(planned))

    assert judged(SCHEMA, chain, plan).outcome is Outcome.ERROR


def test_a_replacement_stands_for_its_interrupted_trial(chain):
    plan = answered(chain, given.plan(), SCHEMA, keep=lambda planned: not first(planned))
    planned = next(trial for trial in plan.gate(SCHEMA).trials if first(trial))
    stopped = exchange(b"", status=None, failure=STOPPED, constrained=True)
    chain.trial(SCHEMA, planned.trial_id.case, stopped)
    chain.trial(SCHEMA, planned.trial_id.case, right(planned), repeat=REPLACEMENT)

    assert judged(SCHEMA, chain, plan).outcome is Outcome.PASS


def test_answers_to_other_questions_do_not_count(chain):
    plan = given.plan()
    for planned in plan.gate(SCHEMA).trials:
        place = planned.trial_id
        chain.trial(SCHEMA, place.case, right(planned), repeat=place.repeat, seed="another")

    assert judged(SCHEMA, chain, plan).outcome is Outcome.ERROR


# --- shares ------------------------------------------------------------------------------------------------------


def test_without_a_floor_the_share_is_told_with_the_toml_to_paste(chain):
    plan = answered(chain, given.plan(), SCHEMA, wrong, only=first)
    answered(chain, plan, JSON)
    answered(chain, plan, TOOL)

    verdict = judged("QUAL-VALUE-01", chain, plan)

    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert str(verdict.figures[0]) == "96.7 %"  # 29 of 30
    assert verdict.figures[0].n == 30
    assert "floor = 91.8" in verdict.action  # 96.7 x 0.95, cut to a tenth


def test_a_share_far_below_its_floor_fails(chain):
    plan = answered(chain, given.plan("release"), JSON, telling("no"))

    verdict = judged(JSON, chain, plan, bars(JSON, share_right="floor = 60"))

    assert verdict.outcome is Outcome.FAIL
    assert verdict.summary == "0.0 % right (n = 20), floor 60 % required"
    assert verdict.bounds[0].metric == "share_right"


def test_a_share_far_above_its_floor_passes(chain):
    plan = answered(chain, given.plan("release"), JSON)

    # 20 of 20: p = 10.5/11 in both strata, SE = sqrt(2 p (1-p) / 10) / 2 = .0466; .9545 - 2.07 x .0466 = .858
    assert judged(JSON, chain, plan, bars(JSON, share_right="floor = 85.8")).outcome is Outcome.PASS
    assert judged(JSON, chain, plan, bars(JSON, share_right="floor = 85.9")).outcome is Outcome.INCONCLUSIVE


def test_answers_cut_by_the_cap_can_neither_pass_nor_fail_a_floor(chain):
    plan = answered(chain, given.plan("release"), JSON, cut_by_cap, only=thinks)

    verdict = judged(JSON, chain, plan, bars(JSON, share_right="floor = 70"))

    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert "thinking cap" in verdict.cause


def test_a_missing_case_turns_a_pass_into_an_error(chain):
    plan = answered(chain, given.plan("release"), JSON, keep=lambda planned: planned.trial_id.repeat > 0)

    assert judged(JSON, chain, plan, bars(JSON, share_right="floor = 50")).outcome is Outcome.ERROR


@pytest.mark.parametrize(
    ("declared", "outcome"),
    [({"tools": True}, Outcome.FAIL), ({}, Outcome.INCONCLUSIVE), ({"tools": False}, Outcome.NOT_APPLICABLE)],
)
def test_tools_that_are_never_called_are_judged_by_what_is_declared(chain, declared, outcome):
    plan = answered(chain, given.plan(declared=declared), TOOL, telling("I cannot."))

    assert judged(TOOL, chain, plan).outcome is outcome


def test_calls_with_the_right_arguments_are_right(chain):
    plan = answered(chain, given.plan("release"), TOOL)

    assert judged(TOOL, chain, plan, bars(TOOL, share_right="floor = 85")).outcome is Outcome.PASS


# --- envelope ----------------------------------------------------------------------------------------------------


def all_right(chain, plan, answer=right, only=lambda _: False):
    answered(chain, plan, JSON, answer, only=only)
    answered(chain, plan, SCHEMA)
    answered(chain, plan, TOOL)
    return plan


def test_whole_envelopes_pass_with_what_they_prove(chain):
    plan = all_right(chain, given.plan())

    verdict = judged("QUAL-ENV-01", chain, plan)

    assert verdict.outcome is Outcome.PASS
    assert "90.5%" in verdict.summary  # .05 ** (1 / 30)


@pytest.mark.parametrize(
    "body",
    [sse("a\ufffdb"), sse(finish="abort"), sse(finish="tool_calls"), sse(finish="stop", counts=(10, 0)), whole()[:-40]],
    ids=["broken-character", "abort", "no-calls", "no-tokens", "torn"],
)
def test_one_hard_fault_fails(chain, body):
    plan = all_right(chain, given.plan(), lambda _: exchange(body, thinking=Thinking.OFF, constrained=True), only=first)

    verdict = judged("QUAL-ENV-01", chain, plan)

    assert verdict.outcome is Outcome.FAIL
    assert verdict.figures[0].scaled == 1


@pytest.mark.parametrize(
    ("leaks", "outcome"), [(1, Outcome.INCONCLUSIVE), (2, Outcome.INCONCLUSIVE), (3, Outcome.FAIL)]
)
def test_rare_faults_fail_at_three(chain, leaks, outcome):
    plan = all_right(
        chain, given.plan(), telling("</think>{}"), only=lambda p: p.trial_id.repeat < leaks and not thinks(p)
    )

    verdict = judged("QUAL-ENV-01", chain, plan)

    assert verdict.outcome is outcome
    assert (verdict.figures[0].scaled, verdict.figures[1].scaled) == (0, leaks)
    assert verdict.findings[0].quote == "</think>{}"


@pytest.mark.parametrize(
    "body",
    [
        sse("<tool_call>x"),
        sse("<|im_end|>"),
        sse("a\0b"),
        sse("a", reasoning="b"),
        sse("a" + " " * 80),
        sse("", calls=[{"index": 0, "id": "c", "type": "function", "function": {"name": "zz", "arguments": "{}"}}]),
        sse("", calls=[{"index": 0, "id": "c", "type": "function", "function": {"name": "t", "arguments": "{"}}]),
    ],
    ids=["tool", "template", "nul", "thinks-off", "blanks", "unknown-tool", "arguments"],
)
def test_what_a_model_can_cause_is_rare_and_not_hard(chain, body):
    made = exchange(body, thinking=Thinking.OFF, tools=("t",))
    plan = all_right(chain, given.plan(), lambda _: made, only=first)

    hard, rare = judged("QUAL-ENV-01", chain, plan).figures

    assert rare.scaled == 1
    assert hard.scaled == (1 if b"tool_calls" in body else 0)  # a call with finish `stop` is a hard fault of its own


def test_a_null_content_is_rare(chain):
    made = exchange(whole(None), thinking=Thinking.OFF, stream=False)
    plan = all_right(chain, given.plan(), lambda _: made, only=first)

    assert [figure.scaled for figure in judged("QUAL-ENV-01", chain, plan).figures] == [0, 1]


def test_thinking_that_stays_away_from_most_answers_fails(chain):
    plan = given.plan(declared={"thinking": True})
    answered(chain, plan, JSON, lambda planned: as_asked(planned, "{}"), only=thinks)
    answered(chain, plan, SCHEMA, lambda planned: as_asked(planned, "{}"), only=thinks)
    answered(chain, plan, TOOL)

    verdict = judged("QUAL-ENV-01", chain, plan)

    assert verdict.outcome is Outcome.FAIL
    assert "reasoning came in 5" in verdict.summary


def test_no_usage_and_no_evidence_are_errors(chain, tmp_path):
    plan = all_right(chain, given.plan(), lambda _: exchange(sse(counts=None)), only=first)

    assert judged("QUAL-ENV-01", chain, plan).outcome is Outcome.ERROR
    assert judged("QUAL-ENV-01", Chain(tmp_path, "empty.jsonl"), plan).outcome is Outcome.ERROR


# --- thinking gain -----------------------------------------------------------------------------------------------


def test_the_gain_is_paired_by_case(chain):
    plan = answered(chain, given.plan(), JSON, telling("no"), only=first)

    verdict = judged("QUAL-THINK-02", chain, plan)

    assert verdict.outcome is Outcome.PASS
    assert str(verdict.figures[0]) == "20.0 points"  # 5 of 5 on, 4 of 5 off
    assert [figure.scaled for figure in verdict.figures[1:]] == [4, 1, 0, 0]


def test_without_thinking_there_is_no_gain_to_count(chain):
    plan = answered(chain, given.plan(), JSON, lambda planned: as_asked(planned, "{}"), only=thinks)

    assert judged("QUAL-THINK-02", chain, plan).outcome is Outcome.INCONCLUSIVE


def test_when_the_cap_cut_every_thought_there_are_no_pairs(chain):
    plan = answered(chain, given.plan(), JSON, cut_by_cap, only=thinks)

    verdict = judged("QUAL-THINK-02", chain, plan)

    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert "5 cut" in verdict.summary


# --- proportions -------------------------------------------------------------------------------------------------


def test_the_stratified_share_by_hand():
    share = stratified([(5, 5), (0, 5)])

    assert share.mean == pytest.approx((5.5 / 6 + 0.5 / 6) / 2)
    assert share.se == pytest.approx((2 * (5.5 / 6) * (0.5 / 6) / 5) ** 0.5 / 2)
    assert (share.right, share.n) == (5, 10)


def test_newcombe_method_10_gives_the_published_interval():
    # Newcombe 1998, table III, (e, f, g, h) = (36, 12, 2, 0)
    assert newcombe(Paired(36, 12, 2, 0)) == pytest.approx((0.0569, 0.3404), abs=2e-4)


def test_mcnemar_is_a_sign_test_of_the_discordant_pairs():
    assert mcnemar(Paired(10, 5, 0, 3)) == pytest.approx(2 / 32)
    assert mcnemar(Paired(10, 0, 0, 3)) == 1.0
    assert mcnemar(Paired(0, 3, 3, 0)) == 1.0


def test_strata_without_cases_are_refused():
    with pytest.raises(ValueError, match="strata"):
        stratified([])


def test_what_a_trial_claims_of_itself_changes_nothing(chain):
    plan = given.plan("release")
    for planned in plan.gate(JSON).trials:
        place = planned.trial_id
        made = telling("no")(planned)
        chain.trial(JSON, place.case, made, repeat=place.repeat, grade="right", right=True, scenario="other")

    assert str(judged(JSON, chain, plan).figures[0]) == "0.0 %"


def test_the_other_arm_is_not_part_of_the_envelope(chain):
    plan = all_right(chain, given.plan(has_spec_off=True))
    chain.trial("QUAL-SPEC-05", "json-prompt/off", exchange(sse(finish="abort")), arm=Arm.SPEC_OFF)

    assert judged("QUAL-ENV-01", chain, plan).outcome is Outcome.PASS
