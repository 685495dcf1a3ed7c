"""Start threads without deadlocks from finalizers and under locks.

`threading` has its own locks, and starting a thread waits until it runs. A request may end in a finalizer, on
a thread that holds any lock, including `threading`'s: a thread started there and its starter could wait for
each other for ever. So a bare thread without locks starts it, and the request waits for a moment at most.
"""

from __future__ import annotations

import _thread
import sys
import threading
from collections.abc import Callable, Iterator

PATIENCE_S = 0.25
"""Longest wait of a request for its meter's threads, in seconds; usually 0.2 ms."""


class Bell:
    """Wakes up one thread. `ring` never waits, so that a finalizer or a signal handler may call it."""

    __slots__ = ("_lock",)

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()

    def ring(self) -> None:
        """Wake up the waiting thread, or the next one to wait."""
        try:
            self._lock.release()
        except RuntimeError:
            return  # already ringing

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until it rings or `timeout_s` seconds have passed; return whether it rang."""
        left_s = -1 if timeout_s is None else min(max(0.0, timeout_s), threading.TIMEOUT_MAX)
        return self._lock.acquire(timeout=left_s)


def taking(lock: threading.Lock | threading.RLock, left_s: float = 0.0) -> Iterator[bool]:
    """Return an iterator that acquires a lock as it is read and yields True; empty after a timeout.

    Ctrl-C may hit right after `acquire`, before its result is stored, and the lock would be held for good.
    Reading this into a deque acquires and stores in one step, as `with lock` does::

        held = deque()
        try:
            held.extend(taking(lock))
            if held: ...
        finally:
            if held:
                lock.release()

    Args:
        lock: A lock of Python's own.
        left_s: Seconds to wait for it.
    """
    patience = min(left_s, threading.TIMEOUT_MAX) if left_s > 0 else -1
    return filter(None, map(lock.acquire, (left_s > 0,), (patience,)))


def start_elsewhere(start: Callable[[], None]) -> bool:
    """Call `start`, which starts threads and must not raise, on a bare thread, and wait a moment for it.

    The wait is for scripts whose main thread ends right after the request. On an event loop, which must not
    be blocked and is not about to end, there is no wait.

    Returns:
        Whether a thread could be started: not at the process's limit, nor, since Python 3.12, after the main
        thread has ended.
    """
    started = Bell()

    def call() -> None:
        try:
            start()
        finally:
            started.ring()

    try:
        _thread.start_new_thread(call, ())
    except RuntimeError:
        return False
    asyncio = sys.modules.get("asyncio")  # not imported for this
    if asyncio is None or asyncio._get_running_loop() is None:  # noqa: SLF001 -- get_running_loop raises
        started.wait(PATIENCE_S)
    return True


def is_ending() -> bool:
    """Return whether the main thread has ended and the process is ending."""
    return not threading.main_thread().is_alive()
