"""A circuit breaker: do not call a judge that keeps failing, and probe it from time to time.

The endpoint consults it before each call and reports the outcome. It knows failure classes, not HTTP; it
never sleeps and holds its lock only for arithmetic.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from ragmeter.metrics._process import fork

from .protocol import JudgeError

logger = logging.getLogger("ragmeter.judge")

_LONGEST_PAUSE_S = 600.0


class CircuitBreaker:
    """Closed: calls go through. Open: refused at once. Half-open: one probe at a time decides.

    Args:
        name: The name of the protected component in the log; `whose` is its kind.
        threshold: Consecutive failures that open it.
        pause_s: Seconds until the first probe; doubled after each probe that fails, up to ten minutes.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        name: str,
        threshold: int = 5,
        pause_s: float = 30.0,
        clock: Callable[[], float] = time.monotonic,
        whose: str = "judge",
    ) -> None:
        self._name = f"{whose} {name}"
        self._whose = whose
        self._threshold = threshold
        self._first_pause_s = pause_s
        self._clock = clock
        self._lock = fork.lock()
        self._failures = 0
        self._pause_s = pause_s
        self._open_until: float | None = None
        self._probing = False
        self._cause = ""

    def admit(self) -> None:
        """Let a call through, or refuse it.

        Raises:
            JudgeError: The circuit is open; ``error_type`` is that of the failure that opened it.
        """
        with self._lock:
            if self._open_until is None:
                return
            if self._clock() >= self._open_until and not self._probing:
                self._probing = True
                return
            cause = self._cause
        raise JudgeError(f"the {self._whose} is not asked for now, after: {cause}", cause)

    def record_success(self) -> None:
        """Record a call that was answered; closes the circuit."""
        with self._lock:
            recovered = self._open_until is not None
            self._failures = 0
            self._pause_s = self._first_pause_s
            self._open_until = None
            self._probing = False
        if recovered:
            logger.warning("the %s answers again", self._name)

    def record_failure(self, error_type: str, message: str, *, fatal: bool = False) -> None:
        """Record a call that finally failed; `fatal` opens the circuit at once."""
        with self._lock:
            self._failures += 1
            was_open = self._open_until is not None
            if was_open and not self._probing:
                return  # a call that began before the circuit opened
            if not (fatal or was_open or self._failures >= self._threshold):
                return
            if was_open:
                self._pause_s = min(self._pause_s * 2, _LONGEST_PAUSE_S)
            pause_s = self._pause_s
            self._open_until = self._clock() + pause_s
            self._probing = False
            announce = not was_open or self._cause != error_type
            self._cause = error_type
        if announce:
            logger.error(
                "the %s is not asked any more: %s. Its metrics have no value (judge_error, or "
                "metric_error); it is tried again in %g s.",
                self._name,
                message,
                pause_s,
            )

    def record_abandonment(self) -> None:
        """Record that an admitted call was given up before it had an outcome."""
        with self._lock:
            self._probing = False
