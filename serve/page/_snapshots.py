"""Cached views: one computation for all viewers, until new requests arrive, for two seconds at least."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from contextvars import ContextVar
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

LEAST_S = 2.0
"""Seconds for which a view is cached, whatever arrives."""
MOST_S = 30.0
"""Seconds after which it is computed again even without new requests, as its period has moved on."""
MOST_KEPT = 50
SHOWN: ContextVar[int] = ContextVar("shown")
"""The revision of the oldest view on the page in progress; `Pages` sets it for each page."""


class Snapshots:
    """Cached results, by query."""

    def __init__(self, revision: Callable[[], int], clock: Callable[[], float] = time.monotonic) -> None:
        self._revision = revision
        self._clock = clock
        self._kept: OrderedDict[Hashable, tuple[int, float, Any]] = OrderedDict()
        self._lock = threading.Lock()
        self._making: dict[Hashable, threading.Lock] = {}

    def get(self, read: Callable[P, T], /, *given: P.args, **named: P.kwargs) -> T:
        """Return the result of `read`, or a recent one; one thread at a time calls it with equal arguments."""
        key = (read, given, *sorted(named.items()))
        with self._lock:
            alone = self._making.setdefault(key, threading.Lock())
        with alone:
            found = self._fresh(key)
            if found is not None:
                value: T = found[2]
                _note_shown(found[0])
                return value
            revision = self._revision()
            made = read(*given, **named)
            _note_shown(revision)
            with self._lock:
                now = self._clock()
                self._kept[key] = (revision, now, made)
                self._kept.move_to_end(key)
                # The oldest entries come first, so expired ones are dropped from the front.
                while len(self._kept) > MOST_KEPT or now - next(iter(self._kept.values()))[1] > MOST_S:
                    self._making.pop(self._kept.popitem(last=False)[0], None)
            return made

    def _fresh(self, key: Hashable) -> tuple[int, float, Any] | None:
        with self._lock:
            found = self._kept.get(key)
        if found is None:
            return None
        age = self._clock() - found[1]
        if age <= LEAST_S or (age <= MOST_S and found[0] == self._revision()):
            return found
        return None


def _note_shown(revision: int) -> None:
    SHOWN.set(min(SHOWN.get(revision), revision))
