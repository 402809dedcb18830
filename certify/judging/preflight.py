"""The judges of the preflight room, by requirement."""

from certify.judging import Judge
from certify.judging.contract import judge_contract, judge_whole_run
from certify.judging.identity import judge_identity
from certify.judging.ruler import judge_ruler
from certify.judging.thinking import judge_thinking

JUDGES: dict[str, Judge] = {
    "PRE-CONTRACT-01": judge_contract,
    "PRE-CONTRACT-02": judge_whole_run,
    "PRE-IDENT-01": judge_identity,
    "PRE-RULER-01": judge_ruler,
    "PRE-THINK-01": judge_thinking,
}
