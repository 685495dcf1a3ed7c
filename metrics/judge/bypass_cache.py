"""Bypasses a judge's cache: calls inside `bypassing_cache` neither read nor write it.

For checks of whether the judge still gives the same answers.  A judge with a cache reads `is_cache_bypassed`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_bypassed: ContextVar[bool] = ContextVar("ragmeter_bypassing_cache", default=False)


@contextmanager
def bypassing_cache() -> Iterator[None]:
    """Bypass the judge's cache in this context, for reading and writing."""
    token = _bypassed.set(True)
    try:
        yield
    finally:
        _bypassed.reset(token)


def is_cache_bypassed() -> bool:
    """Return whether the cache is bypassed in this context."""
    return _bypassed.get()
