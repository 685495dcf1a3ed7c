"""Many requests at once, in every way Python offers: each sample holds its own request's facts."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import random
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from llama_index.core.instrumentation import get_dispatcher
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.schema import QueryBundle, TextNode
from llama_index_fakes import Captured, ListRetriever, captured, engine_of, ids, llm, nodes

import ragmeter

dispatcher = get_dispatcher(__name__)


def engine(name: str, *, streaming: bool = False, fails: bool = False) -> Any:
    """An engine whose documents, answer and failure all carry `name`."""
    found = [TextNode(id_=f"{name}-{place}", text=f"text {place} of {name}") for place in range(2)]
    error = OSError(name) if fails else None
    return engine_of(ListRetriever(found, error=error), llm(f"answer of {name}"), streaming=streaming)


def one(name: str, how: str) -> None:
    """One sync request named `name`."""
    with ragmeter.reference(answer=name):
        if how == "error":
            with pytest.raises(OSError, match=name):
                engine(name, fails=True).query(name)
        elif how == "stream":
            list(engine(name, streaming=True).query(name).response_gen)
        elif how == "abandon":
            next(engine(name, streaming=True).query(name).response_gen)
        else:
            engine(name).query(name)


async def aone(name: str, how: str, delay: float) -> None:
    """One async request named `name`."""
    await asyncio.sleep(delay)
    with ragmeter.reference(answer=name):
        if how == "error":
            with pytest.raises(OSError, match=name):
                await engine(name, fails=True).aquery(name)
        elif how == "stream":
            response = await engine(name, streaming=True).aquery(name)
            async for _ in response.async_response_gen():
                await asyncio.sleep(0)
        elif how == "abandon":
            response = await engine(name, streaming=True).aquery(name)
            async for _ in response.response_gen:
                break
            await response.response_gen.aclose()
        else:
            await engine(name).aquery(name)


EXPECTED = {"plain": "ok", "stream": "ok", "error": "error", "abandon": "partial"}


def check(capture: Captured, plan: dict[str, str]) -> None:
    """Every planned request gave exactly one sample, with nothing of any other's."""
    gc.collect()
    runs = capture.runs
    assert sorted(str(run.sample.question) for run in runs) == sorted(plan)
    for run in runs:
        name = str(run.sample.question)
        how = plan[name]
        assert run.sample.status == EXPECTED[how]
        assert run.sample.reference is not None
        assert run.sample.reference.answer == name
        if how == "error":
            assert run.sample.contexts is None
        else:
            assert ids(run) == [f"{name}-0", f"{name}-1"]
        if how in ("plain", "stream"):
            assert run.sample.answer == f"answer of {name}"
    assert capture.handler.open_entries == 0


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    hows=st.lists(st.sampled_from(sorted(EXPECTED)), min_size=1, max_size=12),
    seed=st.integers(0, 2**16),
    threads=st.integers(1, 3),
)
def test_random_mixtures_of_threads_loops_and_tasks(hows: list[str], seed: int, threads: int) -> None:
    """Threads, each with sync requests or a loop of its own with gathered tasks; random delays."""
    plan = {f"request {place}": how for place, how in enumerate(hows)}
    shares = [list(plan.items())[start::threads] for start in range(threads)]

    def work(place: int) -> None:
        choice = random.Random(seed + place)
        if choice.random() < 0.5:
            for name, how in shares[place]:
                one(name, how)
            return

        async def main() -> None:
            jobs = [asyncio.create_task(aone(name, how, choice.random() / 200)) for name, how in shares[place]]
            await asyncio.gather(*jobs)
            await asyncio.sleep(0.005)

        asyncio.run(main())

    with captured() as capture:
        workers = [threading.Thread(target=work, args=(place,)) for place in range(threads)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        check(capture, plan)


def test_gather_on_one_shared_engine() -> None:
    """Requests of one engine do not collapse (langfuse#5166, #1795, openinference#248,
    llama_index#19300)."""

    class Echo(ListRetriever):
        async def _aretrieve(self, query_bundle: QueryBundle) -> Any:
            await asyncio.sleep(random.random() / 100)
            self._found = [TextNode(id_=query_bundle.query_str, text=query_bundle.query_str)]
            return self._retrieve(query_bundle)

    shared = engine_of(Echo([]))

    async def main() -> None:
        await asyncio.gather(*(shared.aquery(f"question {n}") for n in range(30)))

    with captured() as capture:
        asyncio.run(main())
        pairs = {run.sample.question: ids(run) for run in capture.runs}

    assert pairs == {f"question {n}": [f"question {n}"] for n in range(30)}


@pytest.mark.parametrize("copied", [False, True])
def test_thread_pools_with_and_without_copied_context(copied: bool) -> None:
    """Pool threads are requests of their own, also below an application's own span."""

    @dispatcher.span
    def batch(pool: ThreadPoolExecutor) -> None:
        jobs = []
        for number in range(12):
            call = (f"request {number}", "plain")
            if copied:
                jobs.append(pool.submit(contextvars.copy_context().run, one, *call))
            else:
                jobs.append(pool.submit(one, *call))
        for job in jobs:
            job.result()

    with captured() as capture, ThreadPoolExecutor(4) as pool:
        batch(pool)
        check(capture, {f"request {number}": "plain" for number in range(12)})


def test_fire_and_forget_task_is_a_request_of_its_own() -> None:
    """Its parent span has closed when it runs: it must not alter the first sample."""

    class Forgetful(ListRetriever):
        async def _aretrieve(self, query_bundle: QueryBundle) -> Any:
            async def later() -> None:
                await asyncio.sleep(0.05)
                await engine("later").aquery("later")

            self.task = asyncio.create_task(later())
            return self._retrieve(query_bundle)

    async def main() -> None:
        retriever = Forgetful(nodes()[:2])
        await engine_of(retriever).aquery("first")
        await retriever.task

    with captured() as capture:
        asyncio.run(main())
        pairs = {run.sample.question: ids(run) for run in capture.runs}

    assert pairs == {"first": ["paris", "rome"], "later": ["later-0", "later-1"]}
    assert capture.handler.open_entries == 0


def test_task_still_running_when_its_request_returns_does_not_alter_it() -> None:
    """A nested query that outlives the request that began it neither adds nor breaks anything."""

    class Overlapping(ListRetriever):
        async def _aretrieve(self, query_bundle: QueryBundle) -> Any:
            begun.set()
            await over.wait()
            return self._retrieve(query_bundle)

    class Starting(RetrieverQueryEngine):
        async def _aquery(self, query_bundle: QueryBundle) -> Any:
            slow = RetrieverQueryEngine.from_args(Overlapping(nodes()[2:]), llm=llm())
            self.task = asyncio.create_task(slow.aquery("slow"))
            await begun.wait()
            return await super()._aquery(query_bundle)

    async def main() -> None:
        outer = Starting.from_args(ListRetriever(nodes()[:2]), llm=llm())
        await outer.aquery("first")
        over.set()
        await outer.task

    begun, over = asyncio.Event(), asyncio.Event()

    with captured() as capture:
        asyncio.run(main())
        first = capture.runs[0]

    assert first.sample.question == "first"
    assert ids(first) == ["paris", "rome"]
    assert capture.handler.open_entries == 0
