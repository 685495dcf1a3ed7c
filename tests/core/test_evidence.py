"""Evidence for a fall: exact for scores of 0 and 1, never too much for others, and who is alarmed among many."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragmeter.watch.evidence import ALARM_EVIDENCE, BETS, LARGEST, Block, FallEvidence, block_factors, e_bh

FLOORS = st.floats(0.01, 0.99)
SCORES = st.floats(0.0, 1.0)


def _sums(scores):
    return Block(len(scores), math.fsum(scores), math.fsum(one * one for one in scores))


def _exact(scores, floor):
    return [math.fsum(math.log1p(bet / (1 - floor) * (floor - one)) for one in scores) for bet in BETS]


def _add(evidence, at, scores, floor=0.7, usual=0.8, **changes):
    evidence.add(at, _sums(scores), floor=floor, usual=usual, **changes)


@given(st.lists(st.sampled_from((0.0, 1.0)), min_size=1), FLOORS)
def test_of_scores_of_0_and_1_sums_say_all(scores, floor):
    assert block_factors(_sums(scores), floor) == pytest.approx(_exact(scores, floor), abs=1e-9)


@given(st.lists(SCORES, min_size=1), FLOORS)
def test_sums_never_say_more_than_the_scores(scores, floor):
    for bound, exact in zip(block_factors(_sums(scores), floor), _exact(scores, floor), strict=True):
        assert bound <= exact + 1e-9 * len(scores)


@given(FLOORS)
def test_a_mean_at_the_floor_gives_nothing_on_average(floor):
    """The factor of one score of 0 or 1 is expected to be 1: what the stated rate of false alarms rests on."""
    for bad, good in zip(
        block_factors(Block(1, 0.0, 0.0), floor), block_factors(Block(1, 1.0, 1.0), floor), strict=True
    ):
        assert (1 - floor) * math.exp(bad) + floor * math.exp(good) == pytest.approx(1.0)


@given(st.lists(st.sampled_from((0.0, 1.0)), min_size=1, max_size=60))
def test_evidence_is_the_sum_over_all_starting_times(scores):
    evidence = FallEvidence()
    for at, one in enumerate(scores):
        _add(evidence, at, [one])

    by_start = [
        math.exp(math.fsum(log))
        for start in range(len(scores))
        for log in zip(*[_exact([one], 0.7) for one in scores[start:]], strict=True)
    ]
    assert evidence.total == pytest.approx(math.fsum(by_start) / len(BETS))


def test_requests_that_resemble_each_other_count_for_less():
    plain, tempered = FallEvidence(), FallEvidence()
    _add(plain, 0, [0.0, 0.0])
    _add(tempered, 0, [0.0, 0.0], design_effect=2.0)

    assert [math.exp(log) for log in block_factors(Block(2, 0, 0), 0.7)] == pytest.approx(plain.factors)
    assert [math.exp(log / 2) for log in block_factors(Block(2, 0, 0), 0.7)] == pytest.approx(tempered.factors)


def test_the_path_begins_where_the_fall_did():
    evidence = FallEvidence()
    assert evidence.path is None
    for at in range(100):
        _add(evidence, 300.0 * at, [1.0, 1.0, 1.0, 1.0, 0.0])
    assert evidence.path is not None
    assert evidence.path.log < 0

    for at in range(100, 120):
        _add(evidence, 300.0 * at, [1.0, 1.0, 0.0, 0.0, 0.0])
    path = evidence.path

    assert path is not None
    assert path.log > 0
    assert path.since == 300.0 * 100
    assert path.n == 100
    assert path.mean == pytest.approx(0.4)
    assert path.usual == pytest.approx(0.8)


def test_evidence_is_bounded_and_falls_again():
    evidence = FallEvidence()
    for at in range(50):
        _add(evidence, at, [0.0] * 10_000)
    assert ALARM_EVIDENCE < evidence.total <= LARGEST

    for at in range(50):
        _add(evidence, at, [1.0] * 1_000)
    assert evidence.total < 1


MANY = st.dictionaries(st.integers(), st.floats(0, 1e9), max_size=12)


@given(MANY, st.randoms(use_true_random=False))
def test_the_order_of_keys_does_not_matter(evidence, chance):
    items = list(evidence.items())
    chance.shuffle(items)
    assert e_bh(dict(items)) == e_bh(evidence)


@given(MANY)
def test_the_alarmed_are_the_largest_set_that_is_strong_enough(evidence):
    alarmed = e_bh(evidence, 100.0)
    ordered = sorted(evidence.values(), reverse=True)
    sizes = [size for size in range(1, len(ordered) + 1) if ordered[size - 1] * size >= 100.0 * len(ordered)]

    assert len(alarmed) >= max(sizes, default=0)
    assert {evidence[key] for key in alarmed} == set(ordered[: max(sizes, default=0)])
    if alarmed:
        assert math.fsum(ordered) / len(ordered) >= 100.0 * (1 - 1e-12)


def test_one_key_needs_the_limit_and_many_need_more():
    assert e_bh({"a": ALARM_EVIDENCE}) == {"a"}
    assert e_bh({"a": ALARM_EVIDENCE - 1}) == frozenset()
    assert e_bh({"a": ALARM_EVIDENCE, "b": 0.0}) == frozenset()
    assert e_bh({"a": 2 * ALARM_EVIDENCE, "b": 0.0}) == {"a"}
    assert e_bh({"a": ALARM_EVIDENCE, "b": ALARM_EVIDENCE}) == {"a", "b"}
    assert e_bh({}) == frozenset()
