"""Estimators, intervals and stopping rules; pure Python, no state. docs/METHODS.md says which figure uses which."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from itertools import pairwise
from statistics import NormalDist, fmean, median

MAD_TO_SIGMA = 1.4826  # 1 / Phi^-1(3/4): the MAD of normal noise, scaled to its standard deviation
MEDIAN_SE = 1.2533  # sqrt(pi / 2): the standard error of a median of normal noise, in units of that of the mean

# The sequential rate rule. The levels per look were found by simulation of the whole rule (tests/test_stats.py, slow):
# over the four looks they keep a false PASS at the floor at or below .05.
LOOKS = (5, 10, 15, 20)
PASS_LEVEL = 0.0125
FAIL_LEVEL = 0.02
FAIL_FROM = 10
CLEAR_MISS = 0.9
SPREAD_FLOOR = 0.01
SERIAL_LIMIT = 0.45


def mad(values: Sequence[float]) -> float:
    """The median absolute deviation from the median."""
    centre = median(values)
    return median(abs(value - centre) for value in values)


def quantile(values: Sequence[float], share: float) -> float:
    """The quantile by linear interpolation between order statistics (Hyndman and Fan, type 7).

    Raises:
        ValueError: no values, or a share outside 0..1.
    """
    if not values or not 0 <= share <= 1:
        raise ValueError(f"quantile of {len(values)} values at {share}")
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])


def lag1_correlation(values: Sequence[float]) -> float:
    """The correlation of each value with its predecessor; 0 for fewer than three or constant values."""
    centre = fmean(values) if values else 0.0
    total = sum((value - centre) ** 2 for value in values)
    if len(values) < 3 or total == 0:  # noqa: PLR2004 - two values have one pair: always -1/2
        return 0.0
    return sum((a - centre) * (b - centre) for a, b in pairwise(values)) / total


def normal_quantile(probability: float) -> float:
    """The standard normal quantile."""
    return NormalDist().inv_cdf(probability)


def beta_cdf(x: float, a: float, b: float) -> float:
    """The regularised incomplete beta function I_x(a, b), by its continued fraction (DLMF 8.17.22, Lentz's method)."""
    if x <= 0 or x >= 1:
        return 0.0 if x <= 0 else 1.0
    if x > (a + 1) / (a + b + 2):  # the fraction converges fast on the other side
        return 1.0 - beta_cdf(1.0 - x, b, a)
    log_front = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    return math.exp(log_front) * _beta_fraction(x, a, b) / a


def _beta_fraction(x: float, a: float, b: float) -> float:
    tiny = 1e-300
    c, d = 1.0, 1.0 / max(1.0 - (a + b) * x / (a + 1), tiny)
    value = d
    for step in range(1, 10_000):
        even = step * (b - step) * x / ((a + 2 * step - 1) * (a + 2 * step))
        odd = -(a + step) * (a + b + step) * x / ((a + 2 * step) * (a + 2 * step + 1))
        for term in (even, odd):
            d = 1.0 / ((1.0 + term * d) or tiny)
            c = (1.0 + term / c) or tiny
            value *= c * d
        if abs(c * d - 1.0) < 1e-16:  # noqa: PLR2004 - below the rounding of a double
            break
    return value


def _root(rising: Callable[[float], float], low: float, high: float) -> float:
    """Where a rising function crosses zero, by bisection down to neighbouring doubles."""
    while low < (middle := (low + high) / 2) < high:
        if rising(middle) < 0:
            low = middle
        else:
            high = middle
    return (low + high) / 2


@lru_cache(maxsize=4096)
def beta_quantile(probability: float, a: float, b: float) -> float:
    """The quantile of the beta distribution."""
    return _root(lambda x: beta_cdf(x, a, b) - probability, 0.0, 1.0)


@lru_cache(maxsize=4096)
def t_quantile(probability: float, degrees: int) -> float:
    """The quantile of Student's t distribution.

    Raises:
        ValueError: a probability outside (0, 1), or no degrees of freedom.
    """
    if not 0 < probability < 1 or degrees < 1:
        raise ValueError(f"t quantile at {probability} with {degrees} degrees of freedom")
    if probability <= 0.5:  # noqa: PLR2004 - the median: the distribution is symmetric
        return 0.0 if probability == 0.5 else -t_quantile(1 - probability, degrees)  # noqa: PLR2004
    tail = 1 - probability
    high = 2.0
    while _t_tail(high, degrees) > tail:
        high *= 2
    return _root(lambda t: tail - _t_tail(t, degrees), 0.0, high)


def _t_tail(t: float, degrees: int) -> float:
    return 0.5 * beta_cdf(degrees / (degrees + t * t), degrees / 2, 0.5)


def clopper_pearson(hits: int, n: int, confidence: float = 0.95) -> tuple[float, float]:
    """The exact two-sided interval of a proportion.

    Raises:
        ValueError: no trials, or more hits than trials.
    """
    _check_counts(hits, n)
    tail = (1 - confidence) / 2
    low = 0.0 if hits == 0 else beta_quantile(tail, hits, n - hits + 1)
    high = 1.0 if hits == n else beta_quantile(1 - tail, hits + 1, n - hits)
    return low, high


def lower_bound(hits: int, n: int, confidence: float = 0.95) -> float:
    """The exact one-sided lower bound of a proportion: what `hits` of `n` proves.

    Raises:
        ValueError: no trials, or more hits than trials.
    """
    _check_counts(hits, n)
    return 0.0 if hits == 0 else beta_quantile(1 - confidence, hits, n - hits + 1)


def wilson(hits: int, n: int, confidence: float = 0.95) -> tuple[float, float]:
    """Wilson's score interval of a proportion (two-sided).

    Raises:
        ValueError: no trials, or more hits than trials.
    """
    _check_counts(hits, n)
    z = normal_quantile((1 + confidence) / 2)
    share, shrink = hits / n, 1 + z * z / n
    centre = (share + z * z / (2 * n)) / shrink
    half = z * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n)) / shrink
    return max(0.0, centre - half), min(1.0, centre + half)


def _check_counts(hits: int, n: int) -> None:
    if n < 1 or not 0 <= hits <= n:
        raise ValueError(f"{hits} hits of {n} trials")


class Rate(StrEnum):
    """Where the sequential rate rule stands."""

    PASS = "PASS"  # noqa: S105 - a decision, not a password
    FAIL = "FAIL"
    INCONCLUSIVE = "INCONCLUSIVE"
    CONTINUE = "CONTINUE"


@dataclass(frozen=True, slots=True)
class RateDecision:
    """The sequential rule's word after `n` repeats.

    `median` +- `u` is the published interval (t at 1 - PASS_LEVEL: its coverage at the stop is at least .93), `u` is
    infinite before the first look. `serial` is the lag-1 correlation of the repeats.
    """

    decision: Rate
    n: int
    median: float
    u: float
    serial: float
    reason: str


def rate_decision(repeats: Sequence[float], floor: float, looks: Sequence[int] = LOOKS) -> RateDecision:
    """Is the median rate at or above `floor`? Decided at the first look that allows it; later repeats change nothing.

    m = median; s = max(1.4826 MAD (1 + 1.2 / n), 1 % of m); U = t(1 - a', n - 1) 1.2533 s / sqrt(n). PASS when
    m - U >= floor (a' = .0125); FAIL when m + U < floor (a' = .02), from ten repeats on, and at five when all five
    lie below 0.9 of the floor. At the last look: INCONCLUSIVE, also when neighbouring repeats correlate above .45
    (checked once there are 20), because the spread then says too little.

    Raises:
        ValueError: no repeats.
    """
    if not repeats:
        raise ValueError("no repeats")
    for look in looks:
        if look > len(repeats):
            break
        decided = _look(repeats[:look], floor, last=look == looks[-1])
        if decided.decision is not Rate.CONTINUE:
            return decided
    return _look(repeats, floor, last=False, deciding=False)


def rate_interval(repeats: Sequence[float], level: float = PASS_LEVEL) -> tuple[float, float]:
    """(median, U) of repeated rates; U is infinite for a single repeat."""
    n, centre = len(repeats), median(repeats)
    if n < 2:  # noqa: PLR2004 - one repeat has no spread
        return centre, math.inf
    spread = max(MAD_TO_SIGMA * mad(repeats) * (1 + 1.2 / n), SPREAD_FLOOR * abs(centre))
    return centre, t_quantile(1 - level, n - 1) * MEDIAN_SE * spread / math.sqrt(n)


def _look(repeats: Sequence[float], floor: float, *, last: bool, deciding: bool = True) -> RateDecision:
    n = len(repeats)
    centre, u = rate_interval(repeats)
    serial = lag1_correlation(repeats)
    below = centre + rate_interval(repeats, FAIL_LEVEL)[1] < floor if n >= FAIL_FROM else False
    clear_miss = max(repeats) < CLEAR_MISS * floor
    decision, reason = Rate.CONTINUE, "the interval straddles the floor"
    if last and n >= max(LOOKS) and serial > SERIAL_LIMIT:
        decision, reason = Rate.INCONCLUSIVE, f"neighbouring repeats correlate ({serial:.2f}): the rate drifts"
    elif deciding and centre - u >= floor:
        decision, reason = Rate.PASS, "the whole interval lies at or above the floor"
    elif deciding and (below or clear_miss):
        decision = Rate.FAIL
        reason = "the whole interval lies below the floor" if below else f"all {n} repeats lie below 0.9 of the floor"
    elif last:
        decision = Rate.INCONCLUSIVE
    return RateDecision(decision, n, centre, u, serial, reason)


def prefill_fit(points: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """(a, b) of seconds = a n + b n^2 through (tokens, seconds), by least squares with neither below zero.

    One point gives a line through the origin; a negative curvature is taken as none.

    Raises:
        ValueError: no point with tokens above zero.
    """
    s2 = sum(n**2 for n, _ in points)
    s3, s4 = sum(n**3 for n, _ in points), sum(n**4 for n, _ in points)
    t1, t2 = sum(n * t for n, t in points), sum(n * n * t for n, t in points)
    if s2 <= 0:
        raise ValueError("no point to fit")
    determinant = s2 * s4 - s3 * s3
    if determinant > 1e-9 * s2 * s4:
        a, b = (t1 * s4 - t2 * s3) / determinant, (t2 * s2 - t1 * s3) / determinant
        if a >= 0 and b >= 0:
            return a, b
        if a < 0:
            return 0.0, t2 / s4
    return t1 / s2, 0.0
