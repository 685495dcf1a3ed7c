"""Looks after the store now and then: adds up hours that are over, makes room, and lets go of memory."""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager

from ._freed import give_back_freed
from .store import Store

__all__ = ["Upkeep"]

_EVERY_S = 15.0


class Upkeep:
    """A thread that does what there is to do, and then waits.

    Args:
        store: What is looked after.
        guard: Contains errors of ours.
    """

    def __init__(self, store: Store, guard: AbstractContextManager[None]) -> None:
        self._store = store
        self._guard = guard
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="ragmeter-store", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self, timeout_s: float) -> None:
        """End, within `timeout_s` seconds."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join(timeout_s)

    def _run(self) -> None:
        while not self._ended.is_set():
            more = False
            with self._guard:
                more = self._store.maintain()
                if not more:
                    give_back_freed()
            # Between two steps of much work those who write have their turn.
            self._ended.wait(0.05 if more else _EVERY_S)
