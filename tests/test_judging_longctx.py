"""The judges of the long-context room on evidence made by hand, and the ladder against a tokenizer of our own."""

import re
from dataclasses import replace

import pytest

from certify.cases import haystack
from certify.cases.haystack import padded
from certify.cases.nouns import NOUNS
from certify.deployment.client import Deadlines
from certify.deployment.recorder import Recorder
from certify.evidence import EvidenceView, EvidenceWriter
from certify.judging.longctx import JUDGES
from certify.longctx.ladder import climb
from certify.longctx.plans import plan_gates
from certify.records import Arm, Outcome
from certify.stats import prefill_fit
from certify.thresholds import load
from tests.handmade import MS, context, evidence, exchange, plan, said, whole

EXACT, NEEDLES = "LCTX-USAGE-01", "LCTX-NEEDLE-01"
DEMO = load("demo")
OVERHEAD = 30


class Tokenizer:
    """A deployment that counts words, and answers every needle's question as `answer` says."""

    def __init__(self, *, splits=(), count=lambda tokens: tokens, answer=lambda question, truth: truth):
        self.splits, self.count, self.answer = set(splits), count, answer
        self.tiny = 0
        self.seen = []
        self.deadlines = Deadlines()
        self.waited = []

    def exchange(self, request):
        text = request.messages[0].content
        words = text.split()
        tokens = self.count(OVERHEAD + len(words) + sum(word in self.splits for word in words))
        if not request.stream:
            self.tiny += 1
            return whole(tokens)
        asked = re.search(r"Now tell me what is the code of (.*) and answer", text)[1]
        truth = re.search(rf"the code of {asked} is (\w+ \w+ \w+ \w+) and", text)[1]
        self.seen.append(tokens)
        self.waited.append(self.deadlines.first_token_s)
        return said(self.answer(len(self.seen) - 1, truth), prompt=tokens)


def run(tmp_path, deployment, *, profile="demo", context_tokens=8192):
    """Climb, and the two verdicts."""
    planned = plan(plan_gates(context(profile, context_tokens=context_tokens)))
    path = evidence(tmp_path, []).path
    with EvidenceWriter.reopen(path, reason="lane") as writer:
        climb(Recorder(planned, {Arm.SERVED: deployment}, writer, before=EvidenceView(path), progress=lambda _: None))
    view = EvidenceView(path)
    return JUDGES[EXACT](view, planned, DEMO), JUDGES[NEEDLES](view, planned, DEMO)


def test_every_rung_is_exact_at_the_first_shot(tmp_path):
    deployment = Tokenizer()

    exact, needles = run(tmp_path, deployment)

    assert deployment.tiny == 3
    assert deployment.seen == [2048] * 4 + [4096] * 4 + [8064] * 2
    assert exact.outcome is Outcome.PASS
    assert "3 at the first shot" in exact.summary
    assert exact.findings[-1].text.startswith("rung 8192 is not covered")
    assert needles.outcome is Outcome.PASS
    assert "10 of 10 prove p >= 0.741" in needles.summary


def test_a_long_prefill_is_given_three_times_what_the_smaller_rungs_foretell(tmp_path):
    class Slow(Tokenizer):
        def exchange(self, request):
            answer = super().exchange(request)
            seconds = len(request.messages[0].content.split()) / 20  # 20 tok/s: 203 s for 4,066 words
            return replace(
                answer, reads=replace(answer.reads, user_ns=(round(seconds * 1e9),) * len(answer.reads.sizes))
            )

    deployment = Slow()

    run(tmp_path, deployment)

    assert deployment.waited[0] == 120
    assert deployment.waited[4] == pytest.approx(3 * 4096 / 2048 * 100.9, rel=0.01)
    assert deployment.deadlines == Deadlines()


def test_words_that_the_tokenizer_splits_are_found_and_dropped(tmp_path):
    deployment = Tokenizer(splits=NOUNS[::97])

    exact, needles = run(tmp_path, deployment)

    assert exact.outcome is Outcome.PASS
    assert needles.outcome is Outcome.PASS
    assert set(deployment.seen) == {2048, 4096, 8064}
    assert 3 < deployment.tiny <= 40


def test_a_rung_that_is_off_by_a_little_is_mended_once(tmp_path):
    exact, needles = run(tmp_path, Tokenizer(count=lambda tokens: tokens + (3 if tokens > 3000 else 0)))

    assert exact.outcome is Outcome.PASS
    assert "1 at the first shot" in exact.summary
    assert "+3 tokens off" in exact.findings[0].text
    assert needles.outcome is Outcome.PASS


def test_a_front_that_is_cut_fails(tmp_path):
    exact, _ = run(tmp_path, Tokenizer(count=lambda tokens: min(tokens, 4000)))

    assert exact.outcome is Outcome.FAIL
    assert "rung 4,096" in exact.summary
    assert "usage says 4,000" in exact.summary
    assert "cuts long prompts" in exact.cause


def test_usage_that_does_not_follow_the_words_is_inconclusive(tmp_path):
    deployment = Tokenizer(count=lambda tokens: tokens // 2)

    exact, needles = run(tmp_path, deployment)

    assert exact.outcome is Outcome.INCONCLUSIVE
    assert "does not follow the number of words" in exact.summary
    assert needles.outcome is Outcome.NOT_RUN
    assert not deployment.seen


def test_a_rung_that_is_refused_fails_and_ends_the_climb(tmp_path):
    class Refusing(Tokenizer):
        def exchange(self, request):
            long = len(request.messages[0].content.split()) > 3000
            refusal = exchange([(b'{"error":{"message":"too long"}}', MS)], ended_ns=MS, status=400)
            return refusal if long else super().exchange(request)

    exact, needles = run(tmp_path, Refusing())

    assert exact.outcome is Outcome.FAIL
    assert "rung 4,096, cold question 0: the deployment refused" in exact.summary
    assert "rung 8,064 was not asked" in exact.findings[1].text
    assert needles.outcome is Outcome.ERROR


def test_a_rung_without_usage_is_an_error(tmp_path):
    class Silent(Tokenizer):
        def exchange(self, request):
            answer = super().exchange(request)
            body = answer.body[: answer.body.index(b'data: {"choices": [], "usage"')] if request.stream else answer.body
            return replace(answer, body=body, body_bytes=len(body))

    exact, _ = run(tmp_path, Silent())

    assert exact.outcome is Outcome.ERROR
    assert "no usage" in exact.summary


@pytest.mark.parametrize(
    ("answer", "outcome", "says"),
    [
        # the smoke ladder: one rung of four strata; a miss asks the four reserves of its stratum
        (lambda place, truth: "wrong words only here" if place == 0 else truth, Outcome.PASS, "1 unconfirmed misses"),
        (lambda place, truth: "wrong" if place in (0, 4, 5) else truth, Outcome.FAIL, "2 of 4 reserves wrong"),
        (lambda place, truth: "wrong" if place in (0, 1) else truth, Outcome.INCONCLUSIVE, "2 misses, not confirmed"),
        (lambda place, truth: "wrong" if place < 3 else truth, Outcome.FAIL, "3 misses on rung 8,192"),
        (lambda place, truth: "" if place < 3 else truth, Outcome.FAIL, "3 misses on rung 8,192"),
    ],
    ids=["one miss", "two reserves wrong", "two misses", "three misses", "three empty answers"],
)
def test_misses_are_weighed_with_their_reserves(tmp_path, answer, outcome, says):
    exact, needles = run(tmp_path, Tokenizer(answer=answer), profile="smoke", context_tokens=32_768)

    assert exact.outcome is Outcome.PASS
    assert needles.outcome is outcome
    assert says in needles.summary


def test_no_answer_is_told_apart_from_a_wrong_one(tmp_path):
    _, silent = run(tmp_path, Tokenizer(answer=lambda *_: ""), profile="smoke", context_tokens=32_768)

    assert silent.findings[0].text.endswith("no-answer")
    assert "no answer at all" in silent.cause


def test_a_question_is_not_asked_twice_on_resume(tmp_path):
    deployment = Tokenizer()
    planned = plan(plan_gates(context()))
    path = evidence(tmp_path, []).path
    for _ in range(2):
        before = EvidenceView(path)
        with EvidenceWriter.reopen(path, reason="lane") as writer:
            climb(Recorder(planned, {Arm.SERVED: deployment}, writer, before=before, progress=lambda _: None))

    assert deployment.tiny == 3
    assert len(deployment.seen) == 10


def test_a_ladder_that_never_began_is_not_run(tmp_path):
    planned = plan(plan_gates(context()))

    assert JUDGES[EXACT](evidence(tmp_path, []), planned, DEMO).outcome is Outcome.NOT_RUN


def test_padding_changes_the_length_and_neither_prefix_nor_question():
    prompt = haystack.build("seed", 2000, 4, 0)

    longer, shorter = padded(prompt, 3), padded(prompt, -2)

    assert (len(longer.split()), len(shorter.split())) == (2003, 1998)
    assert longer.endswith(prompt.question)
    assert longer.startswith(prompt.text.removesuffix(prompt.question))
    assert shorter.endswith(prompt.question)
    assert padded(prompt, 0) == prompt.text


@pytest.mark.parametrize(
    ("context_tokens", "rungs"),
    [(131_200, [8192, 32_768, 131_072]), (131_199, [8192, 32_768, 131_071]), (8192, [8064]), (None, [8192])],
)
def test_rungs_are_capped_by_the_context(context_tokens, rungs):
    gates = plan_gates(context("gate", context_tokens=context_tokens))

    assert gates[0].parameters["rungs"] == rungs
    assert set(gates[0].parameters["uncovered"]) == {str(one) for one in (8192, 32_768, 131_072)} - {
        str(one) for one in rungs
    }


def test_a_context_that_holds_no_haystack_plans_nothing():
    assert plan_gates(context("gate", context_tokens=1024)) == ()


def test_the_prefill_fit_recovers_its_curve():
    curve = [(n, n / 2593 + 7.97e-10 * n * n) for n in (8192, 32_768, 131_072)]

    a, b = prefill_fit(curve)

    assert (1 / a, b) == pytest.approx((2593, 7.97e-10), rel=1e-6)
    assert prefill_fit([(1000, 2.0)]) == pytest.approx((0.002, 0.0))
    assert prefill_fit([(1000, 2.0), (2000, 3.0)])[1] == 0
