"""The collectors of the performance room against a deployment in the same process: what is asked, and when it ends."""

from certify.deployment.recorder import Recorder
from certify.evidence import EvidenceView, EvidenceWriter
from certify.judging.perf import JUDGES
from certify.perf.plans import plan_gates
from certify.perf.prefix_cache import collect_pairs
from certify.perf.single_stream import collect_single_stream
from certify.records import Arm, Outcome, Sample
from certify.thresholds import load
from tests.handmade import context, evidence, plan, streamed

RATE, WARM, COLD = "PERF-C1-01", "PERF-CACHE-01", "PERF-CACHE-02"
DEMO = load("demo")
PLAN = plan(plan_gates(context()))


class Engine:
    """Decodes a token every `step_ms`, prefills `prefill_words_s` words a second, and caches whole prompts."""

    def __init__(self, *, step_ms=10, prefill_words_s=1000, metrics=404):
        self.step_ms, self.prefill_words_s, self.metrics = step_ms, prefill_words_s, metrics
        self.prompts = []
        self.hits = 0

    def exchange(self, request):
        text = request.messages[0].content
        words = len(text.split())
        cached = words - 1 if text in self.prompts else 0
        self.prompts.append(text)
        self.hits += cached
        ttft_ms = 20 + round(1000 * (words - cached) / self.prefill_words_s)
        return streamed(request.max_tokens, ttft_ms=ttft_ms, step_ms=self.step_ms, prompt=words, cached=cached)

    def counters(self, name, arm):
        return Sample(name, arm, 1, self.metrics, f"vllm:prefix_cache_hits_total {self.hits}\n")


def record(tmp_path, engine, collect, times=1):
    """The evidence after so many runs of a collector over one chain."""
    path = evidence(tmp_path, []).path
    view = EvidenceView(path)
    for _ in range(times):
        before = EvidenceView(path)
        with EvidenceWriter.reopen(path, reason="lane") as writer:
            collect(Recorder(PLAN, {Arm.SERVED: engine}, writer, before=before, progress=lambda _: None), view)
    view.refresh()
    return view


def one_stream(recorder, view):
    def so_far():
        view.refresh()
        return JUDGES[RATE](view, PLAN, DEMO)

    collect_single_stream(recorder, so_far)


def test_one_stream_ends_at_the_look_that_decides(tmp_path):
    engine = Engine()

    view = record(tmp_path, engine, one_stream)

    assert len(engine.prompts) == len(set(engine.prompts)) == 3 * 6
    assert sum(trial.warm_up for _, trial in view.trials(RATE)) == 3
    assert JUDGES[RATE](view, PLAN, DEMO).outcome is Outcome.PASS


def test_one_stream_goes_on_while_nothing_is_decided(tmp_path):
    engine = Engine(step_ms=100)  # 64 tokens in 6.4 s: at the floor of 10 tok/s

    view = record(tmp_path, engine, one_stream)

    assert len(engine.prompts) == 3 * 11
    assert JUDGES[RATE](view, PLAN, DEMO).outcome is Outcome.INCONCLUSIVE


def test_pairs_are_interleaved_and_asked_once(tmp_path):
    engine = Engine(metrics=200)

    view = record(tmp_path, engine, lambda recorder, _: collect_pairs(recorder), times=2)

    lengths = [len(prompt.split()) for prompt in engine.prompts]
    assert lengths == [16, 16, 16, 300, 300, 300, 300, 300, 293, 293, 286, 286, 279, 279]
    assert JUDGES[WARM](view, PLAN, DEMO).outcome is Outcome.PASS
    assert JUDGES[COLD](view, PLAN, DEMO).outcome is Outcome.PASS


def test_a_fast_prefill_is_given_a_longer_prompt(tmp_path):
    engine = Engine(prefill_words_s=15_000)

    view = record(tmp_path, engine, lambda recorder, _: collect_pairs(recorder))

    assert max(len(prompt.split()) for prompt in engine.prompts) == 1200
    assert JUDGES[WARM](view, PLAN, DEMO).outcome is Outcome.PASS
