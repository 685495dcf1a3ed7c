"""A bounded queue and the one thread that works it off.

The meter has one lane for scoring and one per exporter, so that a hanging
exporter stands in nobody's way.  Putting never blocks: when a lane is full, by number
or by bytes, the oldest item is dropped and said to be.  A lane starts its thread with
its first item, survives fork, and closes within a deadline.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from .guard import Guard

__all__ = ["Lane"]

T = TypeVar("T")


class Lane(Generic[T]):
    """A bounded, drop-oldest queue with one daemon worker thread.

    Args:
        name: Name of the thread.
        work: Receives up to `max_batch` items at a time, on the worker thread.
        guard: Contains what `work` raises.
        on_drop: Told of each item that was dropped and why: ``queue_full`` or ``shutdown``. Called
            outside the lock, on the thread that caused the drop.
        on_start: Called once on a new worker thread, before its first item.
        tick: Called on the worker whenever it has nothing to do and between batches; returns the
            seconds after which it wants to be called again, or None.
        max_items: At most so many items wait.
        max_bytes: At most so many bytes wait, as told by `put`; one item is always accepted.
        max_batch: Items per call of `work`.
    """

    def __init__(
        self,
        name: str,
        work: Callable[[Sequence[T]], None],
        *,
        guard: Guard,
        on_drop: Callable[[T, str], None],
        max_items: int,
        max_bytes: int,
        on_start: Callable[[], None] | None = None,
        tick: Callable[[], float | None] | None = None,
        max_batch: int = 1,
    ) -> None:
        self._name = name
        self._work = work
        self._guard = guard
        self._on_drop = on_drop
        self._on_start = on_start
        self._tick = tick
        self._max_items = max_items
        self._max_bytes = max_bytes
        self._max_batch = max_batch
        self._fresh()

    def _fresh(self) -> None:
        # Reentrant: a garbage collection inside `put` may finish a stream that puts, too.
        self._changed = threading.Condition(threading.RLock())
        self._items: deque[tuple[T, int]] = deque()
        self._errands: deque[Callable[[], None]] = deque()
        self._bytes = 0
        self._working = 0
        self._waiting = False
        self._closed = False
        self._thread: threading.Thread | None = None
        # Held by the worker while it works, and by a thread that forks.
        self._busy = threading.RLock()
        self._forking: set[int] = set()

    def __len__(self) -> int:
        return len(self._items)

    @property
    def size_bytes(self) -> int:
        """Bytes that wait, as told by `put`."""
        return self._bytes

    @property
    def is_alive(self) -> bool:
        """Whether the worker thread runs."""
        thread = self._thread
        return thread is not None and thread.is_alive()

    def put(self, item: T, size_bytes: int = 0) -> None:
        """Add an item; drop the oldest if that makes too many. Never blocks, never raises."""
        dropped: list[T] = []
        reason = "queue_full"
        with self._changed:
            if self._closed:
                dropped.append(item)
                reason = "shutdown"
            else:
                self._items.append((item, size_bytes))
                self._bytes += size_bytes
                while len(self._items) > 1 and (
                    len(self._items) > self._max_items or self._bytes > self._max_bytes
                ):
                    oldest, size = self._items.popleft()
                    self._bytes -= size
                    dropped.append(oldest)
                if not self.is_alive:
                    self._start()
                elif self._waiting:
                    self._changed.notify_all()
        for oldest in dropped:
            self._on_drop(oldest, reason)

    def start(self) -> None:
        """Start the worker before there is anything to do."""
        with self._changed:
            if not self._closed and not self.is_alive:
                self._start()

    def errand(self, task: Callable[[], None]) -> bool:
        """Have the worker do `task` between two batches; tell whether there is a worker to do it."""
        with self._changed:
            if self._closed or not self.is_alive:
                return False
            self._errands.append(task)
            self._changed.notify_all()
            return True

    def flush(self, timeout_s: float) -> bool:
        """Wait until nothing waits and nothing is being worked on; tell whether that came true."""
        with self._changed:
            return self._changed.wait_for(
                lambda: not self._items and not self._working, max(0.0, timeout_s)
            )

    def close(self, timeout_s: float) -> bool:
        """Refuse new items, work off the rest within `timeout_s`, drop what is left then."""
        done = self.flush(timeout_s)
        with self._changed:
            self._closed = True
            left = [item for item, _ in self._items]
            self._items.clear()
            self._bytes = 0
            self._changed.notify_all()
        for item in left:
            self._on_drop(item, "shutdown")
        return done

    def before_fork(self, deadline: float) -> None:
        """Wait until the worker is between two batches, until `deadline` (monotonic); keep it there.

        A worker caught in the middle of a batch may hold any lock: one of a module it imports just
        then, of a library, of a user's metric. The child would wait for it for ever.
        """
        if self.is_alive and self._busy.acquire(timeout=remaining(deadline)):
            self._forking.add(threading.get_ident())

    def after_fork_in_parent(self) -> None:
        """Let the worker go on."""
        if threading.get_ident() in self._forking:
            self._forking.discard(threading.get_ident())
            self._busy.release()

    def reset_after_fork(self) -> None:
        """Start again in a child process: no thread, no items; they are the parent's."""
        closed = self._closed
        self._fresh()
        self._closed = closed

    def _start(self) -> None:
        self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
        try:
            self._thread.start()
        except RuntimeError:
            # Too late in the interpreter's life for new threads: the items stay and are counted.
            self._thread = None

    def _run(self) -> None:
        try:
            self._work_until_closed()
        finally:
            # Also when something took this thread down (SystemExit in a metric): what waits must
            # not wait for the next item, whose `put` may still have seen this thread alive.
            with self._changed:
                if self._thread is threading.current_thread():
                    self._thread = None
                if self._items and not self._closed:
                    self._start()

    def _work_until_closed(self) -> None:
        busy = self._busy
        if self._on_start is not None:
            with busy, self._guard:
                self._on_start()
        while True:
            with busy:
                wait_s = self._idle()
            batch = self._take(wait_s)
            if batch is None:
                return
            try:
                if batch:
                    with busy, self._guard:
                        self._work(batch)
            finally:
                del batch
                with self._changed:
                    self._working = 0
                    self._changed.notify_all()

    def _idle(self) -> float | None:
        wait_s: float | None = None
        while self._errands:
            with self._guard:
                self._errands.popleft()()
        if self._tick is not None:
            with self._guard:
                wait_s = self._tick()
        return wait_s

    def _take(self, wait_s: float | None) -> list[T] | None:
        with self._changed:
            if not self._items and not self._errands and not self._closed:
                self._waiting = True
                self._changed.wait(wait_s)
                self._waiting = False
            if self._closed and not self._items:
                return None
            batch: list[T] = []
            while self._items and len(batch) < self._max_batch:
                item, size = self._items.popleft()
                self._bytes -= size
                batch.append(item)
            self._working = len(batch)
            return batch


def remaining(deadline: float) -> float:
    """Seconds until `deadline` on the monotonic clock, at least 0."""
    return max(0.0, deadline - time.monotonic())
