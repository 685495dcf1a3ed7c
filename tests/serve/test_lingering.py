"""A request that is refused before its body was read: what is left of it is received before the connection closes."""

import asyncio

import pytest

from ragmeter.serve._access import Access, guard_access
from ragmeter.serve._counts import Counts
from ragmeter.serve._limits import Limits
from ragmeter.serve._lingering import LingeringResponse


def events(application, body):
    """Return what an application does to a connection, in order."""
    done = []
    coming = list(body)

    async def receive():
        done.append("received")
        return coming.pop(0)

    async def send(message):
        done.append("more" if message.get("more_body", True) else "end")

    scope = {
        "type": "http",
        "method": "POST",
        "path": "/v1/traces",
        "scheme": "http",
        "query_string": b"",
        "headers": [(b"host", b"localhost"), (b"origin", b"null")],
    }
    asyncio.run(application(scope, receive, send))
    return done


PARTS = [{"type": "http.request", "more_body": True}, {"type": "http.request"}]


@pytest.mark.parametrize(
    "application",
    [
        guard_access(None, Access("127.0.0.1"), Counts(), Limits()),
        LingeringResponse("no", 413, {"Connection": "close"}),
    ],
)
@pytest.mark.parametrize(("body", "received"), [(PARTS, 2), (PARTS[1:], 1), ([{"type": "http.disconnect"}], 1)])
def test_a_refusal_is_not_lost_to_a_reset(application, body, received):
    assert events(application, body) == ["more", "more", *["received"] * received, "end"]
