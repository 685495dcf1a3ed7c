"""Objects that belong to one event loop, such as connections, tasks and futures."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar
from weakref import WeakKeyDictionary

from ragmeter.metrics._process import fork

T = TypeVar("T")


class PerLoop(Generic[T]):
    """One instance for each event loop. Thread-safe; a forked child starts without any."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._lock = fork.lock()
        self._forget()
        fork.forget(self._forget)  # loops and sockets of the parent stay with the parent

    def _forget(self) -> None:
        self._made: WeakKeyDictionary[asyncio.AbstractEventLoop, T] = WeakKeyDictionary()

    def here(self) -> T:
        """Return the running loop's instance, created on first use."""
        loop = asyncio.get_running_loop()
        with self._lock:
            made = self._made.get(loop)
            if made is None:
                made = self._made[loop] = self._make()
        return made

    def take(self) -> T | None:
        """Remove and return the running loop's instance, or None."""
        with self._lock:
            return self._made.pop(asyncio.get_running_loop(), None)
