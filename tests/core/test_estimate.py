"""Means with intervals: against direct computation, published quantiles, and what must hold of any sums."""

import random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ragmeter import Estimate
from ragmeter.metrics._display.mean_interval import student_quantile, wilson_interval
from ragmeter.quality.estimate import always_valid_half, estimate
from ragmeter.quality.moments import FreeMoments, JudgedMoments

# scipy 1.17.1: stats.t.ppf(0.975, df)
STUDENT = [
    (1, 12.706205, 1e-6), (2, 4.302653, 1e-6), (3, 3.182446, 0.01), (5, 2.570582, 0.002), (10, 2.228139, 0.0005),
    (28, 2.048407, 1e-5), (100, 1.983972, 1e-6), (1000, 1.962339, 1e-6),
]  # fmt: skip
# scipy 1.17.1: stats.binomtest(k, n).proportion_ci(method="wilson")
WILSON = [
    (0, 10, 0.0, 0.277533), (3, 10, 0.107791, 0.603222), (10, 10, 0.722467, 1.0),
    (6, 20, 0.145477, 0.518973), (97, 100, 0.915481, 0.989745), (1, 1, 0.206549, 1.0),
]  # fmt: skip


@pytest.mark.parametrize(("degrees", "quantile", "relative"), STUDENT)
def test_students_quantile(degrees, quantile, relative):
    assert student_quantile(degrees) == pytest.approx(quantile, rel=relative)


@pytest.mark.parametrize(("successes", "n", "lower", "upper"), WILSON)
def test_wilsons_interval(successes, n, lower, upper):
    assert wilson_interval(successes / n, n) == pytest.approx((lower, upper), abs=1e-6)


class Request:
    """What is known of one request: x, its probability, whether judged, y or None."""

    def __init__(self, chance, probability=0.25):
        self.y = chance.choice((0.0, 1.0, 1.0, chance.random()))
        self.x = min(1.0, max(0.0, 0.3 + 0.5 * self.y + chance.gauss(0, 0.2)))
        self.probability = probability
        self.judged = chance.random() < probability
        if chance.random() < 0.1:
            self.y = None


def _requests(count, seed=1, probabilities=(0.25, 0.125)):
    chance = random.Random(seed)
    return [Request(chance, chance.choice(probabilities)) for _ in range(count)]


def _moments(requests):
    moments = JudgedMoments()
    for one in requests:
        moments.add_request(one.x)
        if one.judged:
            moments.judged(one.x, one.probability, one.y, undefined=one.y is None)
    return moments


def test_from_sums_as_from_every_single_request():
    """The regression estimator and its variance, written out over the requests."""
    requests = _requests(4000)
    found = estimate(_moments(requests))

    judged = [one for one in requests if one.judged]
    weights = [1 / one.probability for one in judged]
    defined = [one.y is not None for one in judged]
    values = [one.y or 0.0 for one in judged]
    total, total_defined = sum(weights), sum(w for w, d in zip(weights, defined, strict=True) if d)
    measured = sum(w * v for w, v in zip(weights, values, strict=True)) / total_defined
    share = total_defined / total
    mean_x = sum(w * one.x for w, one in zip(weights, judged, strict=True)) / total
    errors = [d * (v - measured) / share for d, v in zip(defined, values, strict=True)]
    away = [one.x - mean_x for one in judged]
    squared = [w * w for w in weights]
    unit = sum(squared) / len(judged)
    spread = sum(q * a * a for q, a in zip(squared, away, strict=True))
    slope = sum(q * e * a for q, e, a in zip(squared, errors, away, strict=True)) / (spread + unit / 16)
    left = [e - slope * a for e, a in zip(errors, away, strict=True)]
    k_eff = total_defined**2 / sum(q for q, d in zip(squared, defined, strict=True) if d)
    see = sum(q * e * e for q, e in zip(squared, errors, strict=True))
    suu = sum(q * u * u for q, u in zip(squared, left, strict=True))
    variance = k_eff / (k_eff - 2) * (suu + unit / 2) / total**2
    variance += (see - suu) / sum(squared) / len(requests)
    mean = measured + slope * (sum(one.x for one in requests) / len(requests) - mean_x)
    assert found.mean == pytest.approx(mean, rel=1e-9)
    assert found.upper - found.lower == pytest.approx(2 * student_quantile(k_eff - 2) * variance**0.5, rel=1e-6)
    assert found.method == "regression"
    assert found.gain > 1.5
    assert (found.n_requests, found.n_judged) == (4000, len(judged))
    assert found.undefined == pytest.approx(1 - share)
    assert found.unscored == 0.0


@settings(derandomize=True)
@given(st.integers(0, 2**32), st.integers(1, 200), st.lists(st.integers(0, 5), max_size=8))
def test_sums_add_up_over_processes_and_times_in_any_order(seed, count, cuts):
    requests = _requests(count, seed, (1.0, 0.5))
    whole = estimate(_moments(requests))
    parts = [requests]
    for cut in cuts:
        parts = [part[:cut] for part in parts] + [part[cut:] for part in parts]
    random.Random(seed).shuffle(parts)
    together = JudgedMoments()
    for part in parts:
        together.add(_moments(part).values())
    merged = estimate(together)
    for name in ("lower", "upper", "unscored", "undefined"):
        assert getattr(merged, name) == pytest.approx(getattr(whole, name), abs=1e-9)
    assert merged.n_judged == whole.n_judged
    assert (merged.mean is None) is (whole.mean is None)


@settings(derandomize=True)
@given(st.lists(st.floats(0, 1), min_size=5, max_size=80), st.integers(0, 99))
def test_with_everything_judged_it_is_the_plain_mean(values, seed):
    """Whatever is known for free; and a free score has the same mean."""
    chance = random.Random(seed)
    judged, free = JudgedMoments(), FreeMoments()
    for value in values:
        x = chance.random()
        judged.add_request(x)
        judged.judged(x, 1.0, value)
        free.add_value(value)
    plain = sum(values) / len(values)
    assert estimate(judged).mean == pytest.approx(plain, abs=1e-9)
    found = estimate(free)
    assert found.mean == pytest.approx(plain, abs=1e-9)
    assert found.lower <= found.mean + 1e-9
    assert found.mean <= found.upper + 1e-9


@settings(derandomize=True)
@given(
    st.lists(
        st.tuples(
            st.floats(0, 1),
            st.sampled_from([1.0, 0.5, 0.125, 2**-12]),
            st.none() | st.sampled_from([0.0, 1.0]) | st.floats(0, 1),
            st.booleans(),
        ),
        max_size=80,
    ),
    st.floats(1, 10),
)
@example([(0.0, 1.0, 0.5, False)] * 40, 1.0)
@example([(0.5, 1.0, None, False)] * 40, 1.0)
def test_any_sums_give_an_interval_within_0_and_1(requests, effect):
    judged, free = JudgedMoments(), FreeMoments()
    for x, probability, y, undefined in requests:
        judged.add_request(x)
        judged.judged(x, probability, y, undefined=undefined)
        free.add_value(y, undefined=undefined)
    for found in (
        estimate(judged, design_effect=effect),
        estimate(free, design_effect=effect),
        estimate(judged, judged, design_effect=effect),
    ):
        assert 0.0 <= found.lower <= found.upper <= 1.0
        assert 0.0 <= found.unscored <= 1.0
        assert 0.0 <= found.undefined <= 1.0
        assert found.gain > 0.0
        if found.mean is not None:
            assert found.lower - 1e-9 <= found.mean <= found.upper + 1e-9
        if found.bounds is not None:
            assert 0.0 <= found.bounds[0] <= found.bounds[1] + 1e-9 <= 1.0 + 2e-9


def _all_judged(values):
    moments = JudgedMoments()
    for value in values:
        moments.add_request(0.5)
        moments.judged(0.5, 1.0, value)
    return moments


def test_below_five_values_there_is_no_mean_only_an_interval():
    found = estimate(_all_judged([1.0] * 4))
    assert found.mean is None
    assert found.method == "wilson"
    assert (found.lower, found.upper) == pytest.approx(wilson_interval(1.0, 4))
    assert estimate(_all_judged([1.0] * 5)).mean == 1.0


@pytest.mark.parametrize(
    ("ones", "zeros", "method"),
    [(15, 14, "wilson"), (15, 15, "regression"), (4, 96, "wilson"), (96, 4, "wilson"), (5, 95, "regression")],
)  # fmt: skip
def test_few_values_or_few_on_one_side_are_wilsons(ones, zeros, method):
    assert estimate(_all_judged([1.0] * ones + [0.0] * zeros)).method == method


def test_nothing_known_is_said_to_be_nothing():
    nothing = Estimate(mean=None, lower=0.0, upper=1.0, n_requests=0, n_judged=0, method="none")
    assert estimate(JudgedMoments()) == estimate(FreeMoments()) == nothing
    failed = JudgedMoments()
    failed.add_request(0.2)
    failed.judged(0.2, 0.5, None)
    found = estimate(failed)
    assert (found.mean, found.method, found.bounds) == (None, "none", (0.0, 1.0))
    assert (found.unscored, found.undefined) == (1.0, 0.0)


def test_what_has_no_value_widens_the_bounds_and_what_is_undefined_does_not():
    moments = _all_judged([1.0, 1.0, 0.0, 0.0, 1.0])
    moments.judged(0.5, 1.0, None)  # a failed judge: anything
    moments.judged(0.5, 1.0, None, lower=0.25, upper=0.75)  # partial: what it left open
    moments.judged(0.5, 1.0, None, undefined=True)
    found = estimate(moments)
    assert found.mean == pytest.approx(0.6)
    assert found.bounds == pytest.approx((3.25 / 7, 4.75 / 7))
    assert found.unscored == pytest.approx(2 / 8)
    assert found.undefined == pytest.approx(1 / 8)
    free = FreeMoments()
    for value in (1.0, 1.0, 0.0, 0.0, 1.0, None):
        free.add_value(value)
    free.add_value(None, undefined=True)
    found = estimate(free)
    assert (found.n_requests, found.mean) == (7, pytest.approx(0.6))
    assert found.bounds == pytest.approx((3 / 6, 4 / 6))
    assert (found.unscored, found.undefined) == pytest.approx((1 / 7, 1 / 7))


def test_kept_worst_requests_enter_with_weight_1():
    """The worst are all judged, the others one in ten: the mean is that of all requests."""
    moments = JudgedMoments()
    for _ in range(100):
        moments.add_request(0.0)
        moments.judged(0.0, 1.0, 0.0)
    for _ in range(900):
        moments.add_request(1.0)
    for _ in range(90):
        moments.judged(1.0, 0.1, 1.0)
    assert estimate(moments).mean == pytest.approx(0.9, abs=1e-6)


def test_a_design_effect_widens_the_interval_by_its_root():
    moments = _moments(_requests(4000))
    narrow, wide = estimate(moments), estimate(moments, design_effect=4.0)
    assert wide.upper - wide.lower == pytest.approx(2 * (narrow.upper - narrow.lower))
    assert (wide.mean, wide.design_effect) == (narrow.mean, 4.0)
    few = _all_judged([1.0] * 10)
    assert estimate(few, design_effect=2.0).lower == pytest.approx(wilson_interval(1.0, 5)[0])


def test_labels_correct_the_judge():
    """A judge that is .2 too kind and otherwise right; people labelled one in ten of what it judged."""
    chance = random.Random(5)
    judged, labels = JudgedMoments(), JudgedMoments()
    for number in range(2000):
        truth = chance.choice((0.0, 0.2, 0.4, 0.6, 0.8))
        verdict = truth + 0.2
        x = min(1.0, max(0.0, verdict + chance.gauss(0, 0.2)))
        judged.add_request(x)
        if number % 2:
            judged.judged(x, 0.5, verdict)
            if number % 20 == 1:
                labels.judged(verdict, 0.05, truth)
    found = estimate(judged, labels)
    judge_alone = estimate(judged)
    assert judge_alone.mean == pytest.approx(0.6, abs=0.02)
    assert found.mean == pytest.approx(judge_alone.mean - 0.2, abs=0.02)
    assert found.lower < 0.4 < found.upper < judge_alone.lower
    assert (found.n_requests, found.n_judged, found.n_labelled) == (2000, 1000, 100)
    assert found.method == "regression"
    assert found.gain > 5  # labels alone would need five times as many


def test_a_few_labels_stand_for_themselves():
    judged, labels = _all_judged([1.0, 0.0] * 50), JudgedMoments()
    for _ in range(4):
        labels.judged(1.0, 0.1, 0.0)
    found = estimate(judged, labels)
    assert (found.mean, found.method, found.n_labelled) == (None, "wilson", 4)
    assert found.upper == pytest.approx(wilson_interval(0.0, 4)[1])


def test_an_interval_that_may_be_looked_at_after_every_value():
    """200 walks of 2,000 values with a fixed seed: the truth is outside at no time in 19 of 20, at least."""
    chance = random.Random(3)
    half = [always_valid_half(0.25, n) for n in range(1, 2001)]
    missed = 0
    for _ in range(200):
        total = 0
        for n in range(1, 2001):
            total += chance.random() < 0.5
            if n >= 30 and abs(total / n - 0.5) > half[n - 1]:
                missed += 1
                break
    assert missed / 200 <= 0.05
    # The price: about half as wide again as an ordinary interval.
    assert always_valid_half(0.25, 200) == pytest.approx(1.5 * 1.96 * (0.25 / 200) ** 0.5, rel=0.12)
