"""The budget in money: a sliding window, estimated and then booked, like calls and tokens."""

import contextlib
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st
from moved_clock import MovedClock

from ragmeter.metrics import ConfigurationError
from ragmeter.metrics.judge import JudgeBudget
from ragmeter.metrics.judge.protocol import JudgeError

PRICES = {"input_price": 2.0, "output_price": 8.0}


def _takes(budget, tokens=1_000):
    with contextlib.suppress(JudgeError):
        return budget.take(tokens)
    return None


def test_money_per_minute_is_a_sliding_window():
    """1,000 prompt tokens are estimated at 0.002; what was really written is booked afterwards."""
    clock = MovedClock()
    budget = JudgeBudget(cost_per_minute=0.01, **PRICES, clock=clock)

    first = _takes(budget)
    budget.settle(first, 1_000, 750)  # 0.002 + 0.006
    assert _takes(budget) is not None
    assert _takes(budget) is None
    clock.now = 60.0
    assert _takes(budget) is not None
    assert budget.cost == pytest.approx(0.008)


def test_a_call_that_costs_more_than_a_minute_allows_is_never_let_through():
    budget = JudgeBudget(cost_per_minute=0.001, **PRICES, when_exhausted="wait")

    assert _takes(budget) is None


@given(st.lists(st.tuples(st.floats(0, 20), st.integers(1, 3_000), st.integers(0, 900)), max_size=60))
def test_no_sixty_seconds_hold_more_than_was_allowed(calls):
    """Sums of what was let through, by the estimate that let it through, stay within the limits."""
    clock = MovedClock()
    budget = JudgeBudget(6, 9_000, cost_per_minute=0.012, **PRICES, clock=clock)
    taken = []
    for pause, tokens, written in calls:
        clock.now += pause
        reservation = _takes(budget, tokens)
        if reservation is None:
            continue
        recent = [r for r in taken if r.at > clock.now - 60.0]
        assert len(recent) < 6
        assert sum(r.tokens for r in recent) + tokens <= 9_000
        assert sum(r.cost for r in recent) + reservation.cost <= 0.012 + 1e-9 or not recent
        budget.settle(reservation, tokens, written)
        taken.append(reservation)


@pytest.mark.parametrize("limit", ["max_cost", "cost_per_minute"])
def test_a_limit_on_money_needs_a_price(limit):
    with pytest.raises(ConfigurationError, match=f"{limit} needs input_price"):
        JudgeBudget(**{limit: 1.0})


def test_a_pickled_budget_keeps_its_limits():
    budget = JudgeBudget(5, 10, cost_per_minute=0.5, max_cost=3.0, **PRICES)

    assert repr(pickle.loads(pickle.dumps(budget))) == repr(budget)
