"""Connections over HTTP: each of their phases has a deadline, and who only waits makes room for who asks.

It stands between uvicorn and the network, before any request there is to be answered: a connection that says
nothing would otherwise stay for ever, and a few hundred of them would be everybody's 503.  uvicorn itself has
one deadline, between two requests, and refuses everyone beyond a number of connections, health included: 512
silent ones were enough.  What is read of its protocol (``cycle``, ``conn``, ``transport``) is not documented;
tests fail with a version that lacks it.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from ._counts import Counts
from ._limits import Limits

_BESIDE = 64
"""Connections beyond the limit, for those who ask for health while all others have requests under way."""
_AFTER_S = 10.0
"""Seconds after the deadline of a body, in which who receives it answers."""
_CHUNKS = 1_000
_CHUNK_BYTES = 64
"""A body may come in so many chunks, and one more for each so many bytes: each costs the time of all others."""


def connections(limits: Limits, counts: Counts) -> Any:
    """Return what uvicorn makes of each connection.

    Args:
        limits: How many there may be, and how long each phase may last.
        counts: Counts those that were closed: ``slow``, ``idle`` where others needed the room, ``crowded``, or
            ``tiny_chunks`` of which a body consisted.
    """
    return partial(_Connection, limits=limits, counts=counts, waiting=OrderedDict())


class _Connection(H11Protocol):
    """One connection. All of its methods run on the event loop."""

    def __init__(
        self,
        *given: Any,
        limits: Limits,
        counts: Counts,
        waiting: OrderedDict[_Connection, None],
        **named: Any,
    ) -> None:
        super().__init__(*given, **named)
        self.conn = _Parser(self.give_up)
        self._limits = limits
        self._counts = counts
        self._waiting = waiting
        """Connections without a request, those first that have waited longest."""
        self._phase: tuple[str, object] = ("", None)
        self._deadline: asyncio.TimerHandle | None = None
        self._is_writing = False

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._counts.open_connections += 1
        # What was written has left: else the last of an answer could wait for ever in our buffer.
        # Beyond 0 with TLS, of which an empty buffer that holds 0 at most is full for good.
        transport.set_write_buffer_limits(
            high=int(transport.get_extra_info("sslcontext") is not None)
        )
        self._look()
        excess = len(self.connections) - self._limits.connections
        if excess > 0:
            oldest = next(iter(self._waiting))
            if oldest is not self:
                oldest.give_up("idle")
            elif excess > _BESIDE:
                self.give_up("crowded")

    def connection_lost(self, exc: Exception | None) -> None:
        self._counts.open_connections -= 1
        self._waiting.pop(self, None)
        self._enter("", None)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._look(begun=True)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._look()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._is_writing = True
        self._look()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._is_writing = False
        self._look()

    def _look(self, *, begun: bool = False) -> None:
        """See which phase it is in; its time runs from when it began."""
        cycle: Any = self.cycle
        limits = self._limits
        idle = cycle is None or cycle.response_complete
        if idle and not self.transport.is_closing():
            self._waiting.setdefault(self)
        else:
            self._waiting.pop(self, None)
        if self._is_writing:
            self._enter("answer", None, limits.answer_s)
        elif cycle is not None and not idle:
            self._enter("body", cycle, limits.body_s + _AFTER_S if cycle.more_body else None)
        elif cycle is None or begun or self._has_more(cycle) or self._phase == ("headers", cycle):
            self._enter("headers", cycle, limits.header_s)
        else:
            self._enter("", None)  # between two requests: uvicorn's own time runs

    def _has_more(self, cycle: Any) -> bool:
        """Return whether part of a request has come: a body that is not all there, a beginning."""
        return bool(cycle.more_body or self.conn.trailing_data[0])

    def _enter(self, name: str, of: object, limit_s: float | None = None) -> None:
        same = self._phase == (name, of)
        if self._deadline is not None and not (same and limit_s is not None):
            self._deadline.cancel()
            self._deadline = None
        if limit_s is not None and (self._deadline is None or not same):
            self._deadline = self.loop.call_later(limit_s, self.give_up, "slow")
        self._phase = (name, of)

    def give_up(self, why: str) -> None:
        """Close the connection at once, and count why."""
        self._waiting.pop(self, None)
        if not self.transport.is_closing() or self._is_writing:
            self._counts.connection(why)
            self.transport.abort()


class _Parser(h11.Connection):
    """Parses the bytes that a connection receives.

    Args:
        give_up: Closes the connection, for a reason.
    """

    def __init__(self, give_up: Callable[[str], None]) -> None:
        super().__init__(h11.SERVER)
        self._give_up = give_up
        self._chunks = 0
        self._bytes = 0

    def next_event(self) -> Any:
        event = super().next_event()
        if isinstance(event, h11.Request):
            self._chunks = self._bytes = 0
        elif isinstance(event, h11.Data):
            self._chunks += 1
            self._bytes += len(event.data)
            if self._chunks > _CHUNKS + self._bytes // _CHUNK_BYTES:
                self._give_up("tiny_chunks")
                return h11.NEED_DATA
        return event
