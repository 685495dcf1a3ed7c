"""A slot is a call on the wire: nothing that waits holds one, and every one is given back."""

import asyncio
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from judging_tools import judge_at, sample
from openai_server import Misbehaviour, OpenAIServer, error

from ragmeter.metrics import ContextPrecision, aevaluate, evaluate
from ragmeter.metrics._connection import wires
from ragmeter.metrics.judge import JudgeBudget


def questions(server):
    return [request.passages["question"] for request in server.requests]


async def asked(judge, question, **fields):
    [scores] = await aevaluate([sample(question=question, **fields)], [ContextPrecision()], judge)
    return scores["context_precision"]


def test_a_pause_between_attempts_holds_no_slot(server):
    """One slot: the second call goes out while the first waits for its second attempt."""
    server.script.append(Misbehaviour(500))

    async def run():
        judge = judge_at(server, concurrency=1, max_retries=1)
        first = asyncio.create_task(asked(judge, "first"))
        while not server.requests:
            await asyncio.sleep(0.005)
        second = await asked(judge, "second")
        both = await first, second
        await judge.aclose()
        return both

    first, second = asyncio.run(run())

    assert (first.status, second.status) == ("ok", "ok")
    assert questions(server) == ["first", "second", "first"]


def test_waiting_for_the_budget_holds_no_slot(server):
    """One slot: a call too large for what is left of the minute lets a small one pass."""

    async def run():
        budget = JudgeBudget(tokens_per_minute=2_000, when_exhausted="wait")
        judge = judge_at(server, concurrency=1, budget=budget)
        for n in range(3):
            await asked(judge, f"q{n}")
        large = asyncio.create_task(asked(judge, "large", contexts=["word " * 1_200]))
        await asyncio.sleep(0.05)
        small = await asyncio.wait_for(asked(judge, "small"), 30)
        large.cancel()
        with pytest.raises(asyncio.CancelledError):
            await large
        await judge.aclose()
        return small

    assert asyncio.run(run()).status == "ok"
    assert questions(server) == ["q0", "q1", "q2", "small"]


def test_waiting_for_a_slot_is_no_part_of_the_timeout(server):
    """One slot: the second waits for it for longer than either may take to be answered."""
    server.gate.clear()

    async def run():
        judge = judge_at(server, concurrency=1, timeout_s=30.0)
        first = asyncio.create_task(asked(judge, "first"))
        while not server.requests:
            await asyncio.sleep(0.005)
        judge._endpoint._timeout_s = 3.0  # of what comes now
        second = asyncio.create_task(asked(judge, "second"))
        await asyncio.sleep(3.5)
        server.gate.set()
        both = await first, await second
        await judge.aclose()
        return [score.status for score in both]

    assert asyncio.run(run()) == ["ok", "ok"]


def test_calls_that_wait_are_refused_when_the_circuit_opens(server):
    """Nine calls wait for one slot; the first five failures are the last."""
    server.script += [error(500)] * 9
    judge = judge_at(server, concurrency=1)
    evaluate([sample(question=str(n)) for n in range(9)], [ContextPrecision()], judge, concurrency=9)

    assert len(server.requests) == 5


def test_calls_that_wait_take_over_what_the_endpoint_was_found_to_lack(server):
    server.supports = set()
    judge = judge_at(server, concurrency=1)
    evaluate([sample(question=str(n)) for n in range(5)], [ContextPrecision()], judge, concurrency=5)

    kinds = [request.body.get("response_format", {}).get("type") for request in server.requests]
    assert kinds[-1] is None
    assert kinds.count(None) == 5


STEPS = {
    "good": None,
    "busy": Misbehaviour(503),
    "broken": Misbehaviour(body=b"{}", cut_after=1),
    "silent": Misbehaviour(delay_s=60),
    "useless": Misbehaviour(body=b"<html>"),
    "too long": error(400, "context_length_exceeded"),
}


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    steps=st.lists(st.sampled_from(sorted(STEPS)), max_size=12),
    concurrency=st.integers(1, 4),
    given_up_after_s=st.one_of(st.none(), st.floats(0.0, 0.3)),
)
def test_every_slot_comes_back_and_no_more(steps, concurrency, given_up_after_s):
    """Whatever the calls met, failure, timeout or cancellation: as many at once as before, no more."""

    async def run(server):
        judge = judge_at(server, concurrency=concurrency, timeout_s=0.2, cache=False)
        judge._endpoint.breaker.admit = lambda: None
        calls = [asyncio.create_task(asked(judge, f"q{n}")) for n in range(len(steps))]
        if calls:
            await asyncio.wait(calls, timeout=given_up_after_s)
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
        server.script.clear()
        judge._endpoint._timeout_s = 30.0  # what follows must not fail because the machine is busy
        await asyncio.sleep(0.02)  # what was given up ends at the server, too
        server.most_at_once = 0
        server.together = concurrency
        server.latency_s = 0.05
        results = await asyncio.gather(*[asked(judge, f"n{n}") for n in range(2 * concurrency)])
        await judge.aclose()
        return [result.status for result in results]

    with OpenAIServer() as server:
        server.script.extend(STEPS[step] for step in steps if STEPS[step] is not None)
        statuses = asyncio.run(run(server))

    assert set(statuses) == {"ok"}
    # A server does not learn at once that nobody waits for its reply any more.
    assert concurrency <= server.most_at_once <= concurrency + steps.count("silent")


def test_organisation_and_project_of_the_environment_are_sent(server, monkeypatch):
    monkeypatch.setenv("OPENAI_ORG_ID", "org-1")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "proj-1")
    evaluate([sample()], [ContextPrecision()], judge_at(server))
    headers = server.requests[0].headers

    assert (headers["openai-organization"], headers["openai-project"]) == ("org-1", "proj-1")


def test_building_a_judge_sends_nothing(server):
    judge_at(server)

    assert server.requests == []


@pytest.mark.parametrize(("lasted_s", "gap_s"), [(None, 0.0015), (0.004, 0.0005), (9.0, 0.0015)])
def test_calls_do_not_go_out_in_a_wave(monkeypatch, lasted_s, gap_s):
    """Four at the same moment: at most 1.5 ms apart, and never more than half their average distance."""
    now, slept = [100.0], []

    async def sleep(seconds):
        slept.append(seconds)

    async def hold(slots, seconds=0.0, until=None):
        async with slots.slot():
            now[0] += seconds
            if until is not None:
                await until.wait()

    async def run():
        slots = wires.Wires(SimpleNamespace(client=lambda: None), 4)
        if lasted_s is not None:
            await hold(slots, lasted_s)
        replies = asyncio.Event()
        asyncio.get_running_loop().call_later(0.01, replies.set)
        await asyncio.gather(*[hold(slots, until=replies) for _ in range(4)])

    monkeypatch.setattr(wires, "time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(asyncio, "sleep", sleep)
    asyncio.run(run())

    assert slept == pytest.approx([gap_s, 2 * gap_s, 3 * gap_s], rel=0.1)
