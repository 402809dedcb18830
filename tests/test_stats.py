"""Estimators against tables, and the rate rule against simulated deployments."""

import random

import pytest

from certify.stats import (
    Rate,
    beta_cdf,
    clopper_pearson,
    lag1_correlation,
    lower_bound,
    mad,
    normal_quantile,
    quantile,
    rate_decision,
    rate_interval,
    t_quantile,
    wilson,
)


@pytest.mark.parametrize(
    ("probability", "degrees", "expected"),
    [
        (0.975, 1, 12.706204736174707),  # tan(pi * .475)
        (0.975, 2, 4.302652729749462),  # (2p - 1) / sqrt(2 p (1 - p))
        (0.975, 4, 2.776445105197791),
        (0.95, 10, 1.812461122811676),
        (0.99, 30, 2.457261542458543),
        (0.975, 10**6, 1.959966356),
    ],
)
def test_t_quantiles_are_those_of_the_tables(probability, degrees, expected):
    assert t_quantile(probability, degrees) == pytest.approx(expected, rel=1e-9)


def test_t_is_symmetric_and_refuses_nonsense():
    assert t_quantile(0.5, 7) == 0
    assert t_quantile(0.02, 9) == -t_quantile(0.98, 9)
    with pytest.raises(ValueError, match="degrees of freedom"):
        t_quantile(0.5, 0)


def test_incomplete_beta_has_its_closed_forms():
    assert beta_cdf(0.3, 1, 1) == pytest.approx(0.3, rel=1e-14)
    assert beta_cdf(0.3, 4, 1) == pytest.approx(0.3**4, rel=1e-14)
    assert beta_cdf(0.5, 40, 40) == pytest.approx(0.5, rel=1e-12)
    assert beta_cdf(0.0, 2, 2) == 0
    assert beta_cdf(1.0, 2, 2) == 1


def test_what_n_of_n_proves():
    assert lower_bound(6, 6) == pytest.approx(0.05 ** (1 / 6), rel=1e-12)
    assert lower_bound(20, 20) == pytest.approx(0.8609, abs=5e-5)
    assert lower_bound(0, 5) == 0


def test_intervals_of_a_proportion():
    assert clopper_pearson(37, 42) == pytest.approx((0.744, 0.960), abs=5e-4)
    assert wilson(37, 42) == pytest.approx((0.750, 0.948), abs=5e-4)
    assert clopper_pearson(0, 10)[1] == pytest.approx(1 - 0.025**0.1, rel=1e-12)
    with pytest.raises(ValueError, match="3 hits of 2"):
        wilson(3, 2)


def test_small_estimators():
    assert mad([1, 2, 3, 4, 100]) == 1
    assert quantile([10, 20, 30, 40], 0.5) == 25
    assert quantile([7], 0.99) == 7
    assert normal_quantile(0.975) == pytest.approx(1.959963984540054, rel=1e-12)
    assert lag1_correlation([1, 2, 3, 4, 5]) == pytest.approx(0.4)
    assert lag1_correlation([3, 3, 3, 3]) == 0
    with pytest.raises(ValueError, match="0 values"):
        quantile([], 0.5)


def test_five_repeats_well_above_the_floor_pass():
    # m 50, MAD .2: s = max(1.4826 * .2 * 1.24, .5) = .5; U = t(.9875, 4) * 1.2533 * .5 / sqrt 5 = 3.4954 * .28025
    decision = rate_decision([49.8, 50.0, 50.2, 49.9, 50.4], 44.0)

    assert decision.decision is Rate.PASS
    assert decision.n == 5
    assert decision.u == pytest.approx(0.9796, abs=1e-3)


def test_five_repeats_below_the_floor_fail_only_when_all_miss_it_clearly():
    assert rate_decision([38.0] * 5, 44.0).decision is Rate.FAIL
    assert rate_decision([38.0, 38.1, 38.2, 38.1, 41.0], 44.0).decision is Rate.CONTINUE


def test_ten_repeats_just_below_the_floor_fail():
    assert rate_decision([42.0] * 10, 44.0).decision is Rate.FAIL


def test_repeats_at_the_floor_stay_inconclusive():
    assert rate_decision([43.9, 44.1] * 10, 44.0).decision is Rate.INCONCLUSIVE


def test_a_drifting_rate_is_inconclusive_at_the_last_look():
    drifting = [46.0 - 0.2 * step for step in range(20)]

    decision = rate_decision(drifting, 44.0, looks=(20,))

    assert decision.decision is Rate.INCONCLUSIVE
    assert "drifts" in decision.reason


def test_repeats_after_the_deciding_look_change_nothing():
    assert rate_decision([50.0] * 5 + [1.0] * 15, 44.0) == rate_decision([50.0] * 5, 44.0)


def test_a_shorter_plan_ends_at_its_own_last_look():
    assert rate_decision([43.9, 44.1, 44.0, 44.2, 43.8], 44.0, looks=(5,)).decision is Rate.INCONCLUSIVE


def test_one_repeat_has_no_interval():
    assert rate_interval([50.0]) == (50.0, float("inf"))


def _share(wanted: Rate, true: float, runs: int, seed: int) -> float:
    """The share of simulated runs that end so: noise of 2 %, one repeat in twenty 5 to 30 % slow."""
    chance = random.Random(seed)

    def repeat() -> float:
        slow = chance.uniform(0.70, 0.95) if chance.random() < 0.05 else 1.0
        return true * chance.gauss(1, 0.02) * slow

    return sum(rate_decision([repeat() for _ in range(20)], 1.0).decision is wanted for _ in range(runs)) / runs


def test_the_rate_rule_errs_rarely():
    assert _share(Rate.PASS, 1.0, 300, seed=1) <= 0.07
    assert _share(Rate.PASS, 1.03, 300, seed=2) >= 0.92
    assert _share(Rate.FAIL, 0.98, 300, seed=3) >= 0.85
    assert _share(Rate.FAIL, 1.02, 300, seed=4) == 0


@pytest.mark.slow
def test_the_rate_rule_keeps_its_published_error_rates():
    assert _share(Rate.PASS, 1.0, 6000, seed=11) <= 0.05
    assert _share(Rate.PASS, 1.03, 6000, seed=12) >= 0.95
    assert _share(Rate.FAIL, 0.98, 6000, seed=13) >= 0.90
    assert _share(Rate.FAIL, 1.02, 6000, seed=14) <= 0.001
