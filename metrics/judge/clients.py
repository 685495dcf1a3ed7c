"""The connections of one event loop, and how many calls may be under way at once.

`OpenAIJudge` keeps one of these per loop, because connections belong to the loop that opened them;
the endpoint takes a slot for as long as a call is on the wire, and for nothing else.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from .wire import Wire

__all__ = ["LoopResources"]

_CALLS_PER_WIRE = 8
"""httpcore 1.0 looks at every pair of a pool's connections for each request: at 64 calls at once one
pool costs some 6 ms per call, pools of 8 a tenth of that."""


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
        self._slots = asyncio.Semaphore(concurrency)
        self._make_wire = make_wire
        self._lent: list[_Lent] = []
        self.waiting_room = asyncio.Lock()

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[Wire]:
        """Wait for a slot and lend a wire; do nothing else while it is held."""
        async with self._slots:
            lent = next((one for one in self._lent if one.calls < _CALLS_PER_WIRE), None)
            if lent is None:
                lent = _Lent(self._make_wire())
                self._lent.append(lent)
            lent.calls += 1
            try:
                yield lent.wire
            finally:
                lent.calls -= 1

    async def close(self) -> None:
        """Close all connections."""
        lent, self._lent = self._lent, []
        for one in lent:
            await one.wire.close()
