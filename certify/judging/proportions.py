"""Decisions about shares of right answers: the stratified value rule, paired differences, McNemar's exact test."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from certify.stats import wilson

# Simulated for looks at 10, 20, 30 and 40 cases a scenario with fourteen scenarios (docs/METHODS.md, values): at the
# floor itself a false PASS has probability .042 and a false FAIL .0004.
PASS_SE = 2.07
FAIL_SE = 3.3


class Side(StrEnum):
    """On which side of a floor a share lies, as far as its cases prove."""

    ABOVE = "above"
    BELOW = "below"
    STRADDLES = "straddles"


@dataclass(frozen=True, slots=True)
class Share:
    """A share of right answers over strata of equal weight: raw counts, shrunk mean and standard error (0 to 1)."""

    right: int
    n: int
    mean: float
    se: float

    @property
    def raw(self) -> float:
        """Right over all, the plain share."""
        return self.right / self.n

    @property
    def low(self) -> float:
        """The bound that a PASS needs at or above the floor."""
        return max(0.0, self.mean - PASS_SE * self.se)

    @property
    def high(self) -> float:
        """The bound that a FAIL needs below the floor."""
        return min(1.0, self.mean + FAIL_SE * self.se)

    def side(self, floor: float) -> Side:
        """PASS needs the low bound at the floor, FAIL the high bound below it; between them nothing is proven."""
        if self.low >= floor:
            return Side.ABOVE
        return Side.BELOW if self.high < floor else Side.STRADDLES


def stratified(strata: Sequence[tuple[int, int]]) -> Share:
    """The share over strata of (right, n), each of weight one.

    In each stratum p = (right + .5) / (n + 1), so that a stratum without a mistake still has a spread; the variance
    of the mean is that of fixed strata: the scenarios themselves are what is certified, not a sample of scenarios.

    Raises:
        ValueError: no strata, or one without cases.
    """
    if not strata or any(n < 1 or not 0 <= right <= n for right, n in strata):
        raise ValueError(f"strata {strata!r}: each needs cases, and no more right than cases")
    shares = [((right + 0.5) / (n + 1), n) for right, n in strata]
    variance = sum(share * (1 - share) / n for share, n in shares) / len(shares) ** 2
    return Share(
        sum(right for right, _ in strata),
        sum(n for _, n in strata),
        sum(share for share, _ in shares) / len(shares),
        math.sqrt(variance),
    )


@dataclass(frozen=True, slots=True)
class Paired:
    """Counts of pairs: right in both, only in the first, only in the second, in neither."""

    both: int
    only_first: int
    only_second: int
    neither: int

    @property
    def n(self) -> int:
        """All pairs."""
        return self.both + self.only_first + self.only_second + self.neither

    @property
    def difference(self) -> float:
        """Share right in the first minus in the second."""
        return (self.only_first - self.only_second) / self.n

    @classmethod
    def count(cls, pairs: Sequence[tuple[bool, bool]]) -> "Paired":
        """The counts of (first right, second right) pairs."""
        tally = [pairs.count(kind) for kind in ((True, True), (True, False), (False, True), (False, False))]
        return cls(*tally)


def newcombe(pairs: Paired, confidence: float = 0.95) -> tuple[float, float]:
    """The interval of a paired difference of proportions (Newcombe 1998, Statistics in Medicine 17:2635, method 10).

    Raises:
        ValueError: no pairs.
    """
    n, first, second = pairs.n, pairs.both + pairs.only_first, pairs.both + pairs.only_second
    low1, high1 = wilson(first, n, confidence)
    low2, high2 = wilson(second, n, confidence)
    share1, share2 = first / n, second / n
    phi = _correlation(pairs)

    def half(a: float, b: float) -> float:
        return math.sqrt(max(0.0, a * a - 2 * phi * a * b + b * b))

    below = half(share1 - low1, high2 - share2)
    above = half(high1 - share1, share2 - low2)
    return max(-1.0, share1 - share2 - below), min(1.0, share1 - share2 + above)


def _correlation(pairs: Paired) -> float:
    a, b, c, d = pairs.both, pairs.only_first, pairs.only_second, pairs.neither
    margins = (a + b) * (c + d) * (a + c) * (b + d)
    if margins == 0:
        return 0.0
    cross = a * d - b * c
    # Newcombe's continuity correction: a positive association is taken n/2 weaker, down to none.
    corrected = max(cross - pairs.n / 2, 0.0) if cross > 0 else float(cross)
    return corrected / math.sqrt(margins)


def mcnemar(pairs: Paired) -> float:
    """McNemar's exact two-sided probability of discordant pairs at least as unbalanced, if neither arm were better."""
    discordant = pairs.only_first + pairs.only_second
    tail = sum(math.comb(discordant, k) for k in range(min(pairs.only_first, pairs.only_second) + 1))
    return min(1.0, tail * math.ldexp(2.0, -discordant))
