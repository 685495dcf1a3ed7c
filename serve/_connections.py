"""HTTP connections: each phase has a deadline, and idle connections make room for active ones.

The class is between uvicorn and the network, before there is any request to answer: a silent connection would
otherwise stay open for ever, and a few hundred of them would cause 503 for everyone. uvicorn itself has a
single deadline, between two requests, and refuses everyone beyond a number of connections, health checks
included: 512 silent ones were enough. The attributes read from its protocol (``cycle``, ``conn``,
``transport``) are not documented; tests fail with a version that lacks them.
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
"""Connections beyond the limit, for health checks while all others have requests in progress."""
_AFTER_S = 10.0
"""Seconds after the deadline of a body, in which its receiver sends the answer."""
_CHUNKS = 1_000
_CHUNK_BYTES = 64
"""Most chunks of a body, and bytes that allow one more chunk each: every chunk costs all other clients time."""


def connections(limits: Limits, counts: Counts) -> Any:
    """Return the factory of uvicorn's connections.

    Args:
        limits: Bounds the number of connections, and the time of each phase.
        counts: Counts closed connections: ``slow``, ``idle`` if others needed the room, ``crowded``, or
            ``tiny_chunks`` for a body in too many chunks.
    """
    return partial(_Connection, limits=limits, counts=counts, waiting=OrderedDict())


class _Connection(H11Protocol):
    """One connection. All of its methods run on the event loop."""

    def __init__(
        self, *given: Any, limits: Limits, counts: Counts, waiting: OrderedDict[_Connection, None], **named: Any
    ) -> None:
        super().__init__(*given, **named)
        self.conn = _Parser(self.give_up)
        self._limits = limits
        self._counts = counts
        self._waiting = waiting
        """Connections without a request, the longest waiting first."""
        self._phase: tuple[str, object] = ("", None)
        self._deadline: asyncio.TimerHandle | None = None
        self._is_writing = False

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._counts.open_connections += 1
        # Wait until all written data has left: otherwise the end of an answer could stay in this buffer for
        # ever.
        # Not 0 with TLS, whose empty buffer counts as full for ever if its limit is 0.
        transport.set_write_buffer_limits(high=int(transport.get_extra_info("sslcontext") is not None))
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

    def send_400_response(self, msg: str) -> None:
        is_tls = self.conn.trailing_data[0].startswith(b"\x16\x03")
        self._counts.export("tls_on_http" if is_tls else "no_http")
        how = (
            "This port has no TLS: use http://, or start with --tls-cert and --tls-key"
            if is_tls
            else "This port speaks HTTP/1.1: OTLP is posted to /v1/traces, the page is at /"
        )
        super().send_400_response(f"{msg} {how}\n")

    def pause_writing(self) -> None:
        super().pause_writing()
        self._is_writing = True
        self._look()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._is_writing = False
        self._look()

    def _look(self, *, begun: bool = False) -> None:
        """Determine the current phase; its deadline counts from its beginning."""
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
            self._enter("", None)  # between two requests: uvicorn's own deadline applies

    def _has_more(self, cycle: Any) -> bool:
        """Return whether a part of a request has arrived: an incomplete body or the beginning of a head."""
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
        """Close the connection at once, and count the reason."""
        self._waiting.pop(self, None)
        if not self.transport.is_closing() or self._is_writing:
            self._counts.connection(why)
            self.transport.abort()


class _Parser(h11.Connection):
    """Parses the bytes received on a connection."""

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
