"""A bounded queue, drained by one worker thread.

The meter has one for scoring and one per exporter, so that a hanging exporter holds up
nothing else.  Putting never blocks: when a queue is full, by number or by bytes, the oldest item
is dropped and reported.  A queue starts its thread with
its first item, survives fork, and closes within a deadline.  When no thread can be started any more,
because the main thread has ended, the thread that puts an item does the work.
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

__all__ = ["Errand", "WorkerQueue"]

T = TypeVar("T")

LOOK_S = 1.0
"""Seconds between two looks of a thread that waits for a queue to be idle."""


class Errand:
    """What a worker does once it has worked off what had come.

    Args:
        task: It.
        until: How many items are to be gone before.
    """

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
        on_drop: Called with each item that was dropped and why: ``queue_full`` or ``shutdown``. Called
            outside the lock, and again for the same item where an interrupt came in between.
        on_start: Called once on a new worker thread, before its first item.
        tick: Called on the worker whenever it has nothing to do and between batches; returns the
            seconds after which it wants to be called again, or None.
        max_items: How many items may wait.
        max_bytes: How many bytes may wait, as given to `put`; one item is always accepted.
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
        self._closed = False
        self._fresh()
        fork.forget(self._fresh)  # in a child: no thread, no items; they are the parent's

    def _fresh(self) -> None:
        # No lock guards what waits: a garbage collection may end a stream, and so put, on a thread
        # that holds any lock, and a signal handler may flush on top of a put. What is done to it is
        # one step each; only numbers of bytes may be off by a little for a moment.
        self._items: deque[tuple[T, int]] = deque()
        self._errands: deque[Errand] = deque()
        self._bytes = 0
        self._gone = 0
        self._through = 0
        """How many had gone when the last batch was through."""
        self._working = 0
        # Who takes out what is in it may drop what is too much; the others leave it to them.
        self._turn = deque([True])
        self._bell = Bell()
        self._waiting = False
        self._flushing: list[Bell] = []
        # Held for as long as there is a worker.
        self._manned = threading.Lock()
        # Held by the worker while it works, and by a thread that forks.
        self._gate = fork.Gate()
        self._busy = self._gate.lock

    def __len__(self) -> int:
        return len(self._items)

    @property
    def size_bytes(self) -> int:
        """Bytes that wait, as given to `put`."""
        return self._bytes if self._items else 0

    @property
    def working(self) -> int:
        """Items that are being worked on."""
        return self._working

    @property
    def is_alive(self) -> bool:
        """Whether there is a worker."""
        return self._manned.locked()

    def put(self, item: T, size_bytes: int = 0) -> None:
        """Add an item; drop the oldest if that makes too many. Never blocks, never raises.

        It may be called from anywhere: a finalizer, a signal handler, below any lock.
        """
        if self._closed:
            self._on_drop(item, "shutdown")
            return
        self._bytes += size_bytes
        self._items.append((item, size_bytes))
        if self._is_too_much():
            self._drop_oldest()
        if self._closed:
            self._drop_all()  # closed this very moment
        elif self._waiting:
            self._bell.ring()
        elif not self._manned.locked():
            self._engage()

    def start(self) -> None:
        """Start the worker, if there is none. To be called below no lock; see `start_elsewhere`."""
        manned = self._manned
        if self._closed or not manned.acquire(blocking=False):
            return
        thread = threading.Thread(target=self._run, args=(manned,), name=self._name, daemon=True)
        try:
            thread.start()
        except RuntimeError:
            # Too many threads, or too late in the interpreter's life: the items stay and are counted.
            manned.release()

    def errand(self, task: Callable[[], None]) -> Errand | None:
        """Have the worker do `task` once what has come by now is worked off; None: there is no worker."""
        if not self._manned.locked():
            self._engage()
        if self._closed or not self._manned.locked():
            return None
        errand = Errand(task, self._come())
        self._errands.append(errand)
        self._bell.ring()
        return errand

    def postpone(self, errand: Errand) -> bool:
        """Have an errand done after what has come by now, too; return False where it has begun."""
        errand.until = self._come()  # before the look: the worker looks the other way round
        return not errand.begun

    def flush(self, timeout_s: float) -> bool:
        """Wait until what has come by now is worked off; return whether that came true.

        What comes meanwhile is not waited for, or a queue that is never empty would never be flushed.
        """
        deadline = time.monotonic() + timeout_s
        until = self._come()
        bell = Bell()
        try:
            self._flushing.append(bell)
            while self._through < until and not self._is_idle():
                if not self._manned.locked():
                    self._engage()
                    if self._is_idle():
                        break
                if self._waiting:
                    self._bell.ring()  # who put the last may have been interrupted before
                left_s = remaining(deadline)
                if not left_s:
                    return False
                bell.wait(min(left_s, LOOK_S))
            return True
        finally:
            with suppress(ValueError):
                self._flushing.remove(bell)

    def refuse(self) -> None:
        """Take no more items, and let the worker end when it is through with what is there."""
        self._closed = True
        self._bell.ring()

    def close(self, timeout_s: float) -> bool:
        """Refuse new items, work off the rest within `timeout_s`, drop what is left then."""
        done = self.flush(timeout_s)
        self.refuse()
        self._drop_all()
        return done

    def before_fork(self, deadline: float) -> None:
        """Wait until the worker is between two batches, until `deadline` (monotonic); keep it there.

        A worker caught in the middle of a batch may hold any lock: one of a module it imports just
        then, of a library, of a user's metric. The child would wait for it for ever.
        """
        if self.is_alive:
            self._gate.before_fork(remaining(deadline))

    def after_fork_in_parent(self) -> None:
        """Let the worker go on."""
        self._gate.after_fork_in_parent()

    def _come(self) -> int:
        """Return how many have come, or a few more."""
        # In this order: what is taken out in between is counted twice rather than not at all. One may be on its
        # way out, and in neither.
        return len(self._items) + self._gone + (1 if self._working else 0)

    def _is_idle(self) -> bool:
        # In the order in which an item passes them: it cannot slip by.
        return not self._items and not self._working

    def _is_too_much(self) -> bool:
        waiting = len(self._items)
        return waiting > 1 and (waiting > self._max_items or self._bytes > self._max_bytes)

    def _drop_oldest(self) -> None:
        dropped: deque[tuple[T, int]] = deque()
        turn: deque[bool] = deque()
        try:
            try:
                # Again after giving it back: another thread may have put something and left it to us.
                while self._is_too_much() and _move_first(self._turn, turn):
                    while self._is_too_much() and self._pop_into(dropped):
                        pass
                    _move_first(turn, self._turn)
            finally:
                self._give_up(dropped, "queue_full", turn)
        finally:  # Ctrl-C may come at any step, within that clause, too
            self._give_up(dropped, "queue_full", turn)

    def _drop_all(self) -> None:
        dropped: deque[tuple[T, int]] = deque()
        try:
            while self._pop_into(dropped):
                self._give_up(dropped, "shutdown")
        finally:
            self._give_up(dropped, "shutdown")

    def _give_up(
        self, dropped: deque[tuple[T, int]], reason: str, turn: deque[bool] | None = None
    ) -> None:
        """Give the turn back, and tell of what was dropped."""
        if turn:
            _move_first(turn, self._turn)
        while dropped:
            self._on_drop(dropped[0][0], reason)
            dropped.popleft()

    def _pop_into(self, items: deque[tuple[T, int]]) -> bool:
        """Take the oldest item out; return whether there was one."""
        if not _move_first(self._items, items):
            self._bytes = 0
            return False
        self._bytes -= items[-1][1]
        self._gone += 1
        return True

    def _engage(self) -> None:
        """See to it that there is a worker; work here and now when there can be none any more."""
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
            # Also when something took this thread down (SystemExit in a metric): what waits must
            # not wait for the next item, whose `put` may still have seen this thread alive.
            manned.release()
            if self._items and not self._closed:
                self.start()

    def _work_off(self) -> None:
        """Work until nothing waits, on a thread that is not ours."""
        self._begin()
        while not self._is_idle() and self._work_once(wait=False):
            pass

    def _begin(self) -> None:
        # Made again where it is waited for: a server may have turned threads into greenlets since
        # the queue was made, and a lock from before would stop all of them.
        self._bell = Bell()
        if self._on_start is not None:
            with self._busy, self._guard:
                self._on_start()

    def _work_once(self, *, wait: bool) -> bool:
        """Work one batch off; return whether there may be more to do."""
        busy = self._busy
        with busy:
            wait_s = self._idle()
        if wait:
            self._await(wait_s)
        batch = self._take()
        if batch is None:
            return False
        try:
            if batch:
                with busy, self._guard:
                    self._work(batch)
        finally:
            del batch
            self._through = self._gone
            self._working = 0
            for bell in self._flushing.copy():
                bell.ring()
        return True

    def _idle(self) -> float | None:
        wait_s: float | None = None
        while self._errands and self._is_due(self._errands[0]):
            errand = self._errands.popleft()
            errand.begun = True
            if not self._is_due(errand):  # postponed just now
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
        return errand.until <= self._gone or not len(self)

    def _await(self, wait_s: float | None) -> None:
        self._waiting = True  # before the look: a thread that puts something now rings
        if not (self._items or self._errands or self._closed):
            self._bell.wait(wait_s)
        self._waiting = False

    def _take(self) -> list[T] | None:
        taken: deque[tuple[T, int]] = deque()
        self._working = 1  # before anything is taken out: `_is_idle` looks at this last
        while len(taken) < self._max_batch and self._pop_into(taken):
            pass
        self._working = len(taken)
        return None if self._closed and not taken else [item for item, _ in taken]


def _move_first(source: deque[Any], to: deque[Any]) -> bool:
    """Move the first to the end of another; return whether there was one.

    It is one step of the interpreter's: an interrupt (Ctrl-C) finds it in one of the two.
    """
    try:
        to.extend(islice(iter(source.popleft, None), 1))
    except IndexError:
        return False
    return True


def remaining(deadline: float) -> float:
    """Seconds until `deadline` on the monotonic clock, at least 0."""
    return max(0.0, deadline - time.monotonic())
