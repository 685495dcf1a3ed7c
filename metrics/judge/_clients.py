"""The connections of one event loop, and how many calls may be under way at once.

`OpenAIJudge` keeps one of these per loop, because connections belong to the loop that opened them;
the endpoint takes a slot for as long as a call is on the wire, and for nothing else.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from ._transport import Wire

__all__ = ["LoopResources"]

_CALLS_PER_WIRE = 8
"""httpcore 1.0 looks at every pair of a pool's connections for each request: at 64 calls at once one
pool costs some 6 ms per call, pools of 8 a tenth of that."""

_LONGEST_GAP_S = 0.0015
"""Between two calls that go out, at most: about the CPU time that a call costs."""
_MEMORY = 16
"""Calls over which the usual duration is averaged."""


@dataclass(slots=True)
class _Lent:
    wire: Wire
    calls: int = 0
    """Calls under way through it."""


class LoopResources:
    """What belongs to one event loop: the connections, and how many calls may be under way.

    Args:
        concurrency: Calls on the wire at once.
        make_wire: Opens a client; called when the others are busy.

    Attributes:
        waiting_room: Held by the one call that watches a used-up budget for room; the others queue.
    """

    def __init__(self, concurrency: int, make_wire: Callable[[], Wire]) -> None:
        self._concurrency = concurrency
        self._slots = asyncio.Semaphore(concurrency)
        self._make_wire = make_wire
        self._lent: list[_Lent] = []
        self._usual_s = math.inf
        self._next_at = 0.0
        self.waiting_room = asyncio.Lock()

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[Wire]:
        """Wait for a slot and lend a wire; do nothing else while it is held."""
        async with self._slots:
            await self._gap()
            lent = next((one for one in self._lent if one.calls < _CALLS_PER_WIRE), None)
            if lent is None:
                lent = _Lent(self._make_wire())
                self._lent.append(lent)
            lent.calls += 1
            started = time.monotonic()
            try:
                yield lent.wire
            finally:
                lent.calls -= 1
                lasted_s = time.monotonic() - started
                if self._usual_s == math.inf:
                    self._usual_s = lasted_s
                self._usual_s += (lasted_s - self._usual_s) / _MEMORY

    async def _gap(self) -> None:
        """Keep calls a little apart that would go out together.

        Replies to calls that went out together come together, and the last of them is read when
        all the others have been; their successors go out together again, so that a wave, once there,
        stays, and slots stand empty while it is worked off. Half of the distance that calls
        have on average when all slots are taken cannot hold back the rate.
        """
        now = time.monotonic()
        at = max(now, self._next_at)
        self._next_at = at + min(self._usual_s / self._concurrency / 2, _LONGEST_GAP_S)
        if at > now:
            await asyncio.sleep(at - now)

    async def close(self) -> None:
        """Close all connections."""
        lent, self._lent = self._lent, []
        for one in lent:
            await one.wire.close()
