"""The judges of the performance room."""

from collections.abc import Mapping

from certify.judging import Judge
from certify.judging.prefix_cache import judge_cold_proof, judge_repeated_prompt
from certify.judging.single_stream import judge_single_stream

JUDGES: Mapping[str, Judge] = {
    "PERF-C1-01": judge_single_stream,
    "PERF-CACHE-01": judge_repeated_prompt,
    "PERF-CACHE-02": judge_cold_proof,
}
