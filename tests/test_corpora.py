from collections import Counter

import pytest

from certify.cases.corpora import CORPUS_SHA256, PROMPTS, copying_prompt, nonce, timed_prompt
from certify.codec import digest


def test_the_corpus_is_the_one_that_published_figures_were_measured_on():
    assert CORPUS_SHA256 == "1121ea3c179de3fc6602d46eae0a51930e42e70f5e18dc990c1678c7088d87bc"
    assert digest([[prompt.name, prompt.stratum, prompt.text] for prompt in PROMPTS]) == CORPUS_SHA256


def test_twelve_prompts_in_four_even_strata():
    assert Counter(prompt.stratum for prompt in PROMPTS) == {"json": 3, "code": 3, "sql": 3, "prose": 3}
    assert len({prompt.name for prompt in PROMPTS}) == 12


@pytest.mark.parametrize("prompt", PROMPTS, ids=lambda prompt: prompt.name)
def test_each_prompt_has_60_to_160_words_on_one_line(prompt):
    assert 60 <= len(prompt.text.split()) <= 160
    assert prompt.text == " ".join(prompt.text.split())


def test_a_timed_prompt_differs_from_its_first_word_on_and_keeps_its_text():
    first, second = (timed_prompt(PROMPTS[0], nonce(seed)) for seed in ("a", "b"))
    assert first.endswith(PROMPTS[0].text)
    assert first.split()[0] != second.split()[0]
    assert [len(nonce(seed).split()) for seed in "abc"] == [8, 8, 8]
    assert nonce("a") == nonce("a") != nonce("b")


def test_a_copying_prompt_asks_for_its_own_lines_and_is_fresh_by_seed():
    text = copying_prompt("a")
    assert text == copying_prompt("a") != copying_prompt("b")
    assert [f"\n{place}. The " in text for place in range(1, 13)] == [True] * 12
