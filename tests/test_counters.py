from hypothesis import given
from hypothesis import strategies as st

from certify.wire.counters import Counters, read_counters, relevant_lines

VLLM = """\
# HELP vllm:prompt_tokens_total Number of prefill tokens processed.
# TYPE vllm:prompt_tokens_total counter
vllm:prompt_tokens_total{engine="0",model_name="m"} 320.0
vllm:prompt_tokens_total{engine="1",model_name="m"} 80.0
vllm:prompt_tokens_created{engine="0",model_name="m"} 1.79607e+09
vllm:generation_tokens_total{engine="0",model_name="m"} 2560.0
vllm:prefix_cache_queries_total{engine="0",model_name="m"} 400.0
vllm:prefix_cache_queries_created{engine="0",model_name="m"} 1.79607e+09
vllm:gpu_prefix_cache_queries_total{engine="0",model_name="m"} 9.0
vllm:prefix_cache_hits_total{engine="0",model_name="m"} 96.0
vllm:external_prefix_cache_hits_total{engine="0",model_name="m"} 7.0
vllm:spec_decode_num_drafts_total{engine="0",model_name="m"} 441.0
vllm:spec_decode_num_draft_tokens_total{engine="0",model_name="m"} 2149.0
vllm:spec_decode_num_draft_tokens_created{engine="0",model_name="m"} 1.79607e+09
vllm:spec_decode_num_accepted_tokens_total{engine="0",model_name="m"} 700.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="m",position="1"} 300.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="m",position="0"} 400.0
vllm:spec_decode_num_accepted_tokens_per_pos_created{engine="0",model_name="m",position="0"} 1.79607e+09
vllm:num_requests_running{engine="0",model_name="m"} 3.0
vllm:num_requests_waiting{engine="0",model_name="m"} 2.0
vllm:num_requests_waiting_by_reason{engine="0",model_name="m",reason="capacity"} 2.0
python_gc_objects_collected_total{generation="0"} 29747.0
"""

SGLANG = """\
sglang:prompt_tokens_total{model_name="m",is_streaming="true"} 600
sglang:prompt_tokens_total{model_name="m",is_streaming="false"} 400
sglang:generation_tokens_total{model_name="m"} 90
sglang:cached_tokens_total{model_name="m",cache_source="device"} 11
sglang:spec_verify_calls_total{model_name="m",tp_rank="0"} 30
sglang:num_running_reqs{model_name="m"} 1
sglang:num_queue_reqs{model_name="m"} 0
"""

LLAMACPP = """\
llamacpp:prompt_tokens_total 41
llamacpp:prompt_tokens_cached_total 76
llamacpp:tokens_predicted_total 600
llamacpp:spec_decode_num_draft_tokens_total 447
llamacpp:spec_decode_num_accepted_tokens_total 297
llamacpp:spec_decode_num_drafts_total 150
llamacpp:spec_decode_num_accepted_tokens_per_pos_total{position="0"} 150
llamacpp:spec_decode_num_accepted_tokens_per_pos_total{position="2"} 147
llamacpp:requests_processing 0
llamacpp:requests_deferred 0
"""


def test_vllm_by_exact_names_summed_over_engines():
    assert read_counters(VLLM) == Counters(400, 2560, 400, 96, 441, 2149, 700, (400, 300), 3, 2)


def test_an_old_vllm_has_only_the_gpu_prefix_names():
    page = "vllm:gpu_prefix_cache_queries_total 9\nvllm:gpu_prefix_cache_hits_total 4\n"
    assert read_counters(page) == Counters(prefix_queries=9, prefix_hits=4)


def test_sglang_counts_verifications_and_cached_tokens():
    assert read_counters(SGLANG) == Counters(1000, 90, 1000, 11, 30, None, None, (), 1, 0)


def test_sglang_tells_prefill_by_mode():
    modes = {"device_hit": 50, "host_hit": 5, "storage_hit": 1, "input": 44}
    lines = (f'sglang:prefill_effective_tokens_total{{mode="{mode}"}} {count}\n' for mode, count in modes.items())
    counters = read_counters(SGLANG + "".join(lines))
    assert (counters.prefix_queries, counters.prefix_hits) == (100, 56)


def test_llamacpp_counts_cached_prompt_tokens_apart():
    assert read_counters(LLAMACPP) == Counters(117, 600, 117, 76, 150, 447, 297, (150, 0, 147), 0, 0)


def test_llamacpp_without_a_cached_counter_says_nothing_of_prompts():
    counters = read_counters("llamacpp:prompt_tokens_total 41\nllamacpp:tokens_predicted_total 6\n")
    assert counters == Counters(generation_tokens=6)


def test_no_counters_are_not_zero():
    assert read_counters("") == read_counters("<html>404</html>") == Counters()


def test_relevant_lines_lose_nothing_and_keep_nothing_else():
    kept = relevant_lines(VLLM)
    assert read_counters(kept) == read_counters(VLLM)
    assert not [line for line in kept.splitlines() if line.startswith("#") or "_created" in line or "python" in line]


def test_relevant_lines_end_at_64_kib():
    assert len(relevant_lines('vllm:prompt_tokens_total{engine="0"} 1\n' * 5000)) <= 64 * 1024


def test_broken_lines_are_passed_over():
    page = 'vllm:prompt_tokens_total{engine="0" 7\nvllm:prompt_tokens_total NaN\nvllm:prompt_tokens_total\n'
    assert read_counters(page + "vllm:prompt_tokens_total 1e400\nvllm:prompt_tokens_total x\n") == Counters()


def test_a_brace_within_a_label_is_part_of_it():
    assert read_counters('vllm:prompt_tokens_total{model_name="a} 9 \\" b"} 5 1700000000\n').prompt_tokens == 5


@given(st.text(max_size=200), st.sampled_from(["", "vllm:prompt_tokens_total", "llamacpp:prompt_tokens_total{"]))
def test_no_text_raises(text, start):
    assert read_counters(relevant_lines(start + text)) == read_counters(start + text)
