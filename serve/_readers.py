"""The threads that decompress, parse and store the bodies of both protocols, with a time limit.

A sender whose body is not read in time is asked to retry later. A job in progress is still completed, as a
thread cannot be stopped; its spans are then known when they arrive again.
"""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from collections.abc import Callable
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as LateError
from contextlib import AbstractContextManager
from typing import TypeVar

from ragmeter.metrics import RagmeterError

from ._intake import BusyError
from ._limits import Limits

T = TypeVar("T")


class FailedError(RagmeterError):
    """A job failed by an error of the server's, which the guard has contained."""


class Readers:
    """Reads bodies. Thread-safe."""

    def __init__(
        self, limits: Limits, guard: AbstractContextManager[None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._limits = limits
        self._guard = guard
        self._clock = clock
        self._threads = ThreadPoolExecutor(limits.readers, thread_name_prefix="ragmeter-read")
        self._lock = threading.Lock()
        self._numbers = itertools.count()
        self._since: dict[int, float] = {}

    def why_not(self) -> str | None:
        """Return why no more bodies can be read at the moment, or None."""
        with self._lock:
            oldest = next(iter(self._since.values()), None)
        if oldest is None or self._clock() - oldest < self._limits.stuck_s:
            return None
        return "bodies that came before take too long to be read"

    def read(self, job: Callable[[], T]) -> T:
        """Return the result of a job, from a thread that may wait.

        Raises:
            BusyError: It is too late.
            FailedError: The job failed.
            RagmeterError: The job refused the body.
        """
        future = self._begin(job)
        try:
            return future.result(self._limits.read_s)
        except (LateError, CancelledError):
            raise _too_late(future) from None

    async def aread(self, job: Callable[[], T]) -> T:
        """Return the result of a job as `read` does, from an event loop."""
        future = self._begin(job)
        try:
            return await asyncio.wait_for(asyncio.wrap_future(future), self._limits.read_s)
        except asyncio.TimeoutError:
            raise _too_late(future) from None
        except asyncio.CancelledError:
            if not future.cancelled():
                raise
            raise _too_late(future) from None

    def close(self) -> None:
        """Begin no more jobs."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _begin(self, job: Callable[[], T]) -> Future[T]:
        why = self.why_not()
        if why is not None:
            raise BusyError(why)
        number = next(self._numbers)
        with self._lock:
            self._since[number] = self._clock()
        try:
            future = self._threads.submit(self._run, job)
        except RuntimeError:
            self._end(number)
            raise BusyError("shutting down") from None
        future.add_done_callback(lambda _: self._end(number))
        return future

    def _run(self, job: Callable[[], T]) -> T:
        outcome: T | RagmeterError = FailedError("an error of the server's")
        with self._guard:
            try:
                outcome = job()
            except RagmeterError as error:
                outcome = error
        if isinstance(outcome, RagmeterError):
            raise outcome
        return outcome

    def _end(self, number: int) -> None:
        with self._lock:
            del self._since[number]


def _too_late(future: Future[T]) -> BusyError:
    future.cancel()
    return BusyError("it was not read in time")
