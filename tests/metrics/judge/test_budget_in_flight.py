"""Budgets count what is in flight: many calls at once spend no more than one after the other."""

import asyncio
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from judging_tools import judge_at, sample
from openai_server import OpenAIServer, content, well_formed

from ragmeter.metrics import ContextPrecision, evaluate
from ragmeter.metrics.judge import JudgeBudget, JudgeError
from ragmeter.metrics.judge.budget import Reservation

PRICES = {"input_price": 1.0, "output_price": 4.0}


def test_reservations_count_until_they_are_settled():
    """Ten calls of .1 fit into 1.0, though none of them has ended."""
    budget = JudgeBudget(max_cost=1.0, input_price=1.0)
    taken = [budget.take(100_000) for _ in range(10)]

    with pytest.raises(JudgeError):
        budget.take(100_000)
    budget.settle(taken[0], 0, 0)  # it failed, and cost nothing
    assert isinstance(budget.take(100_000), Reservation)


def test_what_is_expected_to_be_written_counts_too():
    budget = JudgeBudget(max_cost=1.0, output_price=1.0)
    for _ in range(10):
        budget.take(5, 100_000)

    with pytest.raises(JudgeError):
        budget.take(5, 100_000)


CALLS = st.lists(
    st.tuples(st.integers(50, 2_000), st.integers(0, 500), st.floats(0.2, 8.0)), min_size=5, max_size=60
)


@settings(deadline=None, derandomize=True)
@given(CALLS, st.floats(0.001, 0.05), st.sampled_from(["skip", "wait"]), st.integers(1, 16))
def test_never_exceeded_by_more_than_one_call_is_wrong(calls, limit, when_exhausted, at_once):
    """Whatever calls take beside their estimates, and however many are under way."""
    budget = JudgeBudget(max_cost=limit, **PRICES, when_exhausted=when_exhausted)
    dearest = 0.0

    async def one(slots, tokens, output, wrong):
        nonlocal dearest
        async with slots:
            try:
                while not isinstance(room := await budget.obtain(tokens, output), Reservation):
                    await asyncio.sleep(0)
            except JudgeError:
                return
            await asyncio.sleep(0)
            took = int(tokens * wrong), int(output * wrong)
            dearest = max(dearest, budget.price(*took))
            budget.settle(room, *took)

    async def all_of_them():
        slots = asyncio.Semaphore(at_once)
        await asyncio.gather(*(one(slots, *call) for call in calls))

    asyncio.run(all_of_them())

    assert budget.cost <= limit + dearest


@pytest.mark.parametrize("when_exhausted", ["skip", "wait"])
def test_sixty_four_calls_at_once_keep_to_the_limit(when_exhausted):
    """Replies eight times as long as anybody would expect; the limit holds to one call."""
    with OpenAIServer(latency_s=0.02) as server:
        budget = JudgeBudget(max_cost=0.05, **PRICES, when_exhausted=when_exhausted)
        judge = judge_at(server, budget=budget, concurrency=64, cache=False)

        def verbose(request):
            text = json.dumps(well_formed(request, lambda request, item_id: True))
            return content(text, prompt=400, output=800)

        server.script.extend([verbose] * 500)
        evaluate([sample(question=str(n)) for n in range(100)], [ContextPrecision()], judge, concurrency=64)

        one_call = budget.price(400, 800)
        assert 0.05 - one_call <= budget.cost <= 0.05 + one_call


def test_every_post_costs_the_budget_a_call():
    """json_schema, json_object, text: three calls, and the fourth has no room."""
    with OpenAIServer() as server:
        server.supports = set()
        judge = judge_at(server, budget=JudgeBudget(calls_per_minute=3), concurrency=1)
        scores = [
            evaluate([sample(question=str(n))], [ContextPrecision()], judge)[0]["context_precision"]
            for n in range(2)
        ]

    assert [(s.status, s.judge_calls) for s in scores] == [("ok", 3), ("skipped", 0)]
    assert judge.stats.calls == len(server.requests) == 3


def test_cached_prompt_tokens_have_a_price_of_their_own():
    """Of 1,000,000 prompt tokens 900,000 were read from the endpoint's cache, at a tenth."""
    budget = JudgeBudget(max_cost=10, input_price=1.0, cached_input_price=0.1)
    budget.settle(budget.take(1_000), 1_000_000, 0, 900_000)

    assert budget.cost == pytest.approx(0.19)
