"""An event loop that still works while the program is ending.

asyncio runs name look-ups and other blocking calls in a thread pool that closes when the main thread ends,
but the judge still has calls to make for a script's last requests.
"""

from __future__ import annotations

import asyncio

# Imported early: it registers with the interpreter, which refuses that while the program ends.
import concurrent.futures.thread
import queue
import selectors
import threading
from collections.abc import Callable
from typing import Any


class LastingLoop(asyncio.SelectorEventLoop):
    """A selector loop that can run blocking calls until the end of the program. Create it before that."""

    # Until `__init__` is done: a loop that could not be made must not be closed.
    _closed = True

    def __init__(self) -> None:
        self._late_calls: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        selector = selectors.DefaultSelector()
        try:
            super().__init__(selector)
            # Started now: since Python 3.12 no thread can start once the main thread has ended.
            threading.Thread(
                target=_work_off, args=(self._late_calls,), name="ragmeter-late-calls", daemon=True
            ).start()
        except BaseException:
            self._closed = True
            selector.close()
            raise

    def run_in_executor(  # type: ignore[override]  # typeshed ties func to args
        self, executor: concurrent.futures.Executor | None, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        """Run a blocking call in the pool, or on the loop's own thread if the pool is closed."""
        try:
            return super().run_in_executor(executor, func, *args)
        except RuntimeError:
            if executor is not None or self.is_closed():
                raise
        late: concurrent.futures.Future[Any] = concurrent.futures.Future()

        def call() -> None:
            try:
                late.set_result(func(*args))
            except BaseException as error:
                late.set_exception(error)
                if not isinstance(error, Exception):
                    raise

        self._late_calls.put(call)
        return asyncio.wrap_future(late, loop=self)

    def close(self) -> None:
        """Close the loop and let its thread end."""
        self._late_calls.put(None)
        super().close()


def _work_off(calls: queue.SimpleQueue[Callable[[], None] | None]) -> None:
    while (call := calls.get()) is not None:
        call()
