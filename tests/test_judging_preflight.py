"""The preflight judges, on raw evidence made by hand."""

import json

import pytest

from certify.judging.preflight import JUDGES
from certify.records import Arm, Outcome, Reads, Thinking
from certify.wire.emissions import EMITTED_NS, EMITTED_US, RECEIVED_NS, TOKENS
from tests import given
from tests.given import CUT, NO_BARS, STOPPED, Chain, bars, error, exchange, sse, usage, whole


@pytest.fixture
def chain(tmp_path):
    return Chain(tmp_path)


def judged(requirement, chain, plan=None, thresholds=NO_BARS):
    return JUDGES[requirement](chain.view(), plan or given.plan("smoke"), thresholds)


# --- contract ----------------------------------------------------------------------------------------------------


def tiny(chain, streamed, unary):
    chain.trial("PRE-CONTRACT-01", "stream", streamed)
    chain.trial("PRE-CONTRACT-01", "whole", unary)
    return judged("PRE-CONTRACT-01", chain)


def test_answers_that_keep_shape_and_laws_pass(chain):
    verdict = tiny(chain, exchange(sse()), exchange(whole(), stream=False))

    assert verdict.outcome is Outcome.PASS
    assert (verdict.figures[0].scaled, verdict.figures[0].n) == (0, 2)
    assert verdict.evidence == (1, 2)


@pytest.mark.parametrize(
    ("streamed", "words"),
    [
        (exchange(sse(counts=(10, 101))), "max_tokens"),
        (exchange(sse(counts=usage(10, 5) | {"total_tokens": 99})), "total_tokens 99"),
        (exchange(sse(finish="abort")), "abort"),
        (exchange(sse(finish="", counts=None)), "without a finish reason"),
        (exchange(sse(finish="", counts=None), failure=CUT), "broke (broken: "),
        (exchange(sse(finish="", counts=None, tail=b"data: " + error("worker died") + b"\n\n")), "after HTTP 200"),
        (exchange(error("no such model"), status=404), "HTTP 404"),
        (exchange(sse(counts=(11, 5))), "10 and 11 prompt tokens"),
    ],
    ids=["over-cap", "sum", "finish", "no-finish", "cut", "error-in-stream", "404", "uneven-prompts"],
)
def test_a_breach_of_the_contract_fails(chain, streamed, words):
    verdict = tiny(chain, streamed, exchange(whole(), stream=False))

    assert verdict.outcome is Outcome.FAIL
    assert words in verdict.summary
    assert verdict.findings[0].evidence
    assert verdict.action


def test_without_usage_nothing_can_be_counted(chain):
    verdict = tiny(chain, exchange(sse(counts=None)), exchange(whole(), stream=False))

    assert verdict.outcome is Outcome.ERROR
    assert "include_usage" in verdict.action


def test_a_planned_exchange_that_is_missing_is_no_pass(chain):
    chain.trial("PRE-CONTRACT-01", "stream", exchange(sse()))

    assert judged("PRE-CONTRACT-01", chain).outcome is Outcome.ERROR


def test_every_exchange_of_the_run_is_looked_at_warm_ups_too(chain):
    chain.trial("PERF-C1-01", "code", exchange(sse()))
    bad = chain.trial("PERF-C1-01", "code", exchange(sse(counts=(10, 101))), repeat=1, warm_up=True)

    verdict = judged("PRE-CONTRACT-02", chain)

    assert verdict.outcome is Outcome.FAIL
    assert verdict.evidence == (bad,)


def test_the_run_excludes_the_emitter_the_interrupted_and_clean_refusals(chain):
    chain.trial("PRE-RULER-01", "x", exchange(sse(counts=(10, 500))))
    chain.trial("PERF-C1-01", "code", exchange(b"", status=None, failure=STOPPED))
    chain.trial("QUAL-TOOL-05", "t", exchange(error("tools need a parser"), status=400))
    chain.trial("PERF-C1-01", "code", exchange(sse()), repeat=1)

    verdict = judged("PRE-CONTRACT-02", chain)

    assert verdict.outcome is Outcome.PASS
    assert verdict.figures[0].n == 2
    assert verdict.figures[0].population.startswith("1 refused cleanly; 1 interrupted")


def test_a_server_error_in_mid_run_fails(chain):
    chain.trial("PERF-C1-01", "code", exchange(error("out of memory", code=500), status=500))

    assert judged("PRE-CONTRACT-02", chain).outcome is Outcome.FAIL


def test_a_run_without_an_exchange_proves_nothing(chain):
    assert judged("PRE-CONTRACT-02", chain).outcome is Outcome.ERROR


# --- identity ----------------------------------------------------------------------------------------------------


def models(*names, length=8192):
    cards = [{"id": name, "object": "model", "owned_by": "vllm", "max_model_len": length} for name in names]
    return json.dumps({"object": "list", "data": cards})


def identified(chain, start, end, *, start_version="1.0", end_version="1.0"):
    chain.probe("identity:/v1/models", "/v1/models", start)
    chain.probe("identity:/version", "/version", json.dumps({"version": start_version}))
    chain.trial("PERF-C1-01", "code", exchange(sse(system_fingerprint="f1")))
    chain.probe("identity-end:/v1/models", "/v1/models", end)
    chain.probe("identity-end:/version", "/version", json.dumps({"version": end_version}))
    return judged("PRE-IDENT-01", chain)


def test_the_same_deployment_passes(chain):
    assert identified(chain, models("m"), models("m")).outcome is Outcome.PASS


def test_a_model_list_that_grows_is_told_and_passes(chain):
    verdict = identified(chain, models("m"), models("m", "adapter"))

    assert verdict.outcome is Outcome.PASS
    assert "adapter" in verdict.findings[0].text


@pytest.mark.parametrize(
    ("end", "version", "words"),
    [
        (models("m", length=4096), "1.0", "context was '8192', now '4096'"),
        (models("other"), "1.0", "model 'm' is no longer listed"),
        (models("m"), "1.1", "version was '1.0', now '1.1'"),
    ],
)
def test_a_difference_is_named_and_fails(chain, end, version, words):
    verdict = identified(chain, models("m"), end, end_version=version)

    assert verdict.outcome is Outcome.FAIL
    assert words in verdict.summary


def test_a_fingerprint_that_changes_between_answers_fails(chain):
    chain.trial("PERF-C1-01", "code", exchange(sse(system_fingerprint="f2")), repeat=1)

    verdict = identified(chain, models("m"), models("m"))

    assert verdict.outcome is Outcome.FAIL
    assert verdict.findings[0].evidence == (1, 4)


def test_the_other_arm_and_the_emitter_may_have_another_fingerprint(chain):
    chain.trial("QUAL-SPEC-01", "copying", exchange(sse(system_fingerprint="off")), arm=Arm.SPEC_OFF)
    chain.trial("PRE-RULER-01", "x", exchange(sse(model="emitter")))

    assert identified(chain, models("m"), models("m")).outcome is Outcome.PASS


def test_totals_that_fall_tell_of_a_restart(chain):
    chain.sample("spec:before", "vllm:generation_tokens_total 500\n")
    chain.sample("spec:after", "vllm:generation_tokens_total 20\n")

    verdict = identified(chain, models("m"), models("m"))

    assert verdict.outcome is Outcome.FAIL
    assert "from 500 to 20" in verdict.summary


def test_without_probes_of_the_end_nothing_is_compared(chain):
    chain.probe("identity:/v1/models", "/v1/models", models("m"))

    assert judged("PRE-IDENT-01", chain).outcome is Outcome.ERROR


# --- thinking ----------------------------------------------------------------------------------------------------

THINKS = sse("4", reasoning="two and two", counts=(12, 9))
SILENT = sse("4", counts=(10, 2))


def switched(chain, on, off, unsaid=SILENT, declared=None):
    for mode, body in (("on", on), ("off", off), ("unsaid", unsaid)):
        made = body if not isinstance(body, bytes) else exchange(body, thinking=Thinking(mode))
        chain.trial("PRE-THINK-01", mode, made)
    return judged("PRE-THINK-01", chain, given.plan("smoke", declared=declared))


def test_thinking_that_follows_the_switch_passes(chain):
    verdict = switched(chain, THINKS, SILENT)

    assert verdict.outcome is Outcome.PASS
    assert [(figure.name, figure.scaled) for figure in verdict.figures] == [
        ("thinking_seen_on", 1),
        ("thinking_seen_off", 0),
        ("thinking_seen_unsaid", 0),
    ]


def test_reasoning_tokens_alone_are_an_effect(chain):
    counted = usage(12, 9) | {"completion_tokens_details": {"reasoning_tokens": 7}}

    assert switched(chain, sse("4", counts=counted), SILENT).outcome is Outcome.PASS


@pytest.mark.parametrize(
    ("on", "off", "words"),
    [
        (THINKS, THINKS, "ignored"),
        (SILENT, THINKS, "inverted"),
        (sse("<think>hm</think>4", counts=(12, 9)), SILENT, "leaks"),
        (THINKS, sse("4", counts=(10, 90)), "hidden"),
    ],
    ids=["ignored", "inverted", "leak", "hidden"],
)
def test_a_switch_that_does_not_switch_fails(chain, on, off, words):
    verdict = switched(chain, on, off)

    assert verdict.outcome is Outcome.FAIL
    assert words in verdict.summary
    assert verdict.cause


@pytest.mark.parametrize(
    ("declared", "outcome"),
    [({"thinking": True}, Outcome.FAIL), ({}, Outcome.INCONCLUSIVE), ({"thinking": False}, Outcome.NOT_APPLICABLE)],
)
def test_no_thinking_at_all_is_judged_by_what_is_declared(chain, declared, outcome):
    assert switched(chain, SILENT, SILENT, declared=declared).outcome is outcome


def test_a_prompt_that_changes_forbids_not_applicable(chain):
    verdict = switched(chain, sse("4", counts=(12, 2)), SILENT, declared={"thinking": False})

    assert verdict.outcome is Outcome.INCONCLUSIVE


def test_a_broken_answer_measures_nothing(chain):
    broken = exchange(sse(finish="", counts=None), failure=CUT, thinking=Thinking.ON)

    assert switched(chain, broken, SILENT).outcome is Outcome.ERROR


def test_working_thinking_that_is_declared_absent_passes_and_is_told(chain):
    verdict = switched(chain, THINKS, SILENT, declared={"thinking": False})

    assert verdict.outcome is Outcome.PASS
    assert "false" in verdict.findings[0].text


# --- ruler -------------------------------------------------------------------------------------------------------

CEILINGS = bars("PRE-RULER-01", decode_rate_error="ceiling = 0.1", ttft_error_p99="ceiling = 5.0")
STEP_NS = 8_000_000


def emitted(*, stretch=1.0, late_ns=100_000, chunks=5, tokens=3, told_tokens=None):
    """A stream of the emitter, first chunk after 20 ms, read `late_ns` later with a clock that runs `stretch` fast."""
    sizes, stamps, body = [], [], b""
    for place in range(chunks):
        sent = 20_000_000 + place * STEP_NS
        value = {
            "id": "c",
            "object": "chat.completion.chunk",
            "created": 1,
            "model": "emitter",
            "choices": [
                {
                    "index": 0,
                    "delta": {"content": " tick" * tokens},
                    "finish_reason": "length" if place == chunks - 1 else None,
                }
            ],
            RECEIVED_NS: 1_000_000,
            TOKENS: tokens,
            EMITTED_NS: 1_000_000 + sent,
            EMITTED_US: 1,
        }
        event = b"data: " + json.dumps(value).encode() + b"\n\n"
        body += event
        sizes.append(len(event))
        stamps.append(round(20_000_000 + place * STEP_NS * stretch) + late_ns)
    tail = sse("", finish="", counts=(1, told_tokens or chunks * tokens)).partition(b"\n\n")[2]
    return exchange(body + tail, reads=Reads((*sizes, len(tail)), (*stamps, stamps[-1] + 1), (*stamps, stamps[-1] + 1)))


def calibrated(chain, *streams, thresholds=CEILINGS):
    cases = [(f"tokens-per-chunk-{tokens}", repeat) for repeat in range(2) for tokens in (1, 3)]
    for (case, repeat), stream in zip(cases, streams, strict=False):
        chain.trial("PRE-RULER-01", case, stream, repeat=repeat)
    return judged("PRE-RULER-01", chain, thresholds=thresholds)


def test_a_true_ruler_passes_with_its_error(chain):
    verdict = calibrated(chain, *[emitted()] * 3, emitted(stretch=1.0005))

    assert verdict.outcome is Outcome.PASS
    window, ttft = verdict.figures
    assert (str(window), window.n) == ("0.0500 %", 4)
    assert str(ttft) == "0.100 ms"


@pytest.mark.parametrize(
    ("stream", "words"),
    [(emitted(stretch=1.002), "decode_rate_error 0.2000 %"), (emitted(late_ns=6_000_000), "ttft_error_p99")],
)
def test_a_ruler_that_errs_fails(chain, stream, words):
    verdict = calibrated(chain, *[stream] * 4)

    assert verdict.outcome is Outcome.FAIL
    assert words in verdict.summary


def test_a_stream_whose_tokens_were_not_read_as_sent_is_void(chain):
    assert calibrated(chain, *[emitted(told_tokens=14)] * 4).outcome is Outcome.ERROR


def test_a_missing_stream_is_no_calibration(chain):
    assert calibrated(chain, emitted()).outcome is Outcome.ERROR


def test_without_ceilings_the_ruler_is_only_told(chain):
    verdict = calibrated(chain, *[emitted()] * 4, thresholds=NO_BARS)

    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert "ceiling = " in verdict.action
