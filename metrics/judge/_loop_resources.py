"""A judge's state per event loop: connections, slots and pending items.

`OpenAIJudge` has one for each loop; `Batching` and `Endpoint` use the one of the loop they run on.
"""

from __future__ import annotations

import asyncio

from ragmeter.metrics._connection.wires import Caller, Wires

from .protocol import Answer, JudgeError

Flight = asyncio.Future[Answer | JudgeError | None]
"""A pending item: other asks about it wait for its answer. None: it was cancelled."""


class LoopResources(Wires):
    """Connections, slots and pending items of one event loop."""

    def __init__(self, caller: Caller, concurrency: int) -> None:
        super().__init__(caller, concurrency)
        self.flights: dict[bytes, Flight] = {}
        """Pending items, by their keys in the cache."""
        self.waiting_room = asyncio.Lock()
        """Held by the one call that watches a used-up budget for room; the others queue."""
