"""Limits how often one request asks in halves after cut-off replies.

Replies of a model that repeats itself without end are always cut off, and each metric of a request asks it.
The caller that judges a request opens `one_request`; `Batching` reads `halving`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_MOST_CUT_OFF = 3
"""Most cut-off replies to halves until no more halves are asked."""


class Halving:
    """The state of one request's halves."""

    def __init__(self) -> None:
        self.cut_off = 0
        """Cut-off replies to halves."""
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
    """Return the state of the current request, or a new one if none was opened."""
    return _request.get() or Halving()
