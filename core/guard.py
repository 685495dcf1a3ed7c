"""The one place where ragmeter swallows an exception.

Everything of ours that runs inside the host application, on our worker threads
or at exit runs under a `Guard`: callbacks, scoring, exporters, shutdown.  A
guard contains `Exception` only, counts it by seam and logs it at most once per seam
and minute.  `BaseException` (KeyboardInterrupt, SystemExit, CancelledError)
passes through: stopping the process is the host's decision, not ours.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from types import TracebackType

__all__ = ["ErrorLog", "Guard", "OncePerMinute", "observed_errors"]

logger = logging.getLogger("ragmeter")

REPEAT_AFTER_S = 60.0
"""Seconds during which a second error of the same kind at the same seam is counted but not logged."""

_MAX_KINDS = 256

_observers: list[Callable[[str, Exception], None]] = []


@contextmanager
def observed_errors(observer: Callable[[str, Exception], None]) -> Iterator[None]:
    """Tell `observer` about every contained error within the block; ragmeter's own tests use it."""
    _observers.append(observer)
    try:
        yield
    finally:
        _observers.remove(observer)


class OncePerMinute:
    """Tells what may be logged: each kind at most once a minute. Thread-safe, bounded."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.RLock()
        self._logged: dict[Hashable, float] = {}

    def allows(self, kind: Hashable) -> bool:
        """Tell whether something of this kind may be logged now, and if so, remember it."""
        now = self._clock()
        with self._lock:
            last = self._logged.get(kind)
            if last is not None and now - last < REPEAT_AFTER_S:
                return False
            if len(self._logged) >= _MAX_KINDS:
                self._logged.clear()
            self._logged[kind] = now
            return True

    def reset_after_fork(self) -> None:
        """Replace the lock, which a thread of the parent may have held."""
        self._lock = threading.RLock()


class ErrorLog:
    """Counts contained errors by seam and logs each kind at most once a minute. Thread-safe."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._lock = threading.RLock()
        self._counts: Counter[str] = Counter()
        self._may_log = OncePerMinute(clock)

    @property
    def counts(self) -> dict[str, int]:
        """Contained errors so far, by seam."""
        with self._lock:
            return dict(self._counts)

    def report(self, seam: str, error: Exception) -> None:
        """Count `error`, and log it unless the same kind was logged a moment ago."""
        with self._lock:
            self._counts[seam] += 1
        if self._may_log.allows((seam, type(error).__name__)):
            logger.error(
                "ragmeter contained an error in %s: %s: %s. Your application is not affected; "
                "scores of this request may be missing. (further ones like it are counted, not "
                "logged, for %d s; traceback at DEBUG)",
                seam,
                type(error).__name__,
                error,
                int(REPEAT_AFTER_S),
            )
            logger.debug("traceback of the error in %s", seam, exc_info=error)
        for observer in tuple(_observers):
            observer(seam, error)

    def reset_after_fork(self) -> None:
        """Replace the locks, which a thread of the parent may have held."""
        self._lock = threading.RLock()
        self._may_log.reset_after_fork()


class Guard:
    """Contains any `Exception` raised in the block and reports it. Reusable and reentrant.

    Args:
        seam: Where we are, e.g. ``"langchain.on_retriever_end"``; a constant, as it becomes a
            metric attribute.
        log: Where the contained error is counted and logged.
    """

    __slots__ = ("_log", "_seam")

    def __init__(self, seam: str, log: ErrorLog) -> None:
        self._seam = seam
        self._log = log

    def __enter__(self) -> None:
        return None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        if not isinstance(error, Exception):
            return False
        self._log.report(self._seam, error)
        return True
