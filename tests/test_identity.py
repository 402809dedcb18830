import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from certify.records import Failure, FailureKind, Probe
from certify.wire.answer import Answer
from certify.wire.identity import read_identity

PAGES = Path(__file__).parent / "captures" / "pages"


def probe(path: str, body: object, status: int | None = 200) -> Probe:
    text = body if isinstance(body, str) else json.dumps(body)
    return Probe(f"identity:{path.partition('?')[0]}", "GET", path, status, "application/json", text, 1)


def models(*cards: dict) -> Probe:
    return probe("/v1/models", {"object": "list", "data": list(cards)})


def recorded(folder: str) -> list[Probe]:
    return [
        Probe(f"identity:{held['path']}", "GET", held["path"], held["status"], "", held["body"], 1)
        for held in json.loads((PAGES / f"{folder}.json").read_text())
    ]


def test_vllm_as_recorded():
    identity = read_identity(recorded("vllm-tp2"), [Answer(system_fingerprint="vllm-0.26.0-tp2-f5356325")])
    facts = dict(identity.facts)
    assert (identity.engine, identity.version, identity.model) == ("vllm", "0.26.0", "smollm2-135m-instruct")
    assert (identity.context_tokens, identity.tensor_parallel, identity.max_sequences) == (1_100_000, 2, 32)
    assert (facts["cache.block_size"], facts["cache.enable_prefix_caching"]) == ("16", "True")
    assert (facts["speculative_config.method"], facts["speculative_config.num_speculative_tokens"]) == ("ngram", "5")
    assert (facts["system_env.nvidia_driver_version"], identity.simulated) == ("580.159.04", False)


def test_llamacpp_as_recorded():
    identity = read_identity(recorded("llamacpp"))
    assert (identity.engine, identity.version, identity.model) == ("llama.cpp", "b0-unknown", "smollm2-135m")
    assert (identity.context_tokens, identity.max_sequences, identity.tensor_parallel) == (2048, 4, None)
    assert dict(identity.facts)["model_ftype"] == "Q4_1"


def test_sglang_by_its_server_info():
    info = {"version": "0.5.23", "tp_size": 2, "model_path": "x", "max_running_requests": 16, "page_size": 64}
    card = {"id": "m", "owned_by": "sglang", "max_model_len": 65536}
    identity = read_identity([models(card), probe("/server_info?config_format=json", info)])
    assert (identity.engine, identity.version, identity.tensor_parallel) == ("sglang", "0.5.23", 2)
    assert (identity.max_sequences, identity.context_tokens, dict(identity.facts)["page_size"]) == (16, 65536, "64")


@pytest.mark.parametrize(
    ("owner", "engine"),
    [
        *(("vllm", "vllm"), ("sglang", "sglang"), ("llamacpp", "llama.cpp"), ("tensorrt_llm", "tensorrt-llm")),
        *(("lmdeploy", "lmdeploy"), ("tabbyAPI", "tabbyapi"), ("ds4.c", "ds4"), ("Qwen", "generic"), (7, "generic")),
    ],
)
def test_the_owner_names_the_engine(owner, engine):
    assert read_identity([models({"id": "m", "owned_by": owner})]).engine == engine


@pytest.mark.parametrize(
    ("fingerprint", "version", "parallel"),
    [
        ("vllm-0.26.0-tp2-f5356325", "0.26.0", 2),
        ("vllm-0.26.0-02c8c4d6", "0.26.0", 1),
        ("vllm-0.33.1rc2.dev12+g4ba787ec9-tp16-pp2-dp4-ep-0123abcd", "0.33.1rc2.dev12+g4ba787ec9", 16),
        ("b0-unknown", "", None),
        ("vllm-anything an operator wrote", "", None),
    ],
)
def test_a_fingerprint_tells_version_and_tensor_parallelism(fingerprint, version, parallel):
    identity = read_identity([], [Answer(system_fingerprint=fingerprint)])
    assert (identity.version, identity.tensor_parallel, identity.system_fingerprint) == (version, parallel, fingerprint)


def test_a_tiny_completion_among_the_probes_tells_the_fingerprint():
    tiny = probe("/v1/chat/completions", {"system_fingerprint": "vllm-0.33.0-tp2-01234567", "choices": []})
    assert read_identity([tiny]).tensor_parallel == 2


def test_a_fingerprint_that_changed_is_a_fact():
    answers = [Answer(system_fingerprint="a"), Answer(system_fingerprint="b")]
    identity = read_identity([], answers)
    assert (identity.system_fingerprint, dict(identity.facts)["system_fingerprints"]) == ("b", "a b")


def test_a_gateway_shows_its_engine_by_the_counters():
    page = probe("/metrics", 'sglang:context_len{model_name="m"} 131072\n')
    identity = read_identity([models({"id": "m", "owned_by": "gateway"}), page])
    assert (identity.engine, identity.context_tokens) == ("sglang", 131072)


def test_the_simulator_says_so():
    card = {"id": "m", "owned_by": "certify-simulator", "max_model_len": 1_048_576}
    identity = read_identity(
        [models(card), probe("/version", {"version": "1"}), probe("/metrics", "vllm:num_requests_running 0\n")]
    )
    assert (identity.simulated, identity.engine) == (True, "vllm")


def test_the_model_that_answered_is_the_model():
    cards = models({"id": "a", "max_model_len": 1}, {"id": "b", "max_model_len": 2})
    identity = read_identity([cards], [Answer(model="b")])
    assert (identity.model, identity.models, identity.context_tokens) == ("b", ("a", "b"), 2)


@pytest.mark.parametrize("status", [None, 404, 500])
def test_only_answers_with_status_200_say_anything(status):
    assert read_identity([probe("/version", {"version": "1"}, status)]).version == ""


def test_a_probe_that_broke_says_nothing():
    broken = Probe(
        "identity:/version", "GET", "/version", 200, "", '{"version":"1"}', 1, Failure(FailureKind.BROKEN, "")
    )
    assert read_identity([broken]).version == ""


def test_other_probes_say_nothing():
    assert read_identity([Probe("contract:x", "GET", "/version", 200, "", '{"version":"1"}', 1)]).version == ""


def test_facts_are_capped():
    page = probe("/metrics", f'vllm:cache_config_info{{cache_dtype="{"x" * 5000}"}} 1\n')
    assert [len(value) for _, value in read_identity([page]).facts] == [200]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    *(
                        "data",
                        "id",
                        "owned_by",
                        "max_model_len",
                        "parameters",
                        "max_seq_len",
                        "version",
                        "build_info",
                        "n_ctx",
                    ),
                    *(
                        "default_generation_settings",
                        "total_slots",
                        "vllm_config",
                        "parallel_config",
                        "tp_size",
                        "system_env",
                    ),
                    *("chat_template", "system_fingerprint", "tensor_parallel_size", "context_length"),
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=15,
)
PATHS = st.sampled_from(["/v1/models", "/version", "/props", "/server_info", "/metrics", "/v1/chat/completions"])


@given(st.lists(st.tuples(PATHS, JSON | st.text(max_size=50)), max_size=6))
def test_nothing_raises(pages):
    identity = read_identity([probe(path, body) for path, body in pages])
    assert json.dumps([identity.model, identity.version, *identity.models, *identity.facts]).encode()
