"""Agreement of people and judges: against statsmodels, krippendorff and scipy, and what must hold of any ratings."""

import json
import math
import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragmeter.quality.agreement import (
    _drawn_interval_alphas,
    alpha,
    alpha_interval,
    binary_confusion,
    correlation,
    kappa,
    label_worth,
    labels_needed,
    table_of,
)

ORACLES = [
    json.loads(line)
    for line in (Path(__file__).parent.parent / "oracles" / "agreement.jsonl")
    .read_text(encoding="utf-8")
    .splitlines()
]


def _recorded(measure):
    return [(one["input"], one["expected"]) for one in ORACLES if one["measure"] == measure]


@pytest.mark.parametrize(("given_", "expected"), _recorded("kappa"))
def test_kappa_and_its_error_are_those_of_statsmodels(given_, expected):
    found = kappa(given_["table"], given_["weights"])
    assert found.value == pytest.approx(expected["value"], abs=1e-9)
    assert found.standard_error == pytest.approx(expected["standard_error"], abs=1e-9)


@pytest.mark.parametrize(("given_", "expected"), _recorded("alpha"))
def test_alpha_is_that_of_krippendorff(given_, expected):
    ratings = [[one for one in row if one is not None] for row in given_["ratings"]]
    assert alpha(ratings, given_["level"]) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(("given_", "expected"), _recorded("correlation"))
def test_correlation_is_that_of_scipy(given_, expected):
    found = correlation(given_["first"], given_["second"])
    assert found[:3] == pytest.approx((expected["value"], expected["lower"], expected["upper"]), abs=1e-9)


@pytest.mark.parametrize("weights", ["none", "linear", "quadratic"])
def test_kappa_of_two_levels_is_the_same_whatever_the_weights(weights):
    assert kappa([[20, 5], [10, 15]], weights).value == pytest.approx(0.4)


def test_everything_the_same_has_no_kappa_and_no_alpha():
    """Perfect agreement, and no information: nobody could have been told from chance."""
    found = kappa(table_of([1] * 20, [1] * 20, 2))
    assert (found.value, found.lower, found.upper, found.n) == (None, -1.0, 1.0, 20)
    assert alpha([[3, 3], [3, 3, 3]]) is None
    assert kappa([[0, 0], [0, 0]]).value is None
    assert alpha([[1], [2], []]) is None


def test_perfect_agreement_of_few_is_no_proof():
    found = kappa(table_of([0, 1] * 5, [0, 1] * 5, 2))
    assert found.value == pytest.approx(1.0)
    assert found.lower < 0.9
    assert found.upper == pytest.approx(1.0)


@settings(derandomize=True)
@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=2, max_size=40),
    st.sampled_from(["none", "linear", "quadratic"]),
)
def test_kappa_of_any_ratings(pairs, weights):
    """It lies in its interval, is the same for raters in either order, and 1 where all agree."""
    first, second = zip(*pairs, strict=True)
    found = kappa(table_of(first, second, 5), weights)
    turned = kappa(table_of(second, first, 5), weights)
    if found.value is None:
        assert turned.value is None
        return
    assert found.value == pytest.approx(turned.value)
    assert found.lower <= found.value <= found.upper
    same = kappa(table_of(first, first, 5), weights)
    assert same.value is None or same.value == pytest.approx(1.0)


@settings(derandomize=True)
@given(
    st.lists(st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0]), max_size=4), max_size=20),
    st.sampled_from(["nominal", "ordinal", "interval"]),
    st.randoms(use_true_random=False),
)
def test_alpha_of_any_ratings(ratings, level, chance):
    """Neither the order of requests nor that of raters matters; its interval holds it."""
    found = alpha_interval(ratings, level, draws=40)
    assert found.value is None or found.lower <= found.value <= found.upper <= 1.0
    shuffled = [chance.sample(unit, len(unit)) for unit in ratings]
    chance.shuffle(shuffled)
    again = alpha(shuffled, level)
    assert (again is None) is (found.value is None)
    if again is not None:
        assert again == pytest.approx(found.value, abs=1e-9)


def test_errors_of_the_judge_with_base_rates():
    people = [1.0] * 39 + [0.0] * 61
    judge = [0.9] * 35 + [0.2] * 4 + [0.9] * 29 + [0.2] * 32
    found = binary_confusion(
        people, judge, is_good=lambda said: said >= 0.9, judged_good=lambda said: said >= 0.8
    )
    assert (found.good_good, found.good_bad, found.bad_good, found.bad_bad) == (35, 4, 29, 32)
    assert found.n == 100
    assert found.agreement == pytest.approx(0.67)
    assert found.people_good == pytest.approx(0.39)
    assert found.judge_good == pytest.approx(0.64)
    assert found.sensitivity.value == pytest.approx(35 / 39)
    assert found.specificity.value == pytest.approx(32 / 61)
    assert found.sensitivity.lower < 35 / 39 < found.sensitivity.upper
    assert kappa(found.table).value == pytest.approx(0.374, abs=0.01)


def test_shares_of_nothing_are_unknown():
    found = binary_confusion([], [], is_good=bool)
    assert found.agreement is found.people_good is found.judge_good is None
    assert found.sensitivity[:3] == (None, 0.0, 1.0)


def test_correlation_of_too_little_or_of_constants_is_unknown():
    assert correlation([1, 2], [2, 1]).value is None
    assert correlation([1, 1, 1, 1], [1, 2, 3, 4]).value is None
    assert correlation([1, 2, 3], [1, 2, 3])[:3] == pytest.approx((1.0, -1.0, 1.0))


def test_what_labels_are_worth_with_a_judge():
    """r = .72 makes 50 labels worth about 100, and halves what a width needs."""
    assert label_worth(0.72, 50) == pytest.approx(50 / ((1 - 0.72**2) * 49 / 48))
    assert label_worth(0.0, 50) == 50.0
    assert label_worth(1.0, 50) == 2500.0
    assert label_worth(0.5, 2) == 2.0
    alone, judged = labels_needed(0.1, 0.09), labels_needed(0.1, 0.09, 0.72)
    assert alone == math.ceil(4 * 1.959964**2 * 0.09 / 0.01)
    assert judged == math.ceil(4 * 1.959964**2 * 0.09 * (1 - 0.72**2) / 0.01)
    assert labels_needed(0.9, 0.25) == 30


def test_samples_of_requests_give_the_same_alpha_from_sums_as_from_ratings():
    ratings = [[0.0, 0.5], [1.0, 0.75, 1.0]] * 3
    found = alpha_interval(ratings, "interval", draws=200)
    assert found.value == alpha(ratings, "interval")
    assert found.lower <= found.value <= found.upper
    chance = random.Random(2)
    units = [[chance.random(), chance.random()] for _ in range(20)]
    drawn = _drawn_interval_alphas(units, random.Random(7), 20)
    again = random.Random(7)
    assert drawn == pytest.approx([alpha(again.choices(units, k=20), "interval") for _ in range(20)])
