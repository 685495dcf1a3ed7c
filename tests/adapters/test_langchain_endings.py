"""How requests end: well, badly, half-way, or never; each leaves the right status and no state."""

import asyncio
import gc
from collections.abc import AsyncIterator
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.runnables import RunnableLambda, RunnableParallel
from langchain_fakes import (
    PROMPT,
    FixedRetriever,
    HangingRetriever,
    TellingModel,
    Watch,
    docs,
    expect,
    joined,
    lcel,
)

from ragmeter.adapters.langchain import _state as runs


@expect(question="who?", answer=None, status="error", texts=["doc-a"], error_type="ValueError")
def test_model_error(watch: Watch) -> None:
    """The retrieval happened, the answer did not."""
    chain = lcel(FixedRetriever(found=docs("a")), TellingModel(fail=9))
    with pytest.raises(ValueError, match="model failed"):
        chain.invoke("who?", config=watch.config)


def test_retriever_error(watch: Watch) -> None:
    """A retrieval that failed is no empty retrieval: contexts are not known."""
    with pytest.raises(LookupError):
        lcel(FixedRetriever(found=[], error=True)).invoke("who?", config=watch.config)

    sample = watch.sample
    assert (sample.contexts, sample.status) == (None, "error")
    (retrieval,) = watch.only.run.retrievals
    assert retrieval.error_type == "LookupError"


def test_error_of_one_item_of_a_batch(watch: Watch) -> None:
    """Only the failing item failed."""

    def search(question: str) -> list[Document]:
        if question == "bad":
            raise LookupError(question)
        return FixedRetriever(found=docs("a")).invoke(question)

    lcel(RunnableLambda(search)).batch(["good", "bad", "fine"], config=watch.config, return_exceptions=True)

    assert {sample.question: sample.status for sample in watch.samples} == {"good": "ok", "fine": "ok"}


@expect(question="who?", status="partial", texts=["doc-a", "doc-b"])
def test_abandoned_sync_stream(watch: Watch, chain: Any) -> None:
    """A stream that is broken off is not a complete answer."""
    stream = chain.stream("who?", config=watch.config)
    next(stream)
    stream.close()


@expect(status="partial")
def test_consumer_that_raises(watch: Watch, chain: Any) -> None:
    """So is one whose reader failed."""

    def read() -> None:
        for _ in chain.stream("who?", config=watch.config):
            raise OSError("the client is gone")

    with pytest.raises(OSError, match="gone"):
        read()
    gc.collect()


@expect(status="cancelled", question="who?", texts=["doc-a", "doc-b"])
def test_abandoned_async_stream(watch: Watch, chain: Any) -> None:
    """langchain#9424: an asynchronous stream left early is cancelled once the loop tidies up."""

    async def read() -> None:
        stream: AsyncIterator[str] = chain.astream("who?", config=watch.config)
        async for _ in stream:
            break
        await stream.aclose()  # type: ignore[attr-defined]
        del stream
        gc.collect()
        await asyncio.sleep(0)

    asyncio.run(read())


def test_generators_never_iterated(watch: Watch, chain: Any) -> None:
    """A stream that was never begun is no request."""
    chain.stream("who?", config=watch.config)
    chain.astream("who?", config=watch.config)
    gc.collect()

    assert watch.results == []


@expect(question="who?", status="cancelled", contexts=None)
def test_cancelled_while_retrieving(watch: Watch) -> None:
    """The retriever run never ends, the request does: cancelled, contexts not known."""

    async def call() -> None:
        entered = asyncio.Event()
        chain = lcel(HangingRetriever(entered=entered))
        task = asyncio.ensure_future(chain.ainvoke("who?", config=watch.config))
        await entered.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(call())
    assert [retrieval.error_type for retrieval in watch.only.run.retrievals] == ["CancelledError"]


@expect(status="cancelled")
def test_events_stream_broken_off(watch: Watch, chain: Any) -> None:
    """``astream_events`` left early is cancelled."""

    async def read() -> None:
        stream = chain.astream_events("who?", config=watch.config, version="v2")
        async for event in stream:
            if event["event"] == "on_retriever_end":
                break
        await stream.aclose()

    asyncio.run(read())


@expect(status="error", texts=["doc-a"])
def test_a_branch_that_outlives_its_request_is_no_request(watch: Watch) -> None:
    """asyncio goes on with the other branches when one has failed; they start runs all the same."""
    ended, finished = asyncio.Event(), asyncio.Event()
    retriever = FixedRetriever(found=docs("late"))

    async def slow(question: str) -> Any:
        await ended.wait()
        found = await (RunnableLambda(lambda x: x) | retriever).ainvoke(question)
        finished.set()
        return found

    async def quick(question: str) -> Any:
        await FixedRetriever(found=docs("a")).ainvoke(question)
        raise ValueError("quick end")

    async def call() -> None:
        chain = RunnableParallel(slow=RunnableLambda(slow), quick=RunnableLambda(quick))
        with pytest.raises(ValueError, match="quick end"):
            await chain.ainvoke("who?", config=watch.config)
        ended.set()
        await asyncio.wait_for(finished.wait(), 60)

    asyncio.run(call())


@expect(status="error")
def test_system_exit_passes_through(watch: Watch) -> None:
    """Stopping the process is the host's decision; the request is an error."""

    def leave(_: Any) -> Any:
        raise SystemExit(3)

    chain = FixedRetriever(found=docs("a")) | RunnableLambda(leave)
    with pytest.raises(SystemExit):
        chain.invoke("who?", config=watch.config)


@expect(question="who?", answer=None, status="retrieval_only")
def test_retrieval_without_any_answer(watch: Watch) -> None:
    """A chain that only retrieves and formats asks for no answer."""
    (FixedRetriever(found=docs("a", "b")) | joined).invoke("who?", config=watch.config)


@expect(answer=None, status="no_answer")
def test_model_that_says_nothing(watch: Watch) -> None:
    """An empty answer is none."""

    class Silent(TellingModel):
        def _reply(self, messages: Any) -> str:
            return ""

    lcel(FixedRetriever(found=docs("a")), Silent()).invoke("who?", config=watch.config)


@expect(answer="an answer of its own", status="ok")
def test_model_called_without_langchain(watch: Watch) -> None:
    """A function that calls another client's model still gives the answer."""
    chain = (
        {"context": FixedRetriever(found=docs("a")) | joined, "question": lambda q: q}
        | PROMPT
        | (lambda prompt: "an answer of its own")
    )
    chain.invoke("who?", config=watch.config)


def test_streams_kept_open_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """opik#7516: streams begun and never read again are forgotten beyond a number, and counted."""
    watch = Watch()
    attached = watch.handler._attachment
    assert attached is not None
    monkeypatch.setattr(attached.requests, "_max_requests", 10)
    chain = lcel(FixedRetriever(found=docs("a")))
    streams = [chain.stream("who?", config=watch.config) for _ in range(25)]
    for stream in streams:
        next(stream)

    assert watch.handler.open_requests == 10
    assert watch.meter.stats().dropped == {"evicted": 15}
    for stream in streams:
        stream.close()
    assert watch.state == 0
    assert len(watch.samples) == 10
    watch.close()


def test_a_request_of_very_many_runs_stays_small(watch: Watch, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs that have ended are forgotten while a long request goes on."""
    monkeypatch.setattr(runs, "MAX_LIVE_RUNS", 50)
    attached = watch.handler._attachment
    assert attached is not None
    step = RunnableLambda(lambda x: x)
    most = 0

    def many(question: str) -> str:
        nonlocal most
        retriever = FixedRetriever(found=docs("a"))
        for _ in range(500):
            step.invoke(question)
            most = max(most, len(attached.runs))
        return TellingModel().invoke(joined(retriever.invoke(question))).content

    RunnableLambda(many).invoke("who?", config=watch.config)

    assert most <= 52
    assert watch.sample.answer == "saw doc-a"


@pytest.mark.contains_errors
def test_a_handler_that_fails_inside_changes_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Every event raising: the chain's outcome is the same, and each kind is logged once."""
    from ragmeter.adapters.langchain import _events as adapter

    def explode(*args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("a bug of ours")

    watch = Watch()
    for name in ("_retriever_started", "_note_inputs", "snapshot_documents", "LlmNote", "end_request"):
        monkeypatch.setattr(adapter, name, explode)
    chain = lcel(FixedRetriever(found=docs("a")))
    outcomes = [chain.invoke("who?", config=watch.config) for _ in range(50)]

    assert outcomes == ["saw doc-a"] * 50
    ours = [record for record in caplog.records if record.name == "ragmeter"]
    assert 1 <= len(ours) <= 4
    assert not [r for r in caplog.records if "Error in RagMeterCallbackHandler" in r.getMessage()]
    watch.close()
