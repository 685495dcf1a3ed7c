"""Remembers which requests were offered to a meter, so that a second handler passes over them."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ragmeter import RagMeter

__all__ = ["ReportedOnce", "reported_once"]

MAX_REMEMBERED = 1_000


class ReportedOnce:
    """The latest run ids that were offered. Thread-safe without a lock, also in finalizers."""

    def __init__(self) -> None:
        self._ids: dict[str, object] = {}

    def is_first(self, run_id: str) -> bool:
        """Tell whether `run_id` comes for the first time; remember it."""
        mine = object()
        if self._ids.setdefault(run_id, mine) is not mine:
            return False
        while len(self._ids) > MAX_REMEMBERED:
            for oldest in tuple(self._ids)[: MAX_REMEMBERED // 10]:
                self._ids.pop(oldest, None)
        return True


_by_meter: weakref.WeakKeyDictionary[RagMeter, ReportedOnce] = weakref.WeakKeyDictionary()


def reported_once(meter: RagMeter) -> ReportedOnce:
    """Return the memory that all handlers of `meter` share."""
    return _by_meter.setdefault(meter, ReportedOnce())
