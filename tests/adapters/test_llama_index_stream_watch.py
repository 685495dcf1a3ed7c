"""The stream proxy by itself, without LlamaIndex: transparent, told once, bounded."""

from __future__ import annotations

import asyncio
import gc
import inspect
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterator
from typing import Any

import pytest
import wrapt
from hypothesis import given
from hypothesis import strategies as st

from ragmeter.adapters.llama_index import _streams
from ragmeter.adapters.llama_index._streams import StreamedText, watch


class Ends:
    """Collects how streams ended."""

    def __init__(self) -> None:
        self.seen: list[tuple[str | None, str, str | None]] = []

    def watch(self, stream: Any) -> Any:
        return watch(
            stream,
            StreamedText(lambda t: self.seen.append((t.status, t.take(), t.error_type))),
        )


def words(*items: Any) -> Generator[Any, Any, str]:
    for item in items:
        if isinstance(item, BaseException):
            raise item
        yield item
    return "return value"


async def awords(*items: Any) -> AsyncGenerator[Any, Any]:
    for item in items:
        await asyncio.sleep(0)
        if isinstance(item, BaseException):
            raise item
        yield item


@given(st.lists(st.text(max_size=5), max_size=20), st.integers(0, 25))
def test_reader_gets_every_item_and_the_text_is_what_went_by(items: list[str], stop: int) -> None:
    """For any items and any place to stop: nothing added, lost or reordered."""
    ends = Ends()
    stream = ends.watch(words(*items))
    got = []
    for item in stream:
        got.append(item)
        if len(got) > stop:
            break
    else:
        stop = len(items)
    assert got == items[: stop + 1]
    stream.close()
    finished = len(got) == len(items) and stop == len(items)

    assert ends.seen == [("ok" if finished else "partial", "".join(got), None)]


def test_looks_like_the_generator() -> None:
    """Type checks, identity for tables, and attributes."""
    inner, ends = words("a"), Ends()
    stream = ends.watch(inner)

    assert inspect.isgenerator(stream)
    assert isinstance(stream, Generator)
    assert isinstance(stream, Iterator)
    assert stream == inner
    assert hash(stream) == hash(inner)
    assert stream.gi_code is inner.gi_code
    assert inspect.isasyncgen(ends.watch(awords("a")))
    assert isinstance(ends.watch(awords("a")), AsyncIterator)


def test_return_value_send_and_throw() -> None:
    """The generator protocol goes through."""
    ends = Ends()

    def outer() -> Any:
        result = yield from ends.watch(words("a"))
        yield result

    assert list(outer()) == ["a", "return value"]

    def echo() -> Generator[Any, Any, None]:
        got = yield "first"
        try:
            yield got
        except KeyError:
            yield "caught"

    stream = ends.watch(echo())
    assert [stream.send(None), stream.send("sent"), stream.throw(KeyError())] == [
        "first",
        "sent",
        "caught",
    ]
    assert list(stream) == []
    assert ends.seen == [("ok", "a", None), ("ok", "firstsentcaught", None)]


def test_errors_are_the_same_objects() -> None:
    """What the generator raises is raised, and told."""
    error, ends = OSError("gone"), Ends()
    with pytest.raises(OSError) as caught:
        list(ends.watch(words("a", error)))

    assert caught.value is error
    assert ends.seen == [("error", "a", "OSError")]


def test_end_is_told_once() -> None:
    """Reading on, closing and dropping after the end change nothing."""
    ends = Ends()
    stream = ends.watch(words("a"))
    list(stream)
    list(stream)
    stream.close()
    del stream
    gc.collect()

    assert ends.seen == [("ok", "a", None)]


def test_dropped_unread_and_half_read() -> None:
    """Garbage collection ends a stream as partial, also in a reference cycle."""
    ends = Ends()
    ends.watch(words("a"))
    stream = ends.watch(words("a", "b"))
    next(stream)
    cycle: list[Any] = [stream]
    cycle.append(cycle)
    del stream, cycle
    gc.collect()

    assert sorted(ends.seen) == [("partial", "", None), ("partial", "a", None)]


def test_async_generator_protocol() -> None:
    """Items, asend, athrow, aclose, errors and cancellation."""
    ends = Ends()

    async def main() -> None:
        assert [item async for item in ends.watch(awords("a", "b"))] == ["a", "b"]
        stream = ends.watch(awords("a", "b"))
        assert await stream.asend(None) == "a"
        await stream.aclose()
        with pytest.raises(KeyError):
            await ends.watch(awords("a")).athrow(KeyError())
        with pytest.raises(OSError):
            [item async for item in ends.watch(awords("a", OSError()))]

        stuck = ends.watch(awords("a", "b", "c"))
        await stuck.__anext__()
        task = asyncio.ensure_future(stuck.__anext__())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())

    assert ends.seen == [
        ("ok", "ab", None),
        ("partial", "a", None),
        ("error", "", "KeyError"),
        ("error", "a", "OSError"),
        ("cancelled", "a", None),
    ]


def test_chat_responses_give_their_delta() -> None:
    """Objects with ``delta``; others, and None, add nothing."""

    class Chunk:
        def __init__(self, delta: Any) -> None:
            self.delta = delta

    ends = Ends()
    list(ends.watch(words(Chunk("a"), Chunk(None), Chunk("b"), 3)))

    assert ends.seen == [("ok", "ab", None)]


def test_endless_stream_is_kept_up_to_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory stays bounded, and a cut text is never reported as the finished answer."""
    monkeypatch.setattr(_streams, "MAX_CHARACTERS", 10)
    ends = Ends()
    assert len(list(ends.watch(words(*["abcd"] * 100)))) == 100

    ((status, text, _),) = ends.seen
    assert status == "partial"
    assert len(text) < 20


def test_proxies_with_the_methods_of_both_kinds_are_what_they_wrap() -> None:
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

    async def read() -> list[Any]:
        return [item async for item in ends.watch(Both(awords("b")))]

    ends = Ends()
    assert list(ends.watch(Both(words("a")))) == ["a"]
    assert asyncio.run(read()) == ["b"]
    assert ends.seen == [("ok", "a", None), ("ok", "b", None)]
