"""A thread that does one blocking job after another, for callers that must not wait, such as event loops.

It is a daemon, started with the first job and again after `finish`: a job that hangs delays no exit.  In a
forked child it has no jobs.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import TypeVar

from . import fork

T = TypeVar("T")


class BackgroundThread:
    """Does one job after another on a separate thread, which starts with the first job."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._begin()
        fork.forget(self._begin)  # the parent's thread does not exist in a child

    def _begin(self) -> None:
        self._jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def do(self, job: Callable[[], None]) -> None:
        """Queue `job`; do it on the caller's thread if no thread can be started."""
        if self._thread is None or not self._thread.is_alive():
            thread = threading.Thread(target=_work, args=(self._jobs,), name=self._name, daemon=True)
            try:
                thread.start()
            except RuntimeError:
                job()
                return
            self._thread = thread
        self._jobs.put(job)

    def call(self, function: Callable[[], T]) -> Future[T]:
        """Queue a call and return its future result; one that is cancelled before its turn is not made."""
        made: Future[T] = Future()

        def work() -> None:
            if not made.set_running_or_notify_cancel():
                return
            try:
                made.set_result(function())
            except BaseException as error:
                if isinstance(error, Exception):
                    made.set_exception(error)
                    return
                # On an event loop it would end all of its tasks.
                made.set_exception(RuntimeError(f"it raised {type(error).__name__}"))
                if not isinstance(error, SystemExit):
                    raise

        self.do(work)
        return made

    def finish(self, timeout_s: float) -> None:
        """Wait until all jobs are done, for `timeout_s` seconds at most, and let the thread end."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self._jobs.put(None)
            if timeout_s:
                thread.join(timeout_s)


def _work(jobs: SimpleQueue[Callable[[], None] | None]) -> None:
    while (job := jobs.get()) is not None:
        job()
        del job  # it refers to its owner, which could not be freed otherwise
