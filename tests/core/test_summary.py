"""Means, percentiles and intervals of many scores."""

import statistics

import pytest
from fakes_quality import make_score
from hypothesis import given
from hypothesis import strategies as st

from ragmeter.metrics._display.mean_interval import mean_interval
from ragmeter.metrics._display.summary import percentile, standing, summarize

SHARES = st.lists(st.floats(0.0, 1.0), min_size=2, max_size=50)


@given(SHARES)
def test_percentiles_equal_the_standard_librarys_inclusive_ones(values):
    values.sort()
    deciles = statistics.quantiles(values, n=10, method="inclusive")
    assert percentile(values, 0.1) == pytest.approx(deciles[0])
    assert percentile(values, 0.5) == pytest.approx(statistics.median(values))
    assert percentile(values, 0.9) == pytest.approx(deciles[8])


@given(SHARES)
def test_an_interval_is_around_the_mean_and_within_the_range(values):
    low, high = mean_interval(values, (0.0, 1.0))
    assert 0.0 <= low <= statistics.fmean(values) + 1e-9
    assert statistics.fmean(values) - 1e-9 <= high <= 1.0


@pytest.mark.parametrize("ends", [(0.0, 1.0), (0.0, None)])
def test_interval_of_a_known_case(ends):
    """100 tosses, half heads: the normal approximation gives 0.5 ± 1.96 · 0.05."""
    low, high = mean_interval([0.0, 1.0] * 50, ends)
    assert low == pytest.approx(0.402, abs=0.003)
    assert high == pytest.approx(0.598, abs=0.003)


@given(SHARES)
def test_an_interval_moves_and_grows_with_the_range(values):
    low, high = mean_interval(values, (0.0, 1.0))
    moved = mean_interval([3.0 + 10.0 * value for value in values], (3.0, 13.0))
    assert moved == pytest.approx((3.0 + 10.0 * low, 3.0 + 10.0 * high))


@pytest.mark.parametrize("values", [[], [0.5]])
@pytest.mark.parametrize("ends", [(0.0, 1.0), (0.0, None)])
def test_no_interval_below_two_values(values, ends):
    assert mean_interval(values, ends) is None


def test_scores_without_a_value_are_counted_by_status_and_never_averaged():
    (summary,) = summarize(
        [
            {"recall": make_score(1.0)},
            {"recall": make_score(None)},
            {"recall": make_score(None, status="missing_input")},
            {},
        ]
    )
    assert (summary.count, summary.mean) == (1, 1.0)
    assert summary.without_value == {"undefined": 1, "missing_input": 1}


def test_a_name_without_any_value_has_no_mean():
    (summary,) = summarize([{"recall": make_score(None)}])
    assert (summary.mean, summary.p50, summary.mean_low) == (None, None, None)


@given(SHARES)
def test_histogram_counts_every_value_once(values):
    (summary,) = summarize([{"recall": make_score(value)} for value in values], interval=False)
    counts, low, high = summary.histogram(10)
    assert (sum(counts), low, high) == (len(values), 0.0, 1.0)


def _summary(values, **fields):
    [summary] = summarize({"one": make_score(value, "one").model_copy(update=fields)} for value in values)
    return summary


@pytest.mark.parametrize(
    ("values", "value", "place"),
    [
        # A third of the sentences is usual with three chunks: no colour, however low it looks.
        ([0.33] * 20, 0.33, None),
        ([0.33] * 19 + [0.05], 0.05, "worst"),
        ([n / 20 for n in range(20)], 0.05, "worst"),
        ([n / 20 for n in range(20)], 0.15, "low"),
        ([n / 20 for n in range(20)], 0.30, None),
        # Nearly all perfect: the one that is not stands out, however high it looks.
        ([1.0] * 19 + [0.9], 0.9, "worst"),
        # Too few to know what is usual.
        ([1.0] * 8 + [0.0], 0.0, None),
    ],
)
def test_a_value_stands_among_those_of_its_score_not_against_a_threshold(values, value, place):
    assert standing(_summary(values), value) == place


@given(st.lists(st.floats(0.0, 1.0), min_size=10, max_size=40))
def test_where_lower_is_better_the_highest_stand_out(values):
    higher, lower = _summary(values), _summary([-v for v in values], direction="lower")
    assert [standing(higher, v) for v in values] == [standing(lower, -v) for v in values]


def test_where_neither_way_is_better_nothing_stands_out():
    assert standing(_summary([1.0] * 19 + [0.0], direction="none"), 0.0) is None


def test_the_interval_of_an_open_range_is_students():
    low, high = mean_interval([1.0, 2.0, 3.0, 4.0, 5.0], (0.0, None))
    # t at 97.5 % with four degrees is 2.776; the standard error is √(2.5 / 5).
    assert low == pytest.approx(3 - 2.776 * 0.5**0.5, rel=0.01)
    assert high == pytest.approx(3 + 2.776 * 0.5**0.5, rel=0.01)
    assert mean_interval([1.0], (0.0, None)) is None


def test_the_interval_of_counts_ends_at_nought():
    low, high = mean_interval([0.0, 1.0, 1.0], (0.0, None))
    # t with two degrees is 4.303; the standard error is 1/3.
    assert (low, high) == (0.0, pytest.approx(2 / 3 + 4.303 / 3, rel=1e-3))
    assert mean_interval([0.0, 1.0, 1.0], (None, None))[0] == pytest.approx(2 / 3 - 4.303 / 3, rel=1e-3)
    assert mean_interval([-1.0, 0.0, 0.0], (None, 0.0))[1] == 0.0


def test_two_values_have_the_interval_of_one_degree_of_freedom():
    low, high = mean_interval([10.0, 20.0], (0.0, None))
    assert (low, high) == (0.0, pytest.approx(15 + 12.7062 * 5, rel=1e-5))
