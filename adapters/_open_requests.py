"""Open requests: the bounded table of every adapter, and the rules for their ends.

Some requests never end: a stream that is not read, a callback the framework loses. `OpenRequests` drops the
oldest beyond a number, a size or an age, and reports it. It sweeps when a request is opened: no timer, no
thread. `ReportedOnce` stores which requests were offered to a meter, so that a second handler skips them;
`status_of_error` maps an exception to the status of a request; `scope_around` reads the settings of the code
around a request.
"""

from __future__ import annotations

import time
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Generic, TypeVar

from ragmeter._runtime.guard import Guard
from ragmeter.metrics._process import fork
from ragmeter.requests.scope import RequestScope, current_scope, parse_scope

if TYPE_CHECKING:
    from ragmeter import RagMeter


K = TypeVar("K", bound=Hashable)
R = TypeVar("R")

MAX_REQUESTS = 10_000
MAX_BYTES = 256 * 1024 * 1024
MAX_AGE_S = 15 * 60.0


class OpenRequests(Generic[K, R]):
    """Open requests by key, oldest first. Thread-safe; the lock is held for map updates only.

    Args:
        on_evict: Called with each request that was dropped before it ended, outside the lock.
        max_requests: Maximum number of requests.
        max_bytes: Maximum bytes of text that they may hold, as passed to `grow`.
        max_age_s: A request older than this is dropped.
        clock: Seconds on a monotonic clock.
    """

    def __init__(
        self,
        on_evict: Callable[[K, R], None],
        *,
        max_requests: int = MAX_REQUESTS,
        max_bytes: int = MAX_BYTES,
        max_age_s: float = MAX_AGE_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._on_evict = on_evict
        self._max_requests = max_requests
        self._max_bytes = max_bytes
        self._max_age_s = max_age_s
        self._clock = clock
        self._lock = fork.reentrant_lock()
        self._entries: OrderedDict[K, tuple[float, R]] = OrderedDict()
        self._sizes: dict[K, int] = {}
        self._bytes = 0
        fork.forget(self.clear)  # the parent's requests end in the parent

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: K) -> R | None:
        """Return the open request, or None. Lock-free: a dictionary look-up."""
        entry = self._entries.get(key)
        return None if entry is None else entry[1]

    def open(self, key: K, request: R) -> None:
        """Add a request and drop those that are too old or too many."""
        now = self._clock()
        evicted: list[tuple[K, R]] = []
        with self._lock:
            self._entries[key] = (now, request)
            while self._entries:
                oldest, (opened, old) = next(iter(self._entries.items()))
                if oldest == key or not (
                    len(self._entries) > self._max_requests
                    or self._bytes > self._max_bytes
                    or now - opened > self._max_age_s
                ):
                    break
                self.take(oldest)
                evicted.append((oldest, old))
        for old_key, old in evicted:
            self._on_evict(old_key, old)

    def grow(self, key: K, size_bytes: int) -> None:
        """Add to the bytes that an open request holds."""
        with self._lock:
            if key in self._entries:
                self._sizes[key] = self._sizes.get(key, 0) + size_bytes
                self._bytes += size_bytes

    def close(self, key: K) -> R | None:
        """Remove a request and return it, or None if it is not (or no longer) there."""
        taken = self.take(key)
        return None if taken is None else taken[0]

    def take(self, key: K) -> tuple[R, int] | None:
        """Remove a request and return it with the bytes it held, as passed to `grow`, or None."""
        with self._lock:
            entry = self._entries.pop(key, None)
            if entry is None:
                return None
            size_bytes = self._sizes.pop(key, 0)
            self._bytes -= size_bytes
            return entry[1], size_bytes

    def values(self) -> list[R]:
        """Return the open requests, oldest first."""
        with self._lock:
            return [request for _, request in self._entries.values()]

    def clear(self) -> None:
        """Drop all open requests, without calling `on_evict`."""
        with self._lock:
            self._entries.clear()
            self._sizes.clear()
            self._bytes = 0

    def size_bytes(self, key: K) -> int:
        """Return the bytes an open request holds, as passed to `grow`."""
        return self._sizes.get(key, 0)


MAX_REMEMBERED = 1_000


class ReportedOnce:
    """The latest run ids that were offered. Thread-safe without a lock, also in finalizers."""

    def __init__(self) -> None:
        self._ids: dict[str, object] = {}

    def is_first(self, run_id: str) -> bool:
        """Return whether `run_id` is new; store it."""
        mine = object()
        if self._ids.setdefault(run_id, mine) is not mine:
            return False
        while len(self._ids) > MAX_REMEMBERED:
            for oldest in tuple(self._ids)[: MAX_REMEMBERED // 10]:
                self._ids.pop(oldest, None)
        return True


_by_meter: weakref.WeakKeyDictionary[RagMeter, ReportedOnce] = weakref.WeakKeyDictionary()


def reported_once(meter: RagMeter) -> ReportedOnce:
    """Return the `ReportedOnce` that all handlers of `meter` share."""
    return _by_meter.setdefault(meter, ReportedOnce())


def scope_around(note: object, guard: Guard) -> RequestScope | None:
    """Return the settings for a request by the code around it, or None.

    Args:
        note: Its settings by the framework's own means (metadata, tags), which override those by ``with
            ragmeter.reference(...)`` and similar calls; None if it has none.
        guard: Contains a malformed note: only the note is lost, not the request.
    """
    around = current_scope()
    if note is None:
        return around
    parsed: RequestScope | None = None
    with guard:
        parsed = parse_scope(note)
    return around if parsed is None else parsed.merged_over(around)
