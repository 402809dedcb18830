import pytest
from hypothesis import given
from hypothesis import strategies as st

from certify.cases import haystack
from certify.cases.haystack import NeedleScore, build, calibration_prompt, score_needle, shortest
from certify.cases.nouns import NOUNS
from certify.codec import digest

seeds = st.integers(0, 2**64).map(str)


@given(seed=seeds, words=st.integers(shortest(4), 3_000), question=st.integers(0, 19))
def test_a_prompt_has_exactly_the_words_asked_for_and_nothing_but_words_and_single_blanks(seed, words, question):
    prompt = build(seed, words, 4, question)
    assert len(prompt.text.split(" ")) == words
    assert all(word.isalpha() and word.isascii() for word in prompt.text.split(" "))
    assert prompt.text.endswith(f" {prompt.question}")


@given(seed=seeds, question=st.integers(0, 39))
def test_the_needle_stands_where_it_says_in_its_stratum_once(seed, question):
    prompt = build(seed, 4_000, 8, question)
    words = prompt.text.split(" ")
    key = " ".join(prompt.question.split("code of ")[1].split(" ")[: haystack.KEY_WORDS])
    needle = f"remember that the code of {key} is {prompt.expected} and"
    assert " ".join(words[prompt.depth_words :]).startswith(needle)
    assert prompt.text.count(f"the code of {key} is") == 1
    assert prompt.depth_words * 8 // 4_000 in {question % 8, question % 8 - 1, question % 8 + 1}


def test_every_question_shares_the_haystack_and_only_the_tail_differs():
    prompts = [build("s", 4_000, 4, question) for question in range(4 * haystack.NEEDLES_PER_STRATUM)]
    assert len({prompt.text.removesuffix(prompt.question) for prompt in prompts}) == 1
    assert len({prompt.question for prompt in prompts}) == len(prompts)
    assert len({len(prompt.question.split()) for prompt in prompts}) == 1
    assert [prompt.depth_words for prompt in prompts[:4]] == sorted(prompt.depth_words for prompt in prompts[:4])


def test_another_seed_differs_from_the_nonce_on():
    first, second = (build(seed, 2_048, 20, 0).text.split(" ") for seed in ("a", "b"))
    nonce = slice(1, 1 + haystack.NONCE_WORDS)
    assert first[0] == second[0] == haystack.OPENING
    assert first[nonce] != second[nonce]
    assert not set(first[nonce]) & {"the", "of"}


def test_the_filler_never_repeats_itself():
    words = build("s", 50_000, 4, 0).text.split(" ")
    runs = [" ".join(words[at : at + 6]) for at in range(13, 40_000)]
    assert len(runs) - len(set(runs)) < 40


def test_dropped_words_are_nowhere_in_the_prompt():
    dropped = set(NOUNS[::2])
    prompt = build("s", 8_192, 20, 3, dropped)
    assert not dropped & set(prompt.text.split(" "))
    assert not dropped & set(calibration_prompt("s", 512, dropped).split(" "))


@pytest.mark.parametrize("words", [5, 6, 512, 4_000])
def test_a_calibration_prompt_has_exactly_its_words(words):
    assert len(calibration_prompt("s", words).split(" ")) == words


def test_a_calibration_prompt_of_the_whole_list_holds_every_noun():
    assert set(NOUNS) <= set(calibration_prompt("s", len(NOUNS) + 5).split(" "))


def test_a_list_of_words_is_probed_between_the_same_opening_and_close():
    assert haystack.words_prompt(["sun", "moon"]) == "Read sun moon Answer with one word"


def test_the_nouns_are_many_and_plain():
    assert len(NOUNS) >= 400
    assert len(set(NOUNS)) == len(NOUNS)
    assert all(noun.isalpha() and noun.islower() for noun in NOUNS)
    assert not set(NOUNS) & {
        "read",
        "now",
        "tell",
        "me",
        "what",
        "is",
        "code",
        "answer",
        "four",
        "words",
        "that",
        "only",
    }


@pytest.mark.parametrize(
    ("words", "strata", "question"),
    [(shortest(4) - 1, 4, 0), (2_048, 0, 0), (2_048, 4, 20), (2_048, 4, -1), (10, 1, 0)],
)
def test_what_cannot_be_built_is_refused(words, strata, question):
    with pytest.raises(ValueError, match=r"needles"):
        build("s", words, strata, question)


def test_a_calibration_prompt_too_short_for_its_frame_is_refused():
    with pytest.raises(ValueError, match="at least 5 words"):
        calibration_prompt("s", 4)


@pytest.mark.parametrize(
    ("said", "score"),
    [
        ("jam singer growth acid", NeedleScore.RIGHT),
        ("**Jam, singer, growth, acid.**", NeedleScore.RIGHT),
        ("The code is jam singer growth acid", NeedleScore.RIGHT),
        ("jam singer acid growth", NeedleScore.WRONG),
        ("jam singer growth", NeedleScore.WRONG),
        ("jamb singer growth acid", NeedleScore.WRONG),
        ("none", NeedleScore.WRONG),
        ("word " * 60 + "jam singer growth acid", NeedleScore.WRONG),
        ("", NeedleScore.NO_ANSWER),
        (" \n ", NeedleScore.NO_ANSWER),
        ("???", NeedleScore.NO_ANSWER),
    ],
)
def test_only_the_code_itself_is_right(said, score):
    assert score_needle("jam singer growth acid", said) is score


def test_two_hundred_thousand_words_are_built_exactly_and_are_the_same_for_all_time():
    text = build("c0ffee", 200_000, 20, 7).text
    assert text.count(" ") == 199_999
    assert digest(text.encode())[:16] == "2a2281faf9f39119"
