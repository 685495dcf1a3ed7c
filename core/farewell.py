"""Flushes every living meter when the interpreter is about to exit.

The order at exit matters: exit handlers run in reverse order of registration, and
a telemetry provider configured after the meter would be gone before it.  So a small
non-daemon thread waits for the main thread to end: Python joins such threads before it
runs any exit handler.  It starts with the first request, never at import, and never holds
the exit up for longer than a meter's ``shutdown_timeout_s``.
"""

from __future__ import annotations

import atexit
import os
import threading
import weakref
from typing import Protocol

__all__ = ["Flushable", "keep_watch"]


class Flushable(Protocol):
    """What is flushed at exit."""

    def farewell(self) -> None:
        """Flush within the configured deadline. Must not raise."""
        ...

    def depart(self) -> None:
        """End what would outlive this process's threads. Called last. Must not raise."""
        ...


class _Watch:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._watched: weakref.WeakSet[Flushable] = weakref.WeakSet()
        self._thread: threading.Thread | None = None

    def add(self, meter: Flushable) -> None:
        with self._lock:
            self._watched.add(meter)
            if self._thread is None:
                self._thread = threading.Thread(target=self._wait, name="ragmeter-farewell")
                self._thread.daemon = False
                try:
                    self._thread.start()
                except RuntimeError:
                    self._thread = None  # already exiting: the exit handler below is left

    def _wait(self) -> None:
        threading.main_thread().join()
        self.flush()

    def flush(self) -> None:
        for meter in tuple(self._watched):
            meter.farewell()

    def end(self) -> None:
        self.flush()
        for meter in tuple(self._watched):
            meter.depart()

    def reset_after_fork(self) -> None:
        self._lock = threading.Lock()
        self._thread = None


_watch = _Watch()
os.register_at_fork(after_in_child=_watch.reset_after_fork)
# For what was captured after the main thread ended, by threads that outlive it.
atexit.register(_watch.end)


def keep_watch(meter: Flushable) -> None:
    """Flush `meter` at exit, as long as somebody still holds it."""
    _watch.add(meter)
