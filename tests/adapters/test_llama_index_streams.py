"""Streaming query engines: the whole text is captured, and the caller notices nothing."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import inspect
import threading
from collections.abc import AsyncGenerator, Generator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import wrapt
from llama_index.core.base.response.schema import AsyncStreamingResponse, StreamingResponse
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index_fakes import QUESTION, ListRetriever, captured, engine_of, expect, ids, llm, nodes

from ragmeter.adapters.llama_index import _streams

ANSWER = "Paris is the answer."
WORDS = ["Paris", " is", " the", " answer."]


def engine(model: Any = None, **options: Any) -> Any:
    options.setdefault("streaming", True)
    return engine_of(model=model or llm(ANSWER), **options)


def test_stream_read_to_its_end() -> None:
    """Finished when the stream ends, by the stream alone (trulens#639, #341; mlflow#23797, #24480)."""
    with captured() as capture:
        response = engine().query(QUESTION)
        assert capture.runs == []
        assert list(response.response_gen) == WORDS
        scored = capture.only

    assert scored.sample.answer == ANSWER
    assert scored.sample.status == "ok"
    assert ids(scored) == ["paris", "rome"]


@expect(answer=ANSWER)
@pytest.mark.parametrize("way", ["str", "get_response", "print", "delegate"])
def test_every_way_of_reading_a_stream(way: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever reads the stream, the text is captured once and the caller gets all of it."""
    response = engine().query(QUESTION)
    if way == "str":
        got = str(response)
    elif way == "get_response":
        got = response.get_response().response
    elif way == "print":
        response.print_response_stream()
        got = capsys.readouterr().out
    else:

        def delegate() -> Generator[str, None, None]:
            yield from response.response_gen

        got = "".join(delegate())
    assert got == ANSWER


def test_caller_sees_the_same_objects_and_types() -> None:
    """The response, its generator's type, and its identity to other tools' tables are kept."""
    with captured():
        response = engine().query(QUESTION)
        stream = response.response_gen
        assert type(response) is StreamingResponse
        assert inspect.isgenerator(stream)
        assert isinstance(stream, Generator)
        assert iter(stream) is stream
        assert stream.gi_frame is not None
        list(stream)

        async def check() -> None:
            response = await engine().aquery(QUESTION)
            stream = response.response_gen
            assert type(response) is AsyncStreamingResponse
            assert inspect.isasyncgen(stream)
            assert isinstance(stream, AsyncGenerator)
            assert stream.__aiter__() is stream
            await stream.aclose()

        asyncio.run(check())


@expect(answer=ANSWER)
def test_stream_is_never_read_by_us() -> None:
    """Nothing is asked of the model before the caller asks (phoenix#1867, mlflow PR 12658)."""
    model = llm(ANSWER)
    response = engine(model).query(QUESTION)
    next(response.response_gen)
    taken = response.response_gen.gi_frame is not None
    rest = list(response.response_gen)
    assert taken
    assert rest == WORDS[1:]


@expect(answer="Paris", status="partial")
def test_abandoned_stream_is_partial_with_the_text_so_far() -> None:
    """Broken off after one word and dropped: never reported as a finished answer."""
    response = engine().query(QUESTION)
    for _ in response.response_gen:
        break
    del response
    gc.collect()


@expect(answer="Paris", status="partial")
def test_closed_stream_is_partial() -> None:
    """``close()`` breaks the stream off, and is passed on."""
    response = engine().query(QUESTION)
    next(response.response_gen)
    response.response_gen.close()
    assert list(response.response_gen) == []


@expect(answer=None, status="partial")
def test_stream_never_started_is_partial() -> None:
    """A stream that is not read ends when it is dropped."""
    engine().query(QUESTION)
    gc.collect()


def test_async_stream_dropped_or_closed_is_partial() -> None:
    """The same for async streams: dropped unread, broken off, closed."""

    async def main() -> None:
        await engine().aquery(QUESTION)
        response = await engine().aquery(QUESTION)
        async for _ in response.response_gen:
            break
        await response.response_gen.aclose()
        response = await engine().aquery(QUESTION)
        async for _ in response.async_response_gen():
            break
        del response
        gc.collect()
        await asyncio.sleep(0.01)

    with captured() as capture:
        asyncio.run(main())
        gc.collect()
        samples = [run.sample for run in capture.runs]

    assert {sample.status for sample in samples} == {"partial"}
    assert sorted(str(sample.answer) for sample in samples) == ["None", "Paris", "Paris"]
    assert capture.handler.open_entries == 0


@expect(answer="Paris is", status="error", error_type="ConnectionError")
def test_error_in_mid_stream_reaches_the_caller_unchanged() -> None:
    """A model that fails while streaming: same exception, status error, text so far."""
    error = ConnectionError("gone")
    response = engine(llm(ANSWER, fail_with=error, fail_after=2)).query(QUESTION)
    with pytest.raises(ConnectionError) as caught:
        list(response.response_gen)
    assert caught.value is error


def test_cancelled_async_stream() -> None:
    """A reader that is cancelled while waiting for a word."""

    async def main() -> None:
        response = await engine().aquery(QUESTION)
        started = asyncio.Event()

        async def read() -> None:
            async for _ in response.response_gen:
                started.set()
                await asyncio.sleep(0)

        task = asyncio.create_task(read())
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    with captured() as capture:
        asyncio.run(main())
        gc.collect()
        scored = capture.only

    assert scored.sample.status in ("cancelled", "partial")


def test_stream_read_in_another_thread_each_word_in_a_fresh_context() -> None:
    """What a web server does: every ``next`` on some pool thread in a new context.

    Others fail with "Token was created in a different Context" here (openinference#306,
    llama_index#16914, openllmetry#2394, langfuse#9198): we attach and detach none.
    """
    with captured() as capture, ThreadPoolExecutor(3) as pool:
        stream = engine().query(QUESTION).response_gen
        got = []
        while True:
            word = pool.submit(contextvars.Context().run, next, stream, None).result()
            if word is None:
                break
            got.append(word)

        assert got == WORDS
        assert capture.only.sample.answer == ANSWER


@expect(answer=ANSWER)
def test_stream_read_in_another_task_after_the_request_returned() -> None:
    """The reader need not be the asker."""

    async def main() -> str:
        response = await engine().aquery(QUESTION)

        async def read() -> str:
            return "".join([word async for word in response.async_response_gen()])

        return await asyncio.create_task(read())

    assert asyncio.run(main()) == ANSWER


def test_stream_open_while_other_requests_run_and_fail() -> None:
    """Requests made between two words are requests of their own."""
    with captured() as capture:
        outer = engine(llm("one two three")).query("outer")
        next(outer.response_gen)
        engine(streaming=False).query("inner")
        with pytest.raises(RuntimeError):
            engine_of(ListRetriever([], error=RuntimeError("down"))).query("failing")
        list(outer.response_gen)
        samples = {run.sample.question: run.sample.status for run in capture.runs}

    assert samples == {"inner": "ok", "failing": "error", "outer": "ok"}


def test_stream_survives_detaching() -> None:
    """A stream that is open when the handler is detached is captured to its end."""
    with captured() as capture:
        response = engine().query(QUESTION)
        capture.handler.detach()
        list(response.response_gen)

        assert capture.only.sample.answer == ANSWER


def test_empty_stream_of_an_empty_retrieval() -> None:
    """Streaming over nothing streams LlamaIndex's "Empty Response"."""
    with captured() as capture:
        response = engine_of([], streaming=True).query(QUESTION)
        got = str(response)
        scored = capture.only

    assert scored.sample.answer == got
    assert scored.sample.contexts == ()


@expect(status="error", error_type="KeyError")
def test_reader_that_sends_and_throws_into_the_stream() -> None:
    """``send`` and ``throw`` reach the generator; what it raises reaches the caller."""
    stream = engine().query(QUESTION).response_gen
    assert stream.send(None) == "Paris"
    with pytest.raises(KeyError):
        stream.throw(KeyError("mine"))


@expect(answer="Paris", status="error", error_type="KeyError")
def test_reader_that_sends_and_throws_into_an_async_stream() -> None:
    """``asend`` and ``athrow``, likewise."""

    async def read() -> None:
        stream = (await engine().aquery(QUESTION)).response_gen
        assert await stream.asend(None) == "Paris"
        with pytest.raises(KeyError):
            await stream.athrow(KeyError("mine"))

    asyncio.run(read())


def test_an_endless_stream_is_kept_up_to_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory stays bounded, and a cut text is never reported as the finished answer."""
    monkeypatch.setattr(_streams, "MAX_CHARACTERS", 10)
    with captured() as capture:
        assert len(list(engine(llm("abcd " * 100)).query(QUESTION).response_gen)) > 100
        scored = capture.only

    assert scored.sample.status == "partial"
    assert len(scored.sample.answer or "") < 20


@expect(answer=ANSWER, status="ok")
@pytest.mark.parametrize("is_async", [False, True])
def test_proxies_with_the_methods_of_both_kinds_are_what_they_wrap(is_async: bool) -> None:
    """openinference's stream proxy answers to ``__next__`` and ``__anext__``, whatever it wraps."""

    class Both(wrapt.ObjectProxy):
        def __iter__(self) -> Any:
            return self

        def __aiter__(self) -> Any:
            return self

        def __next__(self) -> Any:
            return self.__wrapped__.__next__()

        async def __anext__(self) -> Any:
            return await self.__wrapped__.__anext__()

    class Proxied(RetrieverQueryEngine):
        def query(self, str_or_query_bundle: Any) -> Any:
            response = super().query(str_or_query_bundle)
            response.response_gen = Both(response.response_gen)
            return response

        async def aquery(self, str_or_query_bundle: Any) -> Any:
            response = await super().aquery(str_or_query_bundle)
            response.response_gen = Both(response.response_gen)
            return response

    proxied = Proxied.from_args(ListRetriever(nodes()[:2]), llm=llm(ANSWER), streaming=True)

    async def read() -> list[str]:
        return [word async for word in (await proxied.aquery(QUESTION)).response_gen]

    words = asyncio.run(read()) if is_async else list(proxied.query(QUESTION).response_gen)

    assert words == WORDS


@expect(status="partial")
def test_dropped_streams_on_a_thread_that_ends() -> None:
    """A worker thread that dies with its stream half read leaves nothing open."""

    def work() -> None:
        next(engine().query(QUESTION).response_gen)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    gc.collect()
