"""The judges of the performance room on evidence made by hand, against verdicts computed by hand."""

from dataclasses import replace
from pathlib import Path

import pytest

from certify.judging.perf import JUDGES
from certify.perf.plans import plan_gates, prompts_of
from certify.records import Arm, Failure, FailureKind, Outcome, Sample, Trial
from certify.thresholds import load
from tests.handmade import MS, context, evidence, exchange, plan, streamed

RATE, WARM, COLD = "PERF-C1-01", "PERF-CACHE-01", "PERF-CACHE-02"
DEMO = load("demo")
GENERIC = load("generic")
CAPTURES = Path(__file__).parent / "captures"


def gates(requirement, **kwargs):
    return next(gate for gate in plan_gates(context(**kwargs)) if gate.requirement == requirement)


# --- one stream ---------------------------------------------------------------------------------------------------


def stream_trials(passes, answer, *, warm_up=None):
    """The warm-up pass and so many counted ones, all with the same answer."""
    gate = gates(RATE)
    return [
        Trial(one.trial_id, (RATE,), one.trial_id.repeat == 0, {}, warm_up or answer)
        if one.trial_id.repeat == 0
        else Trial(one.trial_id, (RATE,), False, {}, answer)
        for one in gate.trials
        if one.trial_id.repeat <= passes
    ]


def judge_stream(tmp_path, trials, thresholds=DEMO):
    return JUDGES[RATE](evidence(tmp_path, trials), plan([gates(RATE)]), thresholds)


def test_a_stream_above_the_floor_passes_with_both_rates(tmp_path):
    # 64 tokens, first after 100 ms, then one every 10 ms: wall .73 s, window 63 tokens in .63 s
    verdict = judge_stream(tmp_path, stream_trials(5, streamed(64)))

    closed, window, ttft = verdict.figures
    assert verdict.outcome is Outcome.PASS
    assert (closed.scaled, closed.n, closed.unit) == (round(64 / 0.73 * 1000), 5, "tok/s")
    assert (window.scaled, window.low_scaled) == (round((63 / 0.63) * 1000 / 1), None)
    assert ttft.scaled == 100_000
    assert "this launch" in verdict.summary
    assert "floor 10.0 tok/s" in verdict.summary


def test_the_warm_up_is_recorded_and_does_not_count(tmp_path):
    slow_start = streamed(64, ttft_ms=60_000)

    verdict = judge_stream(tmp_path, stream_trials(5, streamed(64), warm_up=slow_start))

    assert verdict.outcome is Outcome.PASS
    assert verdict.figures[0].scaled == round(64 / 0.73 * 1000)
    assert len(verdict.evidence) == 18


def test_a_slow_stream_fails_at_the_first_look(tmp_path):
    verdict = judge_stream(tmp_path, stream_trials(5, streamed(64, step_ms=300)))

    assert verdict.outcome is Outcome.FAIL
    assert "all 5 repeats lie below" in verdict.summary
    assert verdict.action


def test_a_rate_at_the_floor_asks_for_more_repeats(tmp_path):
    at_the_floor = streamed(64, ttft_ms=10, step_ms=101)  # 64 / 6.373 s = 10.04 tok/s

    assert judge_stream(tmp_path, stream_trials(5, at_the_floor)).outcome is Outcome.NOT_RUN
    assert judge_stream(tmp_path, stream_trials(10, at_the_floor)).outcome is Outcome.INCONCLUSIVE


def test_without_a_floor_the_verdict_prints_what_to_paste(tmp_path):
    verdict = judge_stream(tmp_path, stream_trials(5, streamed(64)), GENERIC)

    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert verdict.action.endswith('floor = 83.3\nunit = "tok/s"\nsource = "run run-1 x 0.95"')


@pytest.mark.parametrize(
    ("answer", "outcome", "says"),
    [
        (streamed(64, usage=False), Outcome.ERROR, "no usage"),
        (streamed(64, said=128), Outcome.ERROR, "at most 64 were allowed"),
        (streamed(64, said=32), Outcome.ERROR, "64 chunks brought text"),
        (streamed(64, merged=True), Outcome.ERROR, "merged"),
        (streamed(64, ttft_ms=1, step_ms=0), Outcome.ERROR, "too short"),
        (streamed(64, finish=None), Outcome.FAIL, "without a finish reason"),
        (streamed(64, words=("!",)), Outcome.FAIL, "same sign"),
        (streamed(64, words=("the",)), Outcome.FAIL, "same word"),
        (exchange([(b'{"error":{"message":"busy"}}', MS)], ended_ns=MS, status=503), Outcome.FAIL, "HTTP status 503"),
        (exchange([(b'{"error":{"message":"no"}}', MS)], ended_ns=MS, status=400), Outcome.ERROR, "refused"),
        (
            exchange([], ended_ns=MS, status=None, failure=Failure(FailureKind.BROKEN, "gone")),
            Outcome.FAIL,
            "broken",
        ),
    ],
)
def test_one_bad_exchange_is_never_dropped(tmp_path, answer, outcome, says):
    trials = stream_trials(5, streamed(64))
    bad = [replace(one, exchange=answer) if one.trial_id.repeat in (2, 3, 4) else one for one in trials]

    verdict = judge_stream(tmp_path, bad)

    assert verdict.outcome is outcome
    assert says in verdict.summary
    assert verdict.findings[0].evidence


def test_an_interrupted_exchange_is_replaced_not_counted(tmp_path):
    trials = stream_trials(5, streamed(64))
    cut = exchange([], ended_ns=MS, status=None, failure=Failure(FailureKind.INTERRUPTED, "stopped"))
    again = replace(trials[-1], trial_id=replace(trials[-1].trial_id, repeat=1005))

    verdict = judge_stream(tmp_path, [*trials[:-1], replace(trials[-1], exchange=cut), again])

    assert verdict.outcome is Outcome.PASS


def test_a_pass_with_a_hole_is_an_error(tmp_path):
    trials = stream_trials(6, streamed(64))
    holed = [one for one in trials if (one.trial_id.repeat, one.trial_id.case) != (3, prompts_of(1)[0].name)]

    verdict = judge_stream(tmp_path, holed)

    assert verdict.outcome is Outcome.ERROR
    assert "repeat 3 has 2 of 3" in verdict.summary


def test_several_tokens_a_chunk_do_not_bias_the_decode_window(tmp_path):
    # 64 tokens in 16 chunks of 4, one every 40 ms: 60 tokens after the first, in .60 s
    exact = judge_stream(tmp_path, stream_trials(5, streamed(64, per_chunk=4, step_ms=40, running=True)))
    unknown = judge_stream(tmp_path, stream_trials(5, streamed(64, per_chunk=4, step_ms=40)))

    assert exact.figures[1].scaled == 100_000
    assert exact.figures[1].low_scaled is None
    assert unknown.figures[1].low_scaled < 100_000 < unknown.figures[1].high_scaled


def test_the_engines_own_figure_stands_beside_ours(tmp_path):
    own = streamed(64, timings={"predicted_n": 64, "predicted_per_second": 101.5})

    verdict = judge_stream(tmp_path, stream_trials(5, own))

    assert [figure.name for figure in verdict.figures][-1] == "server_decode_rate"
    assert verdict.figures[-1].scaled == 101_500


def test_a_real_burst_of_eight_tokens_in_two_chunks_gives_no_rate(tmp_path):
    # vLLM 0.26.0, TP=2, after a prompt of 200,077 tokens: (n - 1) / (last - first) says 7,439 tok/s
    trials = [replace(one, exchange=replace(burst(), ended_ns=2_768 * MS)) for one in stream_trials(5, streamed(64))]

    verdict = judge_stream(tmp_path, trials)

    assert verdict.outcome is Outcome.ERROR
    assert "2 chunks with output; 8 are needed" in verdict.summary
    assert not verdict.figures


def burst():
    lines = (CAPTURES / "vllm-0.26.0-burst-after-200k-prompt.txt").read_text(encoding="utf-8").splitlines()[2:]
    stamped = [line.split("\t", 1) for line in lines if "\t" in line]
    return exchange(
        [((raw + "\n\n").encode(), round(float(at) * 1000 * MS)) for at, raw in stamped if raw.strip()],
        ended_ns=0,
    )


# --- the prefix cache ---------------------------------------------------------------------------------------------


def pair_records(*, cold_ms=1000, warm_ms=50, cold_cached=24, warm_cached=590, prompt=600, hits=None, base_ms=40):
    """The pairs of the demo; `hits` are the engine's counters: what each warm exchange adds to them."""
    records, total = [], 0
    for one in gates(WARM).trials:
        if not one.trial_id.case.startswith("pair-"):
            records.append(Trial(one.trial_id, (WARM, COLD), True, {}, streamed(8, ttft_ms=base_ms, prompt=16)))
            continue
        warm = one.trial_id.repeat > 0
        answer = streamed(
            8, ttft_ms=warm_ms if warm else cold_ms, prompt=prompt, cached=warm_cached if warm else cold_cached
        )
        records += [counters(total)] if hits is not None else []
        records.append(Trial(one.trial_id, (WARM, COLD), False, {}, answer))
        total += (hits or 0) if warm else 0
    return [*records, counters(total)] if hits is not None else records


def counters(total):
    text = f'vllm:prefix_cache_queries_total{{engine="0"}} 100000\nvllm:prefix_cache_hits_total{{engine="0"}} {total}\n'
    return Sample("prefix-cache", Arm.SERVED, 1, 200, text)


def judge_cache(requirement, tmp_path, records, *, declared=None, thresholds=DEMO):
    planned = plan([gates(WARM), gates(COLD)], declared=declared)
    return JUDGES[requirement](evidence(tmp_path, records), planned, thresholds)


def test_hits_by_usage_that_save_time_pass(tmp_path):
    verdict = judge_cache(WARM, tmp_path, pair_records())

    assert verdict.outcome is Outcome.PASS
    assert verdict.figures[0].scaled == 2000
    assert verdict.figures[1].scaled == round(590 / 600 * 10_000)
    assert len(verdict.evidence) == 10


def test_hits_by_counters_pass_where_usage_is_silent(tmp_path):
    verdict = judge_cache(WARM, tmp_path, pair_records(cold_cached=None, warm_cached=None, hits=592))

    assert verdict.outcome is Outcome.PASS
    assert "the engine's counters" in verdict.summary


def test_counters_tell_nothing_when_another_exchange_ran_between(tmp_path):
    records = pair_records(cold_cached=None, warm_cached=None, hits=592)
    merged = [one for one in records if not isinstance(one, Sample)][:-1] + records[-2:]

    assert judge_cache(WARM, tmp_path, merged).outcome is Outcome.INCONCLUSIVE


def test_time_alone_is_inconclusive_and_names_the_flag(tmp_path):
    verdict = judge_cache(WARM, tmp_path, pair_records(cold_cached=None, warm_cached=None))

    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert verdict.summary.startswith("by timing only")
    assert "--enable-prompt-tokens-details" in verdict.action


@pytest.mark.parametrize(
    ("records", "says"),
    [
        (pair_records(warm_ms=1000), "but cold over warm TTFT 1.00 x"),
        (pair_records(warm_cached=0), "cached_tokens says that no repeat hit, yet"),
    ],
)
def test_a_counter_that_the_times_contradict_fails(tmp_path, records, says):
    verdict = judge_cache(WARM, tmp_path, records)

    assert verdict.outcome is Outcome.FAIL
    assert says in verdict.summary
    assert "the counter is wrong" in verdict.cause


def test_a_prefill_too_fast_to_tell_is_inconclusive(tmp_path):
    # cold 44 ms, and a prompt of a few words takes 40 ms: a full hit could not be seen
    verdict = judge_cache(WARM, tmp_path, pair_records(cold_ms=44, warm_ms=43))

    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert "longer prompt" in verdict.action


def test_one_repeat_that_misses_fails(tmp_path):
    records = pair_records()
    third = next(place for place, one in enumerate(records) if one.trial_id.case == "pair-1") + 2
    records[third] = replace(records[third], exchange=streamed(8, ttft_ms=50, prompt=600, cached=24))

    verdict = judge_cache(WARM, tmp_path, records)

    assert verdict.outcome is Outcome.FAIL
    assert "1 of 6 repeats" in verdict.summary
    assert verdict.findings[-1].text.startswith("24 of 600 tokens cached on repeat 2 of pair-1")


@pytest.mark.parametrize(
    ("declared", "outcome"),
    [
        ({"prefix-cache": True}, Outcome.FAIL),
        ({"prefix-cache": False}, Outcome.NOT_APPLICABLE),
        ({}, Outcome.INCONCLUSIVE),
    ],
)
def test_no_cache_is_judged_by_what_the_owner_declares(tmp_path, declared, outcome):
    none = pair_records(cold_cached=0, warm_cached=0, warm_ms=1000)

    assert judge_cache(WARM, tmp_path, none, declared=declared).outcome is outcome


def test_a_cache_that_the_owner_denies_is_still_seen(tmp_path):
    verdict = judge_cache(WARM, tmp_path, pair_records(), declared={"prefix-cache": False})

    assert verdict.outcome is Outcome.PASS
    assert "yet hits were seen" in verdict.findings[-1].text


def test_a_broken_repeat_fails(tmp_path):
    records = pair_records()
    records[-1] = replace(records[-1], exchange=exchange([(b"{}", MS)], ended_ns=MS, status=500))

    assert judge_cache(WARM, tmp_path, records).outcome is Outcome.FAIL


def test_missing_pairs_are_not_run(tmp_path):
    assert judge_cache(WARM, tmp_path, pair_records()[:-1]).outcome is Outcome.NOT_RUN


def test_a_preamble_in_the_cache_is_still_cold(tmp_path):
    verdict = judge_cache(COLD, tmp_path, pair_records(cold_cached=32))

    assert verdict.outcome is Outcome.PASS
    assert verdict.figures[0].scaled == round(32 / 600 * 10_000)


def test_a_fresh_prompt_that_hits_fails(tmp_path):
    verdict = judge_cache(COLD, tmp_path, pair_records(cold_cached=300))

    assert verdict.outcome is Outcome.FAIL
    assert "4 of 4 prompts behind a fresh nonce were not cold" in verdict.summary


def test_a_silent_server_cannot_prove_a_cold_start(tmp_path):
    silent = pair_records(cold_cached=None, warm_cached=None)

    assert judge_cache(COLD, tmp_path, silent).outcome is Outcome.INCONCLUSIVE
    assert judge_cache(COLD, tmp_path, silent, declared={"prefix-cache": False}).outcome is Outcome.NOT_APPLICABLE


# --- the plan -----------------------------------------------------------------------------------------------------


def test_the_plan_takes_its_prompts_from_all_strata():
    assert len({prompt.stratum for prompt in prompts_of(4)}) == 4
    assert len({prompt.name for prompt in prompts_of(12)}) == 12


def test_each_planned_prompt_has_a_nonce_of_its_own():
    gate = gates(RATE)

    assert len({trial.seed for trial in gate.trials}) == len(gate.trials) == 3 * 11


def test_a_small_budget_shortens_the_stream():
    small = gates(RATE, profile="gate", budget_s=600)

    assert small.parameters["looks"] == [5]
    assert small.parameters["max_tokens"] < 512


def test_a_small_context_shortens_the_prompts():
    assert gates(WARM, context_tokens=384).parameters["words"] == [288]
    assert gates(WARM, context_tokens=8192).parameters["words"] == [300, 1200, 4800]
