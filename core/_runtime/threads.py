"""Starts threads where no lock is held and no garbage collection runs.

`threading` has locks of its own, and starting a thread waits until it runs.  A request may end
in a finalizer, on a thread that holds any lock just then, `threading`'s included: started from there,
a thread and its starter could wait for each other for ever.  So a bare thread, which holds nothing,
does the starting, and the request waits for a moment at most.
"""

from __future__ import annotations

import _thread
import sys
import threading
from collections.abc import Callable, Iterator

__all__ = ["Bell", "is_ending", "start_elsewhere", "taking"]

PATIENCE_S = 0.25
"""Seconds that a request waits for its meter's threads, at most. Usually it is a fifth of a millisecond."""


class Bell:
    """Wakes one thread up. Ringing never waits, so that a finalizer or a signal handler may do it."""

    __slots__ = ("_lock",)

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()

    def ring(self) -> None:
        """Wake up the thread that waits, or the next to wait."""
        try:
            self._lock.release()
        except RuntimeError:
            return  # it rings already

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until it rings or `timeout_s` seconds have passed; return whether it rang."""
        left_s = -1 if timeout_s is None else min(max(0.0, timeout_s), threading.TIMEOUT_MAX)
        return self._lock.acquire(timeout=left_s)


def taking(lock: threading.Lock | threading.RLock, left_s: float = 0.0) -> Iterator[bool]:
    """Return what acquires a lock as it is read, and then says so; empty where that takes too long.

    Ctrl-C may come right after `acquire`, when no one knows of it yet, and the lock would be held for good.
    Read into a deque, acquiring and knowing are one step of the interpreter's, as in `with lock`::

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

    The wait is for scripts whose main thread ends right after the request. On an event loop, which
    must never be blocked, there is none: a loop that runs is not about to end.

    Returns:
        Whether there was a thread for it: there is none at the process's limit, nor, since Python
        3.12, once the main thread has ended.
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
    if not _on_event_loop():
        started.wait(PATIENCE_S)
    return True


def _on_event_loop() -> bool:
    """Return whether an asyncio loop runs on this thread; loads nothing to find out."""
    asyncio = sys.modules.get("asyncio")
    return asyncio is not None and asyncio._get_running_loop() is not None  # noqa: SLF001 -- get_running_loop raises


def is_ending() -> bool:
    """Return whether the main thread has ended, and the process is about to."""
    return not threading.main_thread().is_alive()
