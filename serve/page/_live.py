"""``/live``: notifies open pages of new requests by server-sent events, empty and at most once a second."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from ragmeter.serve.store import UnreadableStoreError

from ._rendering import PAGE_HEADERS

MOST_OPEN = 32
"""Most open streams; a page without one is updated by reloading it."""
BEAT_S = 1.0
SIGN_OF_LIFE_BEATS = 15


class Live:
    """The streams.

    Args:
        revision: Returns a number that grows with every write to the store.
        ended: Returns whether the server is ending; streams then end, so that it need not wait for them.
    """

    def __init__(self, revision: Callable[[], int], ended: Callable[[], bool]) -> None:
        self._revision = revision
        self._ended = ended
        self._open = 0

    async def endpoint(self, request: Request) -> Response:
        """Open a stream; ``since``: the revision that the page shows, so that nothing after it is missed."""
        if self._open >= MOST_OPEN or self._ended():
            return Response(status_code=503, headers=PAGE_HEADERS)
        return StreamingResponse(
            self._events(request.query_params.get("since", "")),
            media_type="text/event-stream",
            headers=PAGE_HEADERS,
        )

    async def _events(self, since: str) -> AsyncIterator[str]:
        self._open += 1
        try:
            seen = int(since[:20]) if since.isdecimal() else await self._now(0)
            yield "retry: 5000\n\n"
            beats = 0
            while not self._ended():
                await asyncio.sleep(BEAT_S)
                beats += 1
                now = await self._now(seen)
                if now != seen:
                    seen = now
                    yield f"event: changed\ndata: {now}\n\n"
                elif beats % SIGN_OF_LIFE_BEATS == 0:
                    yield ": still here\n\n"
        finally:
            self._open -= 1

    async def _now(self, seen: int) -> int:
        """Return the store's revision; while it cannot be read, the last known one."""
        try:
            return await asyncio.to_thread(self._revision)
        except UnreadableStoreError:
            return seen
