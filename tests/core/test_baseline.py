"""What is usual: by hour of the week, drawn to the mean where little is known, and how far it moves by itself."""

import math
import random
from datetime import date

import pytest

from ragmeter.watch.baseline import (
    BASELINE_DAYS,
    HALF_HOURS,
    LAG_DAYS,
    LEAST_SCORES,
    TOLERANCE,
    ScoreHistory,
    learn,
)
from ragmeter.watch.evidence import Block

MONDAY = date(2026, 6, 1).toordinal()


def _history(days, values, first=MONDAY):
    """Return a history; `values(day, half)` gives the scores of a half hour."""
    history = ScoreHistory()
    for day in range(first, first + days):
        for half in range(HALF_HOURS):
            scores = values(day, half)
            if scores:
                squares = math.fsum(one * one for one in scores)
                history.add(day, half, Block(len(scores), math.fsum(scores), squares))
    return history


def _learned(days, values, first=MONDAY):
    return learn(_history(days, values, first).before(first + days))


def _chance(seed, mean=lambda day, half: 0.75, count=20):
    """Return scores of 0 and 1 with a mean of their own in each half hour; the same in every run."""
    chance = random.Random(seed)

    def values(day, half):
        wanted = mean(day, half)
        return [float(chance.random() < wanted) for _ in range(count)]

    return values


def test_too_little_is_known():
    def few(day, half):
        return [0.5] if half < 35 else []

    assert LEAST_SCORES > 14 * 35
    assert _learned(14, few) is None
    assert _learned(15, lambda day, half: [0.5] if half < 36 else []) is not None
    assert _learned(2, _chance(1)) is None
    assert _learned(3, _chance(1)) is not None


def test_each_hour_of_workdays_and_weekends_has_its_own():
    def mean(day, half):
        return 0.5 + (0.2 if half in {20, 21} else 0) - (0.3 if (day + 6) % 7 >= 5 else 0)

    baseline = _learned(14, lambda day, half: [mean(day, half)] * 5)

    assert baseline is not None
    assert baseline.expected[10] == pytest.approx(0.7, abs=0.01)
    assert baseline.expected[11] == pytest.approx(0.5, abs=0.01)
    assert baseline.expected[24 + 10] == pytest.approx(0.4, abs=0.01)
    assert baseline.expected[24 + 11] == pytest.approx(0.2, abs=0.01)
    assert baseline.scores == 14 * HALF_HOURS * 5


def test_the_first_saturday_says_what_a_sunday_is_like():
    """Where a weekend is worse, its hours are not drawn towards those of workdays."""
    baseline = _learned(6, _chance(2, lambda day, half: 0.55 if (day + 6) % 7 >= 5 else 0.8))
    assert baseline is not None
    assert list(baseline.expected[24:]) == [pytest.approx(0.55, abs=0.06)] * 24
    assert list(baseline.expected[:24]) == [pytest.approx(0.8, abs=0.06)] * 24


def test_an_hour_that_was_never_seen_is_not_known():
    baseline = _learned(5, lambda day, half: [0.5] * 5 if half not in {0, 1} else [])

    assert baseline is not None
    assert baseline.expected[0] is None
    assert baseline.expected[1] == pytest.approx(0.5)
    assert baseline.expected[24:] == (None,) * 24


def test_an_hour_with_few_scores_is_drawn_to_the_mean_of_all():
    others = _chance(3, lambda day, half: 0.3 if half < 24 else 0.7)

    def values(day, half):
        if half < 2:
            return [1.0] if (day, half) == (MONDAY, 0) else []
        return others(day, half)

    baseline = _learned(14, values)

    assert baseline is not None
    assert 0.5 < baseline.expected[0] < 0.9, "not the 1.0 of the only score"


def test_hours_that_differ_by_chance_alone_are_not_told_apart():
    baseline = _learned(14, _chance(4))

    assert baseline is not None
    assert max(baseline.expected) - min(baseline.expected) < 0.02
    assert baseline.design_effect == 1.0
    assert baseline.tolerance == pytest.approx(TOLERANCE, abs=0.01)
    assert baseline.error < 0.02


def test_a_mean_that_moves_by_itself_is_tolerated():
    chance = random.Random(5)
    moves = {}

    def mean(day, half):
        return 0.7 + moves.setdefault((day, half // 12), 0.1 if chance.random() < 0.5 else -0.1)

    baseline = _learned(14, _chance(6, mean, count=40))

    assert baseline is not None
    assert baseline.tolerance == pytest.approx(TOLERANCE + 2.65 * 0.1, abs=0.05)


def test_sessions_make_the_design_effect_and_are_no_wander():
    chance = random.Random(7)

    def values(day, half):
        return [one for _ in range(4) for one in [float(chance.random() < 0.7)] * 5]

    baseline = _learned(14, values)

    assert baseline is not None
    assert baseline.design_effect == pytest.approx(1 + (5 - 1) * 4 / 3, rel=0.25)
    assert baseline.tolerance == pytest.approx(TOLERANCE, abs=0.02)


def test_few_days_that_differ_make_a_large_error():
    levels = {MONDAY: 0.6, MONDAY + 1: 0.7, MONDAY + 2: 0.8}
    of_three = _learned(3, lambda day, half: [levels[day]] * 20)
    of_many = _learned(14, lambda day, half: [(0.6, 0.7, 0.8)[day % 3]] * 20)

    assert of_three is not None
    assert of_many is not None
    assert of_three.error > 0.3
    assert of_many.error < of_three.error / 4
    assert of_three.allowance == of_three.tolerance + of_three.error


def test_what_came_last_waits_a_week():
    history = _history(30, lambda day, half: [0.5])

    assert len(history.days) == BASELINE_DAYS + LAG_DAYS + 1
    assert [day.number for day in history.before(MONDAY + 30)] == list(
        range(MONDAY + 8, MONDAY + 8 + BASELINE_DAYS)
    )
    assert [day.number for day in history.before(MONDAY + 10)] == [MONDAY + 8, MONDAY + 9]


def test_days_without_requests_push_nothing_out():
    history = _history(14, lambda day, half: [0.5])
    history.add(MONDAY + 400, 0, Block(1, 0.5, 0.25))

    assert len(history.before(MONDAY + 400)) == 14


def test_what_is_late_is_not_learned():
    history = _history(2, lambda day, half: [0.5])
    history.add(MONDAY, 0, Block(100, 0.0, 0.0))

    assert [sum(sums.n for _, sums in day.halves()) for day in history.days] == [48, 48]


def test_a_history_is_split_at_a_half_hour():
    history = _history(3, lambda day, half: [0.5])
    later = history.split(MONDAY + 1, 10)

    assert [(day.number, len(list(day.halves()))) for day in history.days] == [(MONDAY, 48), (MONDAY + 1, 10)]
    assert [(day.number, len(list(day.halves()))) for day in later.days] == [(MONDAY + 1, 38), (MONDAY + 2, 48)]
    assert history.split(MONDAY, 0).days[0].number == MONDAY
    assert history.days == []


@pytest.mark.parametrize("score", [0.0, 1.0, 0.5])
def test_scores_that_are_all_alike_are_a_baseline(score):
    baseline = _learned(14, lambda day, half: [score])

    assert baseline is not None
    assert baseline.expected[0] == pytest.approx(score)
    assert baseline.tolerance == pytest.approx(TOLERANCE)
    assert baseline.error == pytest.approx(0.0)
