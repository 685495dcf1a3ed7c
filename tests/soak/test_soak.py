"""Requests of every ending, over threads and asyncio, through the real adapters: nothing piles up.

In the normal suite a short form; ``RAGMETER_SOAK=200000 pytest -s tests/soak`` is the long one and
prints its figures.
"""

import asyncio
import gc
import os
import threading
import time
import tracemalloc
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from langchain_core.runnables import RunnableLambda
from rag_chain import ANSWER, DOCUMENTS, QUESTION, ListRetriever, rag_chain

from ragmeter import Limits, RagMeter
from ragmeter.adapters.langchain import RagMeterCallbackHandler
from ragmeter.exporters.protocol import UnbufferedExporter

COUNT = int(os.environ.get("RAGMETER_SOAK") or 400)
THREADS = 4


class Tally(UnbufferedExporter):
    """An exporter that only counts how requests ended."""

    def __init__(self):
        self.statuses = Counter()
        self.late = 0

    def export(self, batch):
        for scored in batch:
            self.late += scored.late
            self.statuses[scored.sample.status] += not scored.late


def _raise(_):
    raise ValueError("the application's own")


class Application:
    """A chain asked in every way; each way returns what its sample's status must be."""

    def __init__(self, handler):
        self.config = {"callbacks": [handler]}
        self.chain = rag_chain()
        self.empty = rag_chain([])
        self.failing = rag_chain() | _raise
        retriever = ListRetriever(documents=DOCUMENTS)
        several = {"first": retriever, "second": retriever}
        self.several = (several | RunnableLambda(lambda _: ANSWER)).with_config(run_name="several")
        self.retriever = retriever

    def ok(self):
        assert self.chain.invoke(QUESTION, self.config) == ANSWER
        return "ok"

    def error(self):
        with pytest.raises(ValueError, match="own"):
            self.failing.invoke(QUESTION, self.config)
        return "error"

    def nothing_found(self):
        assert self.empty.invoke(QUESTION, self.config) == ANSWER
        return "ok"

    def several_retrievals(self):
        assert self.several.invoke(QUESTION, self.config) == ANSWER
        return "ok"

    def retrieval_only(self):
        self.retriever.invoke(QUESTION, self.config)
        return "retrieval_only"

    def stream(self):
        assert "".join(self.chain.stream(QUESTION, self.config)) == ANSWER
        return "ok"

    def abandoned(self):
        stream = self.chain.stream(QUESTION, self.config)
        next(stream)
        stream.close()
        return "partial"

    async def a_ok(self):
        assert await self.chain.ainvoke(QUESTION, self.config) == ANSWER
        return "ok"

    async def a_cancelled(self):
        reached = asyncio.Event()

        async def wait(_):
            reached.set()
            await asyncio.sleep(60)

        task = asyncio.create_task((self.chain | wait).ainvoke(QUESTION, self.config))
        await reached.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return "cancelled"

    async def a_abandoned(self):
        stream = self.chain.astream(QUESTION, self.config)
        async for _ in stream:
            break
        await stream.aclose()
        return "cancelled"  # asyncio has no other word for it

    @property
    def ways(self):
        return [
            self.ok, self.error, self.nothing_found, self.several_retrievals,
            self.retrieval_only, self.stream, self.abandoned,
        ]  # fmt: skip

    @property
    def async_ways(self):
        return [self.a_ok, self.a_cancelled, self.a_abandoned]


def _rss_mb():
    status = Path("/proc/self/status")
    if not status.exists():
        return 0.0
    lines = status.read_text(encoding="utf-8").splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS")).split()[1]) / 1024


def _drive(app, count, meter):
    """Make `count` requests over threads and one event loop; return how they must have ended."""
    expected = Counter()
    lock = threading.Lock()
    share = count // (THREADS + 1)

    def paced(made):
        # The promise is about what stays behind, not about what a small queue drops.
        while made % 20 == 0 and meter.stats().queue_size > 500:
            time.sleep(0.005)

    def in_thread(_):
        mine = Counter()
        for made in range(share):
            paced(made)
            mine[app.ways[made % len(app.ways)]()] += 1
        with lock:
            expected.update(mine)

    async def on_loop():
        mine = Counter()
        for made in range(0, share, 10):
            paced(made)
            ways = [app.async_ways[(made + i) % len(app.async_ways)]() for i in range(10)]
            mine.update(await asyncio.gather(*ways))
        with lock:
            expected.update(mine)

    with ThreadPoolExecutor(THREADS + 1) as pool:
        futures = [pool.submit(in_thread, n) for n in range(THREADS)]
        futures.append(pool.submit(lambda: asyncio.run(on_loop())))
        for future in futures:
            future.result()
    return expected


def _memory():
    gc.collect()
    return tracemalloc.get_traced_memory()[0] / 2**20, _rss_mb()


@pytest.mark.timeout(max(120, COUNT // 10))
def test_requests_of_all_endings_leave_nothing_behind():
    """Statuses are exact, counts reconcile, memory is flat after warm-up, the adapter's state is 0."""
    tally = Tally()
    meter = RagMeter(exporters=[tally], limits=Limits(late_window=10))
    handler = RagMeterCallbackHandler(meter)
    app = Application(handler)
    state = handler._attachment
    expected = Counter()
    started = time.monotonic()

    expected.update(_drive(app, COUNT // 4, meter))
    assert meter.flush(120)
    tracemalloc.start()
    expected.update(_drive(app, COUNT // 4, meter))
    assert meter.flush(120)
    traced_before, rss_before = _memory()
    expected.update(_drive(app, COUNT // 2, meter))
    assert meter.flush(120)
    traced_after, rss_after = _memory()
    tracemalloc.stop()

    stats = meter.stats()
    print(  # noqa: T201 -- the figures are half of the point
        f"\n{stats.captured} requests in {time.monotonic() - started:.0f} s: {dict(tally.statuses)}; "
        f"traced {traced_before:.2f} -> {traced_after:.2f} MB, "
        f"RSS {rss_before:.0f} -> {rss_after:.0f} MB over the second half"
    )
    assert tally.statuses == expected
    assert stats.captured == stats.exported == sum(expected.values())
    assert stats.dropped == {}
    assert len(state.runs) + len(state.requests) + len(state.annotations) == 0
    assert traced_after < traced_before + 1.0
    assert rss_after < rss_before + 20.0
    meter.shutdown(10)


@pytest.mark.timeout(max(120, COUNT // 20))
def test_llama_index_requests_leave_nothing_behind():
    """A tenth as many through the other adapter: answered, streamed, abandoned, failed."""
    pytest.importorskip("llama_index.core")
    from llama_index_fakes import QUESTION as CAPITAL
    from llama_index_fakes import ScriptedLLM, index

    from ragmeter.adapters.llama_index import RagMeterHandler

    tally = Tally()
    expected = Counter()
    with RagMeter(exporters=[tally], limits=Limits(late_window=10)) as meter, RagMeterHandler(meter) as handler:

        def engine(streaming=False, **model):
            return index().as_query_engine(llm=ScriptedLLM(prompts=[], **model), streaming=streaming)

        whole, streaming = engine(), engine(streaming=True)
        failing = engine(fail_with=RuntimeError)

        def failed():
            with pytest.raises(RuntimeError):
                failing.query(CAPITAL)
            return "error"

        def abandoned():
            stream = streaming.query(CAPITAL).response_gen
            next(stream)
            stream.close()
            return "partial"

        def read():
            assert str(streaming.query(CAPITAL))
            return "ok"

        def answered():
            assert str(whole.query(CAPITAL))
            return "ok"

        ways = [answered, read, abandoned, failed]

        def drive(count):
            for made in range(count):
                expected[ways[made % 4]()] += 1
            assert meter.flush(60)

        drive(COUNT // 40)
        tracemalloc.start()
        drive(COUNT // 40)
        before, rss_before = _memory()
        drive(COUNT // 20)
        after, rss_after = _memory()
        tracemalloc.stop()
        assert handler.open_entries == 0
        stats = meter.stats()

    print(  # noqa: T201
        f"\n{stats.captured} LlamaIndex requests: {dict(tally.statuses)}; traced {before:.2f} -> "
        f"{after:.2f} MB, RSS {rss_before:.0f} -> {rss_after:.0f} MB over the second half"
    )
    assert tally.statuses == expected
    assert stats.captured == stats.exported == sum(expected.values())
    # Each fake model remembers its prompts, some 2 kB each.
    assert after < before + 1.0 + COUNT / 20 * 0.002
