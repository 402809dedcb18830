"""Seeded choices that are the same on every machine and under every Python: SHAKE-256 (FIPS 202), no generator state.

`random.Random` promises only that `random()` stays as it is; `shuffle`, `sample` and `randrange` have changed between
versions, and a changed case is a certificate that can no longer be checked.
"""

import hashlib
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")

_WORD_BYTES = 8
_BLOCK_WORDS = 32


class Picks:
    """A stream of choices, named by a seed (any text) and a label, drawn in order."""

    def __init__(self, seed: str, label: str) -> None:
        self._name = f"{len(seed)}:{seed}/{label}".encode()
        self._block = 0
        self._words: list[int] = []

    def below(self, bound: int) -> int:
        """An integer from 0 to `bound` - 1; for the small bounds used here its bias lies under bound / 2**64."""
        if not self._words:
            raw = hashlib.shake_256(self._name + self._block.to_bytes(8, "big")).digest(_WORD_BYTES * _BLOCK_WORDS)
            self._words = [int.from_bytes(raw[at : at + _WORD_BYTES], "big") for at in range(0, len(raw), _WORD_BYTES)]
            self._block += 1
        return self._words.pop() % bound

    def between(self, low: int, high: int) -> int:
        """An integer from `low` to `high`, both included."""
        return low + self.below(high - low + 1)

    def one(self, choices: Sequence[T]) -> T:
        """One of the choices."""
        return choices[self.below(len(choices))]

    def several(self, choices: Sequence[T], count: int) -> list[T]:
        """`count` different choices in random order (Fisher and Yates, 1938, stopped early).

        Raises:
            ValueError: there are fewer choices than that.
        """
        if count > len(choices):
            raise ValueError(f"{count} different choices asked of {len(choices)}")
        pool = list(choices)
        for place in range(count):
            other = self.between(place, len(pool) - 1)
            pool[place], pool[other] = pool[other], pool[place]
        return pool[:count]

    def shuffled(self, choices: Sequence[T]) -> list[T]:
        """All the choices in random order."""
        return self.several(choices, len(choices))

    def digits(self, count: int) -> str:
        """`count` decimal digits; zeros may lead."""
        return str(self.below(10**count)).rjust(count, "0")

    def flip(self) -> bool:
        """True or False, evenly."""
        return self.below(2) == 1
