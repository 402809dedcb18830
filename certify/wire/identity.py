"""Who answers: engine, version, model, context and configuration, read from probes and answers alone."""

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass

from certify.records import Json, Probe
from certify.wire.answer import Answer
from certify.wire.counters import CONFIGURATION, RELEVANT
from certify.wire.hostile import LooseJson, shown
from certify.wire.prometheus import PromSample, samples

LONGEST_FACT = 200
MOST_FACTS = 200
MOST_MODELS = 100
LARGEST_NUMBER = 2**53
PREFIX = "identity:"
SIMULATOR = "certify-simulator"

_ENGINES = {
    "vllm": "vllm",
    "sglang": "sglang",
    "llamacpp": "llama.cpp",
    "tensorrt_llm": "tensorrt-llm",
    "lmdeploy": "lmdeploy",
    "tabbyapi": "tabbyapi",
    "ds4.c": "ds4",
}
_METRIC_PREFIXES = {"vllm:": "vllm", "sglang:": "sglang", "llamacpp:": "llama.cpp", "lmdeploy:": "lmdeploy"}

# vLLM: vllm-<version>[-tpN][-ppN][-dpN][-ep]-<hash>; without -tpN it is one GPU.
_VLLM_FINGERPRINT = re.compile(r"vllm-(.{1,80}?)((?:-(?:tp|pp|dp)[0-9]{1,4}|-ep)*)-[0-9a-f]{8}")

_SGLANG_FACTS = (
    *("attention_backend", "disable_radix_cache", "dtype", "kv_cache_dtype", "max_total_num_tokens"),
    *("mem_fraction_static", "page_size", "quantization", "reasoning_parser", "speculative_algorithm"),
    *("speculative_num_draft_tokens", "speculative_num_steps", "tool_call_parser"),
)
_VLLM_FACTS = (
    ("model_config", "dtype"),
    ("model_config", "quantization"),
    ("speculative_config", "method"),
    ("speculative_config", "num_speculative_tokens"),
    ("parallel_config", "pipeline_parallel_size"),
    ("parallel_config", "data_parallel_size"),
    ("scheduler_config", "max_num_batched_tokens"),
)
_NO_FACTS = ("engine", "model_name")  # labels that tell which sample it is
_VLLM_HOST_FACTS = ("nvidia_driver_version", "nvidia_gpu_models", "cuda_runtime_version", "torch_version", "os")


@dataclass(frozen=True, slots=True)
class Identity:
    """What the deployment says of itself; "" or None where it says nothing.

    `facts` are further observed facts as sorted (name, value) pairs of text, each capped at 200 characters.
    `context_tokens` is the longest prompt plus answer that one request may have, as far as the API tells.
    """

    engine: str  # "vllm", "sglang", "llama.cpp", "tensorrt-llm", "lmdeploy", "tabbyapi", "ds4", …, "generic"
    version: str
    model: str
    models: tuple[str, ...]
    context_tokens: int | None
    system_fingerprint: str
    tensor_parallel: int | None
    max_sequences: int | None
    simulated: bool
    facts: tuple[tuple[str, str], ...]


def read_identity(probes: Iterable[Probe], answers: Iterable[Answer] = ()) -> Identity:
    """The identity that a set of identity probes (and ordinary answers) shows; nothing is raised.

    Reads the probes named `identity:<path>` that came back with HTTP 200, the last one of each path; a chat completion
    among them counts for its fingerprint. `model` is the one that answered, else the first that is listed.
    """
    page = {probe.path.partition("?")[0]: probe.body for probe in probes if _usable(probe)}
    answers = tuple(answers)
    cards = _cards(page.get("/v1/models", ""))
    props, info = _object(page.get("/props", "")), _object(page.get("/server_info", ""))
    config = _member(info, "vllm_config")
    figures = tuple(samples(page.get("/metrics", page.get("/prometheus/metrics", "")), RELEVANT))
    tiny = _text(_object(page.get("/v1/chat/completions", "")).get("system_fingerprint"))
    told = (tiny, *(answer.system_fingerprint for answer in answers))
    fingerprints = tuple(name for name in dict.fromkeys(told) if name)
    fingerprint = fingerprints[-1] if fingerprints else ""
    parts = _VLLM_FINGERPRINT.fullmatch(fingerprint)
    models = tuple(dict.fromkeys(name for card in cards if (name := _text(card.get("id")))))
    model = next((a.model for a in reversed(answers) if a.model), models[0] if models else "")
    card = next((card for card in cards if card.get("id") == model), cards[0] if cards else {})
    owner = _text(card.get("owned_by"))
    slot = _member(props, "default_generation_settings")
    parameters = _member(card, "parameters")
    return Identity(
        engine=_ENGINES.get(owner.lower()) or _engine_by_signs(props, info, figures, fingerprint),
        version=(
            _text(_object(page.get("/version", "")).get("version"))
            or _text(info.get("version"))
            or _text(props.get("build_info"))
            or (parts.group(1) if parts else "")
        ),
        model=model,
        models=models,
        context_tokens=_first_count(
            card.get("max_model_len"),
            slot.get("n_ctx"),  # of one slot; meta.n_ctx_train is what the model was trained for
            parameters.get("max_seq_len"),
            card.get("context_length"),
            info.get("context_length"),
            *(sample.value for sample in figures if sample.name == "sglang:context_len"),
        ),
        system_fingerprint=fingerprint,
        tensor_parallel=_first_count(
            _parallel(parts.group(2)) if parts else None,
            info.get("tp_size"),
            _member(config, "parallel_config").get("tensor_parallel_size"),
        ),
        max_sequences=_first_count(
            props.get("total_slots"),
            info.get("max_running_requests"),
            _member(config, "scheduler_config").get("max_num_seqs"),
            parameters.get("max_batch_size"),
        ),
        simulated=any(_text(card.get("owned_by")) == SIMULATOR for card in cards),
        facts=_facts(owner, fingerprints, props, info, figures),
    )


def _usable(probe: Probe) -> bool:
    return probe.name.startswith(PREFIX) and probe.status == 200 and probe.failure is None  # noqa: PLR2004 - HTTP


def _engine_by_signs(
    props: dict[str, Json], info: dict[str, Json], figures: tuple[PromSample, ...], fingerprint: str
) -> str:
    for sample in figures:
        for prefix, engine in _METRIC_PREFIXES.items():
            if sample.name.startswith(prefix):
                return engine
    if fingerprint.startswith("vllm-") or "vllm_config" in info:
        return "vllm"
    if "tp_size" in info and "model_path" in info:
        return "sglang"
    return "llama.cpp" if "build_info" in props and "total_slots" in props else "generic"


def _facts(
    owner: str,
    fingerprints: tuple[str, ...],
    props: dict[str, Json],
    info: dict[str, Json],
    figures: tuple[PromSample, ...],
) -> tuple[tuple[str, str], ...]:
    facts: dict[str, Json] = {"owned_by": owner, "model_ftype": props.get("model_ftype")}
    template = props.get("chat_template")
    if isinstance(template, str):
        facts["chat_template_sha256"] = hashlib.sha256(template.encode(errors="replace")).hexdigest()
    if len(fingerprints) > 1:
        facts["system_fingerprints"] = " ".join(fingerprints)
    config = _member(info, "vllm_config")
    facts |= {f"{section}.{name}": _member(config, section).get(name) for section, name in _VLLM_FACTS}
    environment = _member(info, "system_env")
    facts |= {f"system_env.{name}": environment.get(name) for name in _VLLM_HOST_FACTS}
    facts |= {name: info.get(name) for name in _SGLANG_FACTS}
    for sample in figures:
        if sample.name == "vllm:cache_config_info":
            facts |= {f"cache.{label}": value for label, value in sample.labels.items() if label not in _NO_FACTS}
        elif sample.name in CONFIGURATION:
            facts[sample.name.replace(":", ".")] = f"{sample.value:.15g}"
    told = {shown(name, LONGEST_FACT): _fact(value) for name, value in facts.items()}
    return tuple(sorted((name, value) for name, value in told.items() if value))[:MOST_FACTS]


def _fact(value: Json) -> str:
    return "" if value is None or isinstance(value, (dict, list)) else shown(value, LONGEST_FACT)


def _parallel(suffix: str) -> int:
    found = re.search(r"-tp([0-9]+)", suffix)
    return int(found.group(1)) if found else 1


def _first_count(*values: Json) -> int | None:
    for value in values:
        number = int(value) if isinstance(value, float) and value.is_integer() else value
        if type(number) is int and 0 < number <= LARGEST_NUMBER:
            return number
    return None


def _cards(body: str) -> list[dict[str, Json]]:
    data = _object(body).get("data")
    return [card for card in data if isinstance(card, dict)][:MOST_MODELS] if isinstance(data, list) else []


def _object(body: str) -> dict[str, Json]:
    """The JSON object in a body, an empty one if it holds none."""
    try:
        value = LooseJson(lambda _: None).parse(body) if body else None
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _member(value: dict[str, Json], name: str) -> dict[str, Json]:
    member = value.get(name)
    return member if isinstance(member, dict) else {}


def _text(value: Json) -> str:
    return shown(value, LONGEST_FACT) if isinstance(value, str) else ""
