"""A bounded queue, drained by one worker thread.

The meter has one for scoring and one per exporter, so that a hanging exporter blocks nothing else. Putting
never blocks: if a queue is full, by number or by bytes, the oldest item is dropped and reported. A queue
starts its thread with its first item, survives fork, and closes within a deadline. If no thread can be
started, because the main thread has ended, the thread that puts an item does the work.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from contextvars import copy_context
from itertools import islice
from typing import Any, Generic, TypeVar

from ragmeter.metrics._process import fork

from .guard import Guard
from .threads import Bell, is_ending, start_elsewhere, taking

T = TypeVar("T")

IDLE_S = 60.0
"""Seconds without work after which a worker ends; the next item starts another."""
LOOK_S = 1.0
"""Seconds between two checks of a thread that waits for an idle queue."""


class Errand:
    """A task for a worker after the first `until` items."""

    __slots__ = ("begun", "task", "until")

    def __init__(self, task: Callable[[], None], until: int) -> None:
        self.task = task
        self.until = until
        self.begun = False


class WorkerQueue(Generic[T]):
    """A bounded, drop-oldest queue with one daemon worker thread.

    Args:
        name: Name of the thread.
        work: Receives up to `max_batch` items at a time, on the worker thread.
        guard: Contains what `work` raises.
        on_drop: Called with each dropped item and the reason: ``queue_full`` or ``shutdown``. Called outside
            the lock, and again for the same item after an interrupt.
        on_start: Called once on a new worker thread, before its first item.
        tick: Called on the worker between batches and when idle; returns the seconds until its next call, or
            None.
        max_items: Most waiting items.
        max_bytes: Most waiting bytes, as given to `put`; one item is always accepted.
        max_batch: Most items per call of `work`.
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
        self._closed = False
        self._fresh()
        fork.forget(self._fresh)  # a forked child has no thread and no items
        fork.pause(self._before_fork, self._after_fork_in_parent)

    def _fresh(self) -> None:
        # No lock guards the items: a garbage collection may end a stream, and so put, on a thread that holds
        # any lock, and a signal handler may flush during a put. Each change is atomic; only byte counts may
        # be slightly off for a moment.
        self._items: deque[tuple[T, int]] = deque()
        self._errands: deque[Errand] = deque()
        self._bytes = 0
        self._gone = 0
        self._done_up_to = 0
        """Number of items taken out when the last batch was done."""
        self._working = 0
        # The thread that takes its item drops the excess; others leave it to that thread.
        self._turn = deque([True])
        self._bell = Bell()
        self._waiting = False
        self._flushing: list[Bell] = []
        # Held while there is a worker.
        self._manned = threading.Lock()
        # Held by the worker while it works, and by a thread that forks.
        self._gate = fork.Gate()
        self._busy = self._gate.lock

    def __len__(self) -> int:
        return len(self._items)

    @property
    def size_bytes(self) -> int:
        """Waiting bytes, as passed to `put`."""
        return self._bytes if self._items else 0

    @property
    def working(self) -> int:
        """Items in the current batch."""
        return self._working

    @property
    def is_alive(self) -> bool:
        """Whether there is a worker."""
        return self._manned.locked()

    def put(self, item: T, size_bytes: int = 0) -> None:
        """Add an item; drop the oldest if there are too many. Never blocks, never raises.

        May be called from anywhere: a finalizer, a signal handler, under any lock.
        """
        if self._closed:
            self._on_drop(item, "shutdown")
            return
        self._bytes += size_bytes
        self._items.append((item, size_bytes))
        if len(self._items) > 1 and self._is_too_much():
            self._drop_oldest()
        if self._closed:
            self._drop_all()  # closed meanwhile
        elif self._waiting:
            self._bell.ring()
        elif not self._manned.locked():
            self._engage()

    def start(self) -> None:
        """Start the worker, if there is none. The caller must hold no lock; see `start_elsewhere`."""
        manned = self._manned
        if self._closed or not manned.acquire(blocking=False):
            return
        thread = threading.Thread(target=self._run, args=(manned,), name=self._name, daemon=True)
        try:
            thread.start()
        except RuntimeError:
            # Too many threads, or the interpreter is ending: the items stay and are counted.
            manned.release()

    def errand(self, task: Callable[[], None]) -> Errand | None:
        """Queue `task` behind the items put so far; None: there is no worker."""
        if self._closed:
            return None
        errand = Errand(task, self._number_put())
        self._errands.append(errand)  # before looking for a worker: one that leaves looks once more
        self._bell.ring()
        if not self._manned.locked():
            self._engage()
            if not self._manned.locked() and _removed(self._errands, errand):
                return None
        return errand

    def postpone(self, errand: Errand) -> bool:
        """Move an errand behind the items put so far; return False if it has begun."""
        errand.until = self._number_put()  # before the check: the worker checks in reverse order
        return not errand.begun

    def flush(self, timeout_s: float) -> bool:
        """Wait until the items put so far are done; return whether they are.

        Does not wait for later items: a queue that is never empty would never be flushed.
        """
        deadline = time.monotonic() + timeout_s
        until = self._number_put()
        bell = Bell()
        try:
            self._flushing.append(bell)
            while self._done_up_to < until and not self._is_idle():
                if not self._manned.locked():
                    self._engage()
                    if self._is_idle():
                        break
                if self._waiting:
                    self._bell.ring()  # the last `put` may have been interrupted before this
                left_s = remaining(deadline)
                if not left_s:
                    return False
                bell.wait(min(left_s, LOOK_S))
            return True
        finally:
            with suppress(ValueError):
                self._flushing.remove(bell)

    def refuse(self) -> None:
        """Refuse new items; the worker ends after the waiting ones."""
        self._closed = True
        self._bell.ring()

    def close(self, timeout_s: float) -> bool:
        """Refuse new items, finish the rest within `timeout_s`, and drop what is left."""
        done = self.flush(timeout_s)
        self.refuse()
        self._drop_all()
        return done

    def _before_fork(self) -> None:
        # Between two batches: a worker forked during one may hold any lock, of an import, a library or a user's
        # metric, for which the child would wait for ever.
        if self.is_alive:
            self._gate.before_fork()

    def _after_fork_in_parent(self) -> None:
        self._gate.after_fork_in_parent()

    def _number_put(self) -> int:
        """Return the number of items put so far, or a few more."""
        # In this order: an item taken out in between counts twice rather than not at all. One more may be in
        # neither.
        return len(self._items) + self._gone + (1 if self._working else 0)

    def _is_idle(self) -> bool:
        # In the order in which an item passes them, so that none is missed.
        return not self._items and not self._working

    def _is_too_much(self) -> bool:
        waiting = len(self._items)
        return waiting > 1 and (waiting > self._max_items or self._bytes > self._max_bytes)

    def _drop_oldest(self) -> None:
        dropped: deque[tuple[T, int]] = deque()
        turn: deque[bool] = deque()
        try:
            try:
                # Again after releasing it: another thread may have put an item and left the excess to this one.
                while self._is_too_much() and _move_first(self._turn, turn):
                    while self._is_too_much() and self._pop_into(dropped):
                        pass
                    _move_first(turn, self._turn)
            finally:
                self._give_up(dropped, "queue_full", turn)
        finally:  # Ctrl-C may hit at any step, also within that clause
            self._give_up(dropped, "queue_full", turn)

    def _drop_all(self) -> None:
        dropped: deque[tuple[T, int]] = deque()
        try:
            while self._pop_into(dropped):
                self._give_up(dropped, "shutdown")
        finally:
            self._give_up(dropped, "shutdown")

    def _give_up(self, dropped: deque[tuple[T, int]], reason: str, turn: deque[bool] | None = None) -> None:
        """Release the turn, and report the dropped items."""
        if turn:
            _move_first(turn, self._turn)
        while dropped:
            self._on_drop(dropped[0][0], reason)
            dropped.popleft()

    def _pop_into(self, items: deque[tuple[T, int]]) -> bool:
        """Remove the oldest item; return whether there was one."""
        if not _move_first(self._items, items):
            self._bytes = 0
            return False
        self._bytes -= items[-1][1]
        self._gone += 1
        return True

    def _engage(self) -> None:
        """Ensure that there is a worker; work on this thread if there can be none."""
        if not self._closed and not start_elsewhere(self.start) and is_ending():
            manned, held = self._manned, deque[bool]()
            try:
                held.extend(taking(manned))
                if held:
                    copy_context().run(self._work_off)
            finally:
                if held:
                    manned.release()

    def _run(self, manned: threading.Lock) -> None:
        try:
            self._begin()
            while self._work_once(wait=True):
                pass
        finally:
            # Also if an exception ended this thread (SystemExit in a metric): waiting items must not depend
            # on the next `put`, which may still have seen this thread as alive.
            manned.release()
            if (self._items or self._errands) and not self._closed:
                self.start()

    def _work_off(self) -> None:
        """Work until the queue is empty, on a thread of the application."""
        self._begin()
        while not self._is_idle() and self._work_once(wait=False):
            pass

    def _begin(self) -> None:
        # Made by the waiting thread: a server may have turned threads into greenlets since the queue was
        # made, and an older lock would block all of them.
        self._bell = Bell()
        if self._on_start is not None:
            with self._busy, self._guard:
                self._on_start()

    def _work_once(self, *, wait: bool) -> bool:
        """Work on one batch; return whether there may be more."""
        busy = self._busy
        with busy:
            wait_s = self._idle()
        if wait and not self._await(wait_s) and not self._items and not self._errands:
            return False  # a worker without work keeps no meter alive that the application has left
        batch = self._take()
        if batch is None:
            return False
        try:
            if batch:
                with busy, self._guard:
                    self._work(batch)
        finally:
            del batch
            self._done_up_to = self._gone
            self._working = 0
            for bell in self._flushing.copy():
                bell.ring()
        return True

    def _idle(self) -> float | None:
        wait_s: float | None = None
        while self._errands and self._is_due(self._errands[0]):
            errand = self._errands.popleft()
            errand.begun = True
            if not self._is_due(errand):  # postponed meanwhile
                errand.begun = False
                self._errands.append(errand)
                continue
            with self._guard:
                errand.task()
        if self._tick is not None:
            with self._guard:
                wait_s = self._tick()
        return wait_s

    def _is_due(self, errand: Errand) -> bool:
        return errand.until <= self._gone or not self._items

    def _await(self, wait_s: float | None) -> bool:
        """Wait for work; return whether there may be some, now or at a known time."""
        rung = self._waiting = True  # before the check: a thread that puts an item now rings
        if not (self._items or self._errands or self._closed):
            rung = self._bell.wait(IDLE_S if wait_s is None else wait_s)
        self._waiting = False
        return rung or wait_s is not None

    def _take(self) -> list[T] | None:
        taken: deque[tuple[T, int]] = deque()
        self._working = 1  # before taking items out: `_is_idle` checks this last
        while len(taken) < self._max_batch and self._pop_into(taken):
            pass
        self._working = len(taken)
        return None if self._closed and not taken else [item for item, _ in taken]


def _removed(errands: deque[Errand], errand: Errand) -> bool:
    """Take an errand back; return False if a worker was faster."""
    try:
        errands.remove(errand)
    except ValueError:
        return False
    return True


def _move_first(source: deque[Any], to: deque[Any]) -> bool:
    """Move the first item to the end of another deque; return whether there was one.

    Atomic: an interrupt (Ctrl-C) finds it in one of the two.
    """
    try:
        to.extend(islice(iter(source.popleft, None), 1))
    except IndexError:
        return False
    return True


def remaining(deadline: float) -> float:
    """Seconds until `deadline` on the monotonic clock, at least 0."""
    return max(0.0, deadline - time.monotonic())
