"""A judge's state per event loop: connections, slots and items being asked about.

`OpenAIJudge` has one for each loop; `Batching` and `Endpoint` use that of the loop they run on.
"""

from __future__ import annotations

import asyncio

from ragmeter.metrics._connection.wires import Caller, Wires

from .protocol import Answer, JudgeError

Flight = asyncio.Future[Answer | JudgeError | None]
"""An item that is being asked about: other asks about it wait for its answer. None: it was cancelled."""


class LoopResources(Wires):
    """Connections, slots and pending items of one event loop.

    Args:
        caller: Makes clients.
        concurrency: Calls on the wire at once.

    Attributes:
        flights: Items being asked about, by their keys in the cache.
        waiting_room: Held by the one call that watches a used-up budget for room; the others queue.
    """

    def __init__(self, caller: Caller, concurrency: int) -> None:
        super().__init__(caller, concurrency)
        self.flights: dict[bytes, Flight] = {}
        self.waiting_room = asyncio.Lock()
