"""The deployment's own counters, read from Prometheus text by exact sample names (docs/METHODS.md lists them)."""

from collections import defaultdict
from dataclasses import dataclass

from certify.wire.prometheus import LONGEST_LINE, name_of, samples

MOST_KEPT_BYTES = 64 * 1024
MOST_POSITIONS = 64

# Full sample names, the first that a page has wins. Never by prefix: `_created` gauges and `_per_pos` counters share
# the prefixes of the counters beside them, and a prefix match sums time stamps into tokens.
_PROMPT = (
    "vllm:prompt_tokens_total",
    "sglang:prompt_tokens_total",
    "lmdeploy:prompt_tokens_total",
    "trtllm_prompt_tokens_total",
)
_GENERATION = (
    "vllm:generation_tokens_total",
    "sglang:generation_tokens_total",
    "llamacpp:tokens_predicted_total",
    "lmdeploy:generation_tokens_total",
    "trtllm_generation_tokens_total",
)
# vLLM 0.10 has both names and 0.8 only the second one; both count tokens.
_QUERIES = ("vllm:prefix_cache_queries_total", "vllm:gpu_prefix_cache_queries_total")
_HITS = ("vllm:prefix_cache_hits_total", "vllm:gpu_prefix_cache_hits_total")
_SGLANG_PREFILL = "sglang:prefill_effective_tokens_total"  # by mode; its hits are the modes that end in _hit
_SGLANG_CACHED = "sglang:cached_tokens_total"
_LLAMACPP_UNCACHED = "llamacpp:prompt_tokens_total"
_LLAMACPP_CACHED = "llamacpp:prompt_tokens_cached_total"
_DRAFTS = (
    "vllm:spec_decode_num_drafts_total",
    "sglang:spec_verify_calls_total",
    "llamacpp:spec_decode_num_drafts_total",
    "lmdeploy:spec_decode_num_drafts_total",
)
_DRAFT_TOKENS = (
    "vllm:spec_decode_num_draft_tokens_total",
    "llamacpp:spec_decode_num_draft_tokens_total",
    "lmdeploy:spec_decode_num_draft_tokens_total",
    "trtllm_spec_decode_num_draft_tokens_total",
)
_ACCEPTED = (
    "vllm:spec_decode_num_accepted_tokens_total",
    "llamacpp:spec_decode_num_accepted_tokens_total",
    "lmdeploy:spec_decode_num_accepted_tokens_total",
    "trtllm_spec_decode_num_accepted_tokens_total",
)
_PER_POSITION = (
    "vllm:spec_decode_num_accepted_tokens_per_pos_total",
    "llamacpp:spec_decode_num_accepted_tokens_per_pos_total",
    "lmdeploy:spec_decode_num_accepted_tokens_per_pos_total",
)
_RUNNING = ("vllm:num_requests_running", "sglang:num_running_reqs", "llamacpp:requests_processing")
_WAITING = ("vllm:num_requests_waiting", "sglang:num_queue_reqs", "llamacpp:requests_deferred")

# What identity reads.
CONFIGURATION = (
    "vllm:cache_config_info",
    "sglang:context_len",
    "sglang:page_size",
    "sglang:num_pages",
    "sglang:max_total_num_tokens",
    "sglang:spec_num_steps",
    "sglang:spec_num_draft_tokens",
)

RELEVANT = frozenset(
    (
        *(*_PROMPT, *_GENERATION, *_QUERIES, *_HITS, *_DRAFTS, *_DRAFT_TOKENS, *_ACCEPTED, *_PER_POSITION),
        *(*_RUNNING, *_WAITING, *CONFIGURATION),
        *(_SGLANG_PREFILL, _SGLANG_CACHED, _LLAMACPP_UNCACHED, _LLAMACPP_CACHED),
    )
)


@dataclass(frozen=True, slots=True)
class Counters:
    """Totals since the engine started, summed over label sets; None where the engine has no such counter.

    `prompt_tokens`, `prefix_queries` and `prefix_hits` count tokens, cached ones included, on every engine. SGLang
    counts verification steps (`drafts`) and neither drafted nor accepted tokens. `running` and `waiting` are requests
    at this moment.
    """

    prompt_tokens: int | None = None
    generation_tokens: int | None = None
    prefix_queries: int | None = None
    prefix_hits: int | None = None
    drafts: int | None = None
    draft_tokens: int | None = None
    accepted_tokens: int | None = None
    accepted_per_position: tuple[int, ...] = ()
    running: int | None = None
    waiting: int | None = None


def relevant_lines(text: str) -> str:
    """The lines of a metrics page that `read_counters` or identity reads: what evidence keeps (at most 64 KiB)."""
    kept: list[str] = []
    room = MOST_KEPT_BYTES
    for line in text.splitlines():
        if name_of(line) in RELEVANT and len(line) <= LONGEST_LINE:
            room -= len(line.encode(errors="replace")) + 1
            if room < 0:
                break
            kept.append(line + "\n")
    return "".join(kept)


def read_counters(text: str) -> Counters:
    """The counters in (the relevant lines of) a metrics page of any engine."""
    totals: dict[str, float] = defaultdict(float)
    positions: dict[int, float] = defaultdict(float)
    sglang_hits = 0.0
    for sample in samples(text, RELEVANT):
        totals[sample.name] += sample.value
        if sample.name in _PER_POSITION:
            position = sample.labels.get("position", "")
            if position.isdecimal() and len(position) <= 2 and int(position) < MOST_POSITIONS:  # noqa: PLR2004 - digits
                positions[int(position)] += sample.value
        if sample.name == _SGLANG_PREFILL and sample.labels.get("mode", "").endswith("_hit"):
            sglang_hits += sample.value

    def first(names: tuple[str, ...]) -> int | None:
        return next((round(totals[name]) for name in names if name in totals), None)

    prompt, queries, hits = first(_PROMPT), first(_QUERIES), first(_HITS)
    if _SGLANG_PREFILL in totals:
        queries, hits = round(totals[_SGLANG_PREFILL]), round(sglang_hits)
    elif _SGLANG_CACHED in totals:
        queries, hits = prompt, round(totals[_SGLANG_CACHED])
    elif _LLAMACPP_UNCACHED in totals and _LLAMACPP_CACHED in totals:
        # llama.cpp counts the two apart; without the second the first says nothing about whole prompts.
        hits = round(totals[_LLAMACPP_CACHED])
        prompt = queries = round(totals[_LLAMACPP_UNCACHED]) + hits
    return Counters(
        prompt_tokens=prompt,
        generation_tokens=first(_GENERATION),
        prefix_queries=queries,
        prefix_hits=hits,
        drafts=first(_DRAFTS),
        draft_tokens=first(_DRAFT_TOKENS),
        accepted_tokens=first(_ACCEPTED),
        accepted_per_position=tuple(round(positions[at]) for at in range(max(positions, default=-1) + 1)),
        running=first(_RUNNING),
        waiting=first(_WAITING),
    )
