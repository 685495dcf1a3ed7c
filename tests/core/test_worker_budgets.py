"""A budget asked from a worker process counts what that worker has in flight, and what it took along."""

import asyncio

import pytest

from ragmeter.metrics.judge import JudgeBudget
from ragmeter.pipeline.process.budgets import MAX_OPEN, Bookkeeping, RemoteBudget


def test_what_a_worker_has_in_flight_counts():
    """Ten calls of .1 fit into 1.0 before any of them is settled; near the limit one waits for another."""
    budget = JudgeBudget(max_cost=1.0, input_price=1.0)
    books = Bookkeeping([budget])

    assert books.take(0, 1, 100_000, 0) == (True, None)
    granted, wait_s = books.take(0, 2, 100_000, 0)
    assert not granted
    assert wait_s > 0  # nobody knows yet how wrong estimates are: it asks again in a moment
    books.settle(0, 1, 950_000, 0, 0)
    assert books.take(0, 2, 100_000, 0) == (False, None)
    assert budget.cost == 0.95


def test_calls_of_a_worker_that_ended_are_booked_as_they_were_expected():
    """Nobody will say what they took; they hold up nothing."""
    budget = JudgeBudget(max_cost=10.0, input_price=1.0)
    books = Bookkeeping([budget])
    books.take(0, 1, 100_000, 0)
    books.worker_ended()

    assert budget.cost == 0.1
    assert books.take(0, 1, 100_000, 0) == (True, None)  # the next worker counts from one again
    books.settle(0, 1, 50_000, 0, 0)
    assert budget.cost == 0.15000000000000002


def test_reservations_that_nobody_settles_do_not_pile_up():
    budget = JudgeBudget(calls_per_minute=10**6, input_price=1.0)
    books = Bookkeeping([budget])
    for number in range(MAX_OPEN + 100):
        books.take(0, number, 10, 0)

    assert budget.cost > 0


def test_room_that_is_granted_when_nobody_waits_for_it_any_more_is_given_back():
    """A request may miss its deadline while the meter's process answers."""
    sent = []

    async def give_up():
        budget = RemoteBudget(0, JudgeBudget(calls_per_minute=1).limits, lambda *event: sent.append(event))
        asking = asyncio.create_task(budget.obtain(10, 5))
        await asyncio.sleep(0)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        await asyncio.sleep(0)
        budget.take_answer(1, True, None)

    asyncio.run(give_up())

    assert sent == [("reserve", 0, 1, 10, 5), ("settle", 0, 1, 0, 0, 0)]
