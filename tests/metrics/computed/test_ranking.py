"""Average precision, its bounds, reciprocal rank and NDCG."""

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from judging_tools import oracle

from ragmeter.metrics import average_precision, average_precision_bounds, ndcg, reciprocal_rank

EXACT = oracle("exact_ap")
VERDICTS = st.lists(st.booleans(), max_size=9)


def test_exact_fractions_are_reproduced():
    """Both denominators, on every recorded list."""
    assert len(EXACT) == 293
    for record in EXACT:
        v = record["input"]["v"]
        total = record["params"].get("R")
        expected = record["expected"]
        if total is not None and sum(v) > total:
            with pytest.raises(ValueError, match="only"):
                average_precision(v, total)
            continue
        assert expected == pytest.approx(average_precision(v, total), abs=1e-12)


@pytest.mark.parametrize(
    ("v", "total", "ap", "rr", "gain"),
    [
        ([1, 0, 0], 1, 1.0, 1.0, 1.0),
        ([0, 0, 1], 1, 1 / 3, 1 / 3, 0.5),
        ([1, 0, 0], 2, 0.5, 1.0, 1 / (1 + 1 / math.log2(3))),
        ([1, 0, 1], 2, (1 + 2 / 3) / 2, 1.0, 1.5 / (1 + 1 / math.log2(3))),
        ([0, 0], 3, 0.0, 0.0, 0.0),
        ([], 3, 0.0, 0.0, 0.0),
        ([], 0, None, 0.0, None),
        ([0], 0, None, 0.0, None),
    ],
)
def test_worked_examples(v, total, ap, rr, gain):
    """Hand-computed: AP over all relevant, reciprocal rank, NDCG."""
    assert ap == pytest.approx(average_precision(v, total))
    assert rr == pytest.approx(reciprocal_rank(v))
    assert gain == pytest.approx(ndcg(v, total))


def test_without_a_total_the_relevant_among_the_ranked_count():
    """Context precision@K: nothing ranked is undefined, nothing relevant is 0."""
    assert average_precision([]) is None
    assert average_precision([0, 0]) == 0.0
    assert pytest.approx(average_precision([1, 0, 1])) == 5 / 6


@pytest.mark.parametrize("bad", [2, -1, 0.5])
def test_a_relevance_is_0_or_1(bad):
    """An integer that is neither is refused, never cast."""
    with pytest.raises(ValueError, match="0 or 1"):
        average_precision([1, bad])


def test_filling_unknowns_alike_would_be_wrong():
    """[?, 0, ?] scores from 0 to 1, though all-0 gives 0 and all-1 gives 0.8333."""
    assert average_precision_bounds([None, 0, None]) == (0.0, 1.0)


def test_a_repeated_unknown_is_one_unknown():
    """[?, 0, ?] of one chunk twice is [0, 0, 0] or [1, 0, 1], never [1, 0, 0]."""
    assert average_precision_bounds([None, 0, None], shared="aba") == pytest.approx((0.0, 5 / 6))
    assert average_precision_bounds([None, 0, None], shared="abc") == (0.0, 1.0)


@given(
    st.lists(st.tuples(st.sampled_from([0, 1, None]), st.integers(0, 4)), max_size=8),
    st.none() | st.integers(0, 9),
)
def test_bounds_of_shared_verdicts_equal_brute_force(ranks, total):
    """Every way of giving each distinct unknown chunk one verdict."""
    verdicts = [v for v, _ in ranks]
    shared = [chunk for _, chunk in ranks]
    unknown = sorted({chunk for v, chunk in ranks if v is None})
    scores = []
    for way in itertools.product((0, 1), repeat=len(unknown)):
        chosen = dict(zip(unknown, way, strict=True))
        filled = [chosen[chunk] if v is None else v for v, chunk in ranks]
        if total is None or sum(filled) <= total:
            scores.append(average_precision(filled, total))
    if not scores:
        with pytest.raises(ValueError, match="only"):
            average_precision_bounds(verdicts, total, shared=shared)
    elif None in scores:
        assert average_precision_bounds(verdicts, total, shared=shared) is None
    else:
        bounds = average_precision_bounds(verdicts, total, shared=shared)
        assert bounds == pytest.approx((min(scores), max(scores)))


def test_many_repeated_unknowns_keep_bounds_that_hold():
    """Beyond ten the bounds may be wide, but they are bounds, and found at once."""
    shared = [*range(14), *range(14)]
    least, greatest = average_precision_bounds([None] * 28, shared=shared)
    assert least == 0.0
    assert greatest == 1.0


@given(VERDICTS, st.integers(0, 3))
def test_all_stay_in_range(v, more):
    """0 to 1, and swapping a relevant item upwards never lowers average precision or NDCG."""
    total = sum(v) + more
    for score in (average_precision(v), average_precision(v, total), ndcg(v, total), reciprocal_rank(v)):
        assert score is None or 0.0 <= score <= 1.0 + 1e-12
    for k in range(1, len(v)):
        if v[k] and not v[k - 1]:
            better = [*v[: k - 1], True, False, *v[k + 1 :]]
            assert average_precision(better) >= average_precision(v)
            assert ndcg(better, total) >= ndcg(v, total)


@given(st.lists(st.floats(0, 100), max_size=9))
def test_graded_gains_are_ideal_when_sorted(gains):
    """Without a total the ideal order is the sorted one."""
    assert ndcg(sorted(gains, reverse=True)) in (None, pytest.approx(1.0))
