"""Returns freed memory to the system, where the C library supports that: a regular task of `Upkeep`.

glibc keeps the memory of a large answer or a burst of requests, in every thread's arena, for as long as
anything above it is in use: some 10 MB after a list of 500 requests. With other C libraries or allocators,
nothing happens.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache


def give_back_freed() -> bool:
    """Return unused whole pages to the system; return whether there were any.

    It takes milliseconds, without the interpreter's lock.
    """
    trim = _trim()
    return trim is not None and bool(trim(0))


@cache
def _trim() -> Callable[[int], int] | None:
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError, TypeError):  # not in musl, macOS, Windows
        return None
    trim.argtypes, trim.restype = (ctypes.c_size_t,), ctypes.c_int
    found: Callable[[int], int] = trim
    return found
