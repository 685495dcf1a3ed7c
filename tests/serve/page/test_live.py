"""The stream that tells open pages that something came."""

import asyncio

from frozen_page import FrozenReader
from starlette.requests import Request

from ragmeter.serve.page import _live
from ragmeter.serve.page._live import Live


def request(query=""):
    return Request({"type": "http", "query_string": query.encode(), "headers": []})


async def events(live, most, query=""):
    """Return the first pieces of a new stream."""
    response = await live.endpoint(request(query))
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

    assert pieces == ["retry: 5000\n\n", "event: changed\ndata: 2\n\n", "event: changed\ndata: 3\n\n"]
    assert reader.asked == []


def test_what_came_since_the_page_was_made_is_said_at_once(monkeypatch):
    monkeypatch.setattr(_live, "BEAT_S", 0.0)
    live = Live(lambda: 7, lambda: False)

    assert asyncio.run(events(live, 2, "since=6"))[1] == "event: changed\ndata: 7\n\n"
    assert asyncio.run(events(live, 2, "since=7"))[1] == ": still here\n\n"
    assert asyncio.run(events(live, 2, "since=six"))[1] == ": still here\n\n"


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
        first = await live.endpoint(request())
        await anext(first.body_iterator)
        refused = (await live.endpoint(request())).status_code
        await first.body_iterator.aclose()
        return refused, (await live.endpoint(request())).status_code

    assert asyncio.run(two()) == (503, 200)
