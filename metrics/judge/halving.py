"""Limits how often one request asks in halves after replies that were cut off.

A model that repeats itself without end is always cut off, and each metric of a request asks it.  The caller
that judges a request opens `one_request`; `Batching` reads `halving`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

__all__ = ["Halving", "halving", "one_request"]

_MOST_CUT_OFF = 3
"""Replies to halves that may be cut off before no more of them is asked."""


class Halving:
    """The halves of one request."""

    def __init__(self) -> None:
        self.cut_off = 0
        """Replies to halves that were cut off."""
        self.turn = asyncio.Lock()
        """Serialises divided asks, so that each knows the cut-off replies before it."""

    @property
    def is_over(self) -> bool:
        """Whether no half remains to be asked."""
        return self.cut_off >= _MOST_CUT_OFF


_request: ContextVar[Halving | None] = ContextVar("ragmeter_halving", default=None)


@contextmanager
def one_request() -> Iterator[None]:
    """Count all asks in this context as one request."""
    token = _request.set(Halving())
    try:
        yield
    finally:
        _request.reset(token)


def halving() -> Halving:
    """Return that of the request; of its own, where none was opened."""
    return _request.get() or Halving()
