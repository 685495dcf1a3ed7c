"""Budgets: no sixty seconds hold more than was allowed."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st
from moved_clock import MovedClock

from ragmeter.metrics import ConfigurationError
from ragmeter.metrics.judge import JudgeBudget, JudgeError
from ragmeter.metrics.judge.budget import Reservation


@given(st.lists(st.tuples(st.floats(0, 40), st.integers(1, 60)), max_size=40))
def test_no_window_holds_more_than_allowed(arrivals):
    """Five calls and a hundred tokens a minute, whatever the arrivals."""
    clock = MovedClock()
    budget = JudgeBudget(calls_per_minute=5, tokens_per_minute=100, clock=clock)
    admitted = []
    for pause, tokens in arrivals:
        clock.now += pause
        try:
            reservation = budget.take(tokens)
        except JudgeError:
            continue
        budget.settle(reservation, tokens, 0)
        admitted.append((clock.now, tokens))

    for start, _ in admitted:
        window = [tokens for at, tokens in admitted if start <= at < start + 60]
        assert len(window) <= 5
        assert sum(window) <= 100


def test_what_a_call_really_took_is_booked():
    clock = MovedClock()
    budget = JudgeBudget(tokens_per_minute=100, clock=clock)
    budget.settle(budget.take(10), 80, 10)

    with pytest.raises(JudgeError) as caught:
        budget.take(20)
    assert (caught.value.status, caught.value.error_type) == ("skipped", "budget")
    clock.now = 61
    budget.take(20)


def test_waiting_for_room(monkeypatch):
    """when_exhausted="wait": the call comes when the window has room, not before."""
    clock, slept = MovedClock(), []

    async def sleep(seconds):
        slept.append(seconds)
        clock.now += seconds

    monkeypatch.setattr(asyncio, "sleep", sleep)
    budget = JudgeBudget(calls_per_minute=1, when_exhausted="wait", clock=clock)

    budget.take(1)
    asyncio.run(budget.until_room(1, 0))
    assert isinstance(budget.take(1), Reservation)

    assert sum(slept) == pytest.approx(60)


def test_a_call_larger_than_the_window_never_waits():
    budget = JudgeBudget(tokens_per_minute=10, when_exhausted="wait")

    with pytest.raises(JudgeError):
        budget.take(11)


def test_money_ends_it_for_good():
    """2 per million prompt tokens, 10 per million of completion: 0.3 + 0.2, and the limit is 0.4."""
    clock = MovedClock()
    budget = JudgeBudget(max_cost=0.4, input_price=2.0, output_price=10.0, clock=clock)
    budget.settle(budget.take(1), 150_000, 20_000)
    clock.now = 1000

    assert budget.cost == pytest.approx(0.5)
    with pytest.raises(JudgeError):
        budget.take(1)


@pytest.mark.parametrize(
    "wrong",
    [
        {"calls_per_minute": 0},
        {"tokens_per_minute": -5},
        {"max_cost": 1.0},
        {"input_price": -1.0},
        {"when_exhausted": "cry"},
    ],
)
def test_wrong_limits_are_refused(wrong):
    with pytest.raises(ConfigurationError):
        JudgeBudget(**wrong)


def test_without_limits_everything_passes():
    budget = JudgeBudget()
    for _ in range(100):
        budget.take(10**9)

    assert budget.cost == 0.0
    assert "calls_per_minute=None" in repr(budget)
