"""Means, percentiles and intervals of many scores."""

import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragmeter.cli._summary import bootstrap_interval, percentile, summarize
from ragmeter.metrics import Score

SHARES = st.lists(st.floats(0.0, 1.0), min_size=2, max_size=50)


def _score(value, status="ok", name="recall"):
    return Score(name=name, value=value, status=status, method="exact", definition="1")


@given(SHARES)
def test_percentiles_equal_the_standard_librarys_inclusive_ones(values):
    deciles = statistics.quantiles(values, n=10, method="inclusive")
    assert percentile(values, 0.1) == pytest.approx(deciles[0])
    assert percentile(values, 0.5) == pytest.approx(statistics.median(values))
    assert percentile(values, 0.9) == pytest.approx(deciles[8])


@given(SHARES)
def test_interval_stays_within_the_values_and_is_reproducible(values):
    low, high = bootstrap_interval(values)
    assert min(values) - 1e-9 <= low <= high <= max(values) + 1e-9
    assert (low, high) == bootstrap_interval(values)


def test_interval_of_a_known_case():
    """100 tosses, half heads: the normal approximation gives 0.5 ± 1.96 · 0.05."""
    low, high = bootstrap_interval([0.0, 1.0] * 50)
    assert low == pytest.approx(0.402, abs=0.02)
    assert high == pytest.approx(0.598, abs=0.02)


@pytest.mark.parametrize("values", [[], [0.5]])
def test_no_interval_below_two_values(values):
    assert bootstrap_interval(values) is None


def test_scores_without_a_value_are_counted_by_status_and_never_averaged():
    (summary,) = summarize(
        [
            {"recall": _score(1.0)},
            {"recall": _score(None, "undefined")},
            {"recall": _score(None, "missing_input")},
            {},
        ]
    )
    assert (summary.count, summary.mean) == (1, 1.0)
    assert summary.without_value == {"undefined": 1, "missing_input": 1}


def test_a_name_without_any_value_has_no_mean():
    (summary,) = summarize([{"recall": _score(None, "undefined")}])
    assert (summary.mean, summary.p50, summary.mean_low) == (None, None, None)


@given(SHARES)
def test_histogram_counts_every_value_once(values):
    (summary,) = summarize([{"recall": _score(value)} for value in values], interval=False)
    counts, low, high = summary.histogram(10)
    assert (sum(counts), low, high) == (len(values), 0.0, 1.0)
