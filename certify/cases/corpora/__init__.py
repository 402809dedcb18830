"""The fixed corpus of the performance gates: prompts in four strata, bound by their hash.

A gate of speed needs the same content every time, because acceptance prices content: only the nonce in front changes
from request to request, so that no prefix cache answers. Change a text, and `CORPUS_SHA256` changes: figures over
different hashes are not compared.
"""

from dataclasses import dataclass

from certify.cases.corpora.texts import CODE, JSON, PROSE, SQL
from certify.cases.nouns import NOUNS
from certify.cases.picks import Picks
from certify.codec import digest

NONCE_WORDS = 8
_COPIED_LINES = 12


@dataclass(frozen=True, slots=True)
class Prompt:
    """One prompt of the corpus; `stratum` is json, code, sql or prose."""

    name: str
    stratum: str
    text: str


PROMPTS: tuple[Prompt, ...] = tuple(
    Prompt(name, stratum, " ".join(text.split()))
    for stratum, texts in (("json", JSON), ("code", CODE), ("sql", SQL), ("prose", PROSE))
    for name, text in texts.items()
)

CORPUS_SHA256: str = digest([[prompt.name, prompt.stratum, prompt.text] for prompt in PROMPTS])


def nonce(seed: str) -> str:
    """Eight words of a seed: two seeds share even the first two about once in 700,000 times."""
    return " ".join(Picks(seed, "corpus-nonce").several(NOUNS, NONCE_WORDS))


def timed_prompt(prompt: Prompt, nonce: str) -> str:
    """The prompt behind its nonce: the first tokens already differ, so nothing of it lies in a prefix cache."""
    return f"{nonce}.\n\n{prompt.text}"


def copying_prompt(seed: str) -> str:
    """A prompt whose answer repeats the prompt: what a draft from n-grams of the context guesses best.

    Twelve seeded lines of words, and the order to write them out twice.
    """
    picks = Picks(seed, "copying")
    lines = "\n".join(f"{place}. The {' '.join(picks.several(NOUNS, 9))}." for place in range(1, _COPIED_LINES + 1))
    return (
        f"{nonce(seed)}.\n\nCopy the following {_COPIED_LINES} lines exactly as they stand, all of them, then copy "
        f"all of them a second time. Write nothing else.\n\n{lines}"
    )
