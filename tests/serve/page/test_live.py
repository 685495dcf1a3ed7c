"""The stream that tells open pages that something came."""

import asyncio

from frozen_page import FrozenReader

from ragmeter.serve.page import _live
from ragmeter.serve.page._live import Live


async def events(live, most):
    """Return the first pieces of a new stream."""
    response = await live.endpoint(None)
    pieces = []
    async for piece in response.body_iterator:
        pieces.append(piece)
        if len(pieces) == most:
            await response.body_iterator.aclose()
            break
    return pieces


def test_it_says_that_something_came_and_nothing_of_it(monkeypatch):
    monkeypatch.setattr(_live, "BEAT_S", 0.0)
    reader = FrozenReader()
    revisions = iter([1, 1, 2, 2, 3, 3, 3])
    live = Live(lambda: next(revisions), lambda: False)

    pieces = asyncio.run(events(live, 3))

    assert pieces == [
        "retry: 5000\n\n",
        "event: changed\ndata: 2\n\n",
        "event: changed\ndata: 3\n\n",
    ]
    assert reader.asked == []


def test_it_gives_a_sign_of_life(monkeypatch):
    monkeypatch.setattr(_live, "BEAT_S", 0.0)
    live = Live(lambda: 1, lambda: False)

    assert asyncio.run(events(live, 2))[1] == ": still here\n\n"


def test_it_ends_with_the_server(monkeypatch):
    monkeypatch.setattr(_live, "BEAT_S", 0.0)
    ended = iter([False, False, False, True])
    live = Live(lambda: 1, lambda: next(ended))

    assert asyncio.run(events(live, 99)) == ["retry: 5000\n\n"]


def test_streams_are_bounded_and_given_back(monkeypatch):
    monkeypatch.setattr(_live, "BEAT_S", 0.0)
    monkeypatch.setattr(_live, "MOST_OPEN", 1)

    async def two():
        live = Live(lambda: 1, lambda: False)
        first = await live.endpoint(None)
        await anext(first.body_iterator)
        refused = (await live.endpoint(None)).status_code
        await first.body_iterator.aclose()
        return refused, (await live.endpoint(None)).status_code

    assert asyncio.run(two()) == (503, 200)
