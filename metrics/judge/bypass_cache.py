"""Lets a judge be asked although it has answered before: what is asked inside `asking_anew` skips its cache.

For checks of whether the judge still answers as it did.  A judge that remembers answers reads `is_asked_anew`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

__all__ = ["asking_anew", "is_asked_anew"]

_anew: ContextVar[bool] = ContextVar("ragmeter_asking_anew", default=False)


@contextmanager
def asking_anew() -> Iterator[None]:
    """Have the judge neither look up answers nor remember them, for what is asked in this context."""
    token = _anew.set(True)
    try:
        yield
    finally:
        _anew.reset(token)


def is_asked_anew() -> bool:
    """Return whether answers are to be neither looked up nor remembered."""
    return _anew.get()
