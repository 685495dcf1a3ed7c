"""Gives memory that was freed back to the system, where the C library can: `Upkeep` asks for it now and then.

glibc keeps what a large answer or a burst of requests took, in every thread's arena, for as long as
anything above it lives: some 10 MB after a list of 500 requests.  Elsewhere, and with another allocator,
nothing happens.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache


def give_back_freed() -> bool:
    """Give back whole pages that hold nothing; return whether there were any.

    It takes milliseconds, and not the interpreter's lock.
    """
    trim = _trim()
    return trim is not None and bool(trim(0))


@cache
def _trim() -> Callable[[int], int] | None:
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError, TypeError):  # musl, macOS; Windows has no such library
        return None
    trim.argtypes, trim.restype = (ctypes.c_size_t,), ctypes.c_int
    found: Callable[[int], int] = trim
    return found
