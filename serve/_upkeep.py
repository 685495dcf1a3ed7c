"""Regular maintenance of store and spool: retries after failures, deletions, and the return of memory."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

from ._release_memory import give_back_freed

_EVERY_S = 15.0
_FIRST_S = 3.0
"""Seconds of delay at the start, so that viewers and senders come first."""


class Upkeep:
    """A thread that runs tasks regularly."""

    def __init__(self, tasks: Sequence[Callable[[], bool]], guard: AbstractContextManager[None]) -> None:
        self._tasks = tasks
        self._guard = guard
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="ragmeter-store", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self, timeout_s: float) -> None:
        """End, within `timeout_s` seconds."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join(timeout_s)

    def _run(self) -> None:
        self._ended.wait(_FIRST_S)
        while not self._ended.is_set():
            more = False
            for task in self._tasks:
                with self._guard:
                    more |= task()
            if not more:
                with self._guard:
                    give_back_freed()
            # Other writers get their turn between two steps of much work.
            self._ended.wait(0.05 if more else _EVERY_S)
