"""Haystacks whose length in tokens is known beforehand: single-token words joined by single blanks, nothing else.

Measured on five tokenizers, k words of `NOUNS` are k tokens exactly, up to 1,010,530 of them; line ends, hex and long
digit runs are not additive, so there are none. Then `prompt_tokens` = overhead + words, where the overhead (chat
template, first word) is what `usage` says of a tiny calibration prompt minus its words. The text opens with a fixed
word, because a word without a blank before it may be another token than the same word inside the text.
"""

import hashlib
import re
import sys
from array import array
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from certify.cases.nouns import NOUNS
from certify.cases.picks import Picks

OPENING = "Read"
NONCE_WORDS = 12
KEY_WORDS = 3
VALUE_WORDS = 4

# One needle of each stratum is asked; the others wait in reserve for a second question after a miss, because the same
# question again would not be an independent one (and they distract: keys come in pairs that share two words of three).
NEEDLES_PER_STRATUM = 5

_CLOSING = "Answer with one word"
_NEEDLE = "remember that the code of {key} is {value} and"
_QUESTION = "Now tell me what is the code of {key} and answer with the four words of that code only"
_NEEDLE_LENGTH = len(_NEEDLE.split()) - 2 + KEY_WORDS + VALUE_WORDS
# A needle and a little room to move: 20 strata fit into a prompt of 2,048 words.
_SLOT_LENGTH = _NEEDLE_LENGTH + 4
_QUESTION_LENGTH = len(_QUESTION.split()) - 1 + KEY_WORDS
# The filler goes link, article, noun, link, article, noun, ...: it reads like talk and has no sentence twice.
_LINK_TEXT = (
    "and near under behind beside before after from with for over by to on in into past through above below toward "
    "around took found saw held moved kept met brought passed made drew sent turned reached was had"
)
_LINKS = _LINK_TEXT.split()
_ARTICLES = ("the", "the", "the", "a", "a", "its", "one", "this", "that", "each")
_LONGEST_ANSWER_WORDS = 40
_WORD = re.compile(r"[a-z]+")


@dataclass(frozen=True, slots=True)
class HaystackPrompt:
    """A haystack with its question at the end: `text` ends with `question` and is what is sent.

    `expected` are the words of the code, joined by blanks; `depth_words` is how many words stand before the needle.
    """

    text: str
    question: str
    expected: str
    depth_words: int


@dataclass(frozen=True, slots=True)
class _Needle:
    key: str
    value: str
    at: int

    @property
    def words(self) -> list[str]:
        return _NEEDLE.format(key=self.key, value=self.value).split()


class NeedleScore(StrEnum):
    """What an answer to a needle's question is worth; no answer at all is a fault of its own (a budget, mostly)."""

    RIGHT = "right"
    WRONG = "wrong"
    NO_ANSWER = "no-answer"


def build(
    seed: str, words_total: int, strata: int, question_index: int, dropped_words: Collection[str] = ()
) -> HaystackPrompt:
    """A prompt of exactly `words_total` words: nonce, filler with needles at stratified depths, question.

    The depth range is cut into `strata` equal parts with `NEEDLES_PER_STRATUM` needles in each; `question_index` from
    0 to strata × `NEEDLES_PER_STRATUM` - 1 asks for needle `question_index // strata` of stratum
    `question_index % strata`. Seed, length and strata alone decide the haystack: every question shares it as prefix.

    Raises:
        ValueError: the needles do not fit into so few words, or there is no such question.
    """
    nouns = _nouns_without(dropped_words)
    haystack_words = words_total - _QUESTION_LENGTH
    needles = _needles(seed, nouns, haystack_words, strata)
    if not 0 <= question_index < len(needles):
        raise ValueError(f"question {question_index} of a haystack with {len(needles)} needles")
    asked = needles[(question_index % strata) * NEEDLES_PER_STRATUM + question_index // strata]
    question = _QUESTION.format(key=asked.key)
    words = [OPENING, *Picks(seed, "nonce").several(nouns, NONCE_WORDS)]
    filler = _filler(seed, nouns, haystack_words)
    for needle in needles:
        words.extend(filler[len(words) : needle.at])
        words.extend(needle.words)
    words.extend(filler[len(words) : haystack_words])
    words.append(question)
    return HaystackPrompt(" ".join(words), question, asked.value, asked.at)


def expected_answer(
    seed: str, words_total: int, strata: int, question_index: int, dropped_words: Collection[str] = ()
) -> str:
    """The `expected` of `build` with the same arguments, without building the text: what a judge needs.

    Raises:
        ValueError: the needles do not fit into so few words, or there is no such question.
    """
    needles = _needles(seed, _nouns_without(dropped_words), words_total - _QUESTION_LENGTH, strata)
    if not 0 <= question_index < len(needles):
        raise ValueError(f"question {question_index} of a haystack with {len(needles)} needles")
    return needles[(question_index % strata) * NEEDLES_PER_STRATUM + question_index // strata].value


def question_of(repeat: int, strata: int, *, reserve: bool) -> int:
    """The index of the question that a repeat asks: the first needle of its stratum, or one of those in reserve."""
    if not reserve:
        return repeat
    stratum, place = divmod(repeat, NEEDLES_PER_STRATUM - 1)
    return (place + 1) * strata + stratum


def padded(prompt: HaystackPrompt, pad: int) -> str:
    """The prompt with `pad` words more (fewer, if negative) right before its question: its prefix stays the same."""
    body = prompt.text.removesuffix(prompt.question).rstrip(" ")
    if pad < 0:
        body = body.rsplit(" ", -pad)[0]
    return " ".join((body, *("the",) * pad, prompt.question))


def shortest(strata: int) -> int:
    """The fewest words that a haystack with so many strata can have."""
    return 1 + NONCE_WORDS + strata * NEEDLES_PER_STRATUM * _SLOT_LENGTH + _QUESTION_LENGTH


def calibration_prompt(seed: str, words: int, dropped_words: Collection[str] = ()) -> str:
    """A prompt of exactly `words` words that opens like a haystack; with `len(NOUNS)` + 5 words it holds every noun.

    Raises:
        ValueError: fewer than the five words that open and close it.
    """
    nouns = _nouns_without(dropped_words)
    return words_prompt(list(_repeated(Picks(seed, "calibration"), nouns, words - 1 - len(_CLOSING.split()))))


def words_prompt(words: Sequence[str]) -> str:
    """A prompt of the given words between the fixed opening and close (`len(words)` + 5 words): splits are bisected."""
    return " ".join((OPENING, *words, _CLOSING))


def score_needle(expected: str, answer_text: str) -> NeedleScore:
    """Whether an answer is the code: its words in order, whatever case or punctuation, and no flood of other words."""
    said = _WORD.findall(answer_text.lower())
    if not said:
        return NeedleScore.NO_ANSWER
    wanted = expected.split()
    found = any(said[at : at + len(wanted)] == wanted for at in range(len(said) - len(wanted) + 1))
    return NeedleScore.RIGHT if found and len(said) <= _LONGEST_ANSWER_WORDS else NeedleScore.WRONG


def _nouns_without(dropped: Collection[str]) -> list[str]:
    return [noun for noun in NOUNS if noun not in set(dropped)]


def _repeated(picks: Picks, nouns: Sequence[str], count: int) -> Iterator[str]:
    if count < 0:
        raise ValueError(f"a calibration prompt has at least {1 + len(_CLOSING.split())} words")
    while count > 0:
        batch = picks.shuffled(nouns)[:count]
        yield from batch
        count -= len(batch)


def _needles(seed: str, nouns: Sequence[str], haystack_words: int, strata: int) -> list[_Needle]:
    first = 1 + NONCE_WORDS
    room = haystack_words - first
    slots = max(strata, 1) * NEEDLES_PER_STRATUM
    if strata < 1 or room // slots < _SLOT_LENGTH:
        fewest, asked = shortest(slots // NEEDLES_PER_STRATUM), haystack_words + _QUESTION_LENGTH
        raise ValueError(f"{slots} needles need a prompt of {fewest} words, not {asked}")
    picks = Picks(seed, "needles")
    used: set[tuple[str, ...]] = set()
    needles = []
    stem: list[str] = []
    for slot in range(slots):
        if slot % 2 == 0:
            stem = picks.several(nouns, KEY_WORDS - 1)
        key = (*stem, picks.one([noun for noun in nouns if noun not in stem]))
        while key in used:
            key = (*stem, picks.one([noun for noun in nouns if noun not in stem]))
        used.add(key)
        begin, end = first + room * slot // slots, first + room * (slot + 1) // slots
        at = picks.between(begin, end - _NEEDLE_LENGTH)
        needles.append(_Needle(" ".join(key), " ".join(picks.several(nouns, VALUE_WORDS)), at))
    return needles


def _filler(seed: str, nouns: Sequence[str], count: int) -> list[str]:
    filler = [""] * count
    for place, words in enumerate((_LINKS, _ARTICLES, nouns)):
        drawn = _words_16_bit(f"{len(seed)}:{seed}/filler/{place}", len(range(place, count, 3)))
        # 65,536 is no multiple of the list's length: some words come a hundredth more often, which is no matter.
        filler[place::3] = [words[number % len(words)] for number in drawn]
    return filler


def _words_16_bit(name: str, count: int) -> Iterable[int]:
    numbers = array("H", hashlib.shake_256(name.encode()).digest(2 * count))
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers
