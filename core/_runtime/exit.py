"""Flushes every living meter when the interpreter is about to exit.

The order at exit matters: exit handlers run in reverse order of registration, and
a telemetry provider configured after the meter would be gone before it.  So meters are flushed
before any exit handler runs, where Python waits for non-daemon threads: it offers a hook there, which
its own thread pools use.  No thread waits for the main thread: where threads are greenlets, waiting
for it stops the whole process.  A meter never holds the exit up for longer than
`ragmeter.pipeline.ending` says.
"""

from __future__ import annotations

import atexit
import threading
import weakref
from contextlib import suppress
from typing import Protocol

__all__ = ["Flushable", "keep_watch"]


class Flushable(Protocol):
    """What is flushed at exit."""

    def flush_at_exit(self) -> None:
        """Flush within the configured deadline. Must not raise."""
        ...

    def end_at_exit(self) -> None:
        """End what would outlive this process's threads. Called last. Must not raise."""
        ...


# By identity, and without a lock: a garbage collection may add a meter on any thread at any time.
_watched: dict[int, weakref.ref[Flushable]] = {}


def keep_watch(meter: Flushable) -> None:
    """Flush `meter` at exit, as long as the application holds it."""
    key = id(meter)
    _watched[key] = weakref.ref(meter, lambda _: _watched.pop(key, None))


def _meters() -> list[Flushable]:
    return [meter for meter in (seen() for seen in list(_watched.values())) if meter is not None]


def _flush() -> None:
    for meter in _meters():
        meter.flush_at_exit()


def _end() -> None:
    _flush()
    for meter in _meters():
        meter.end_at_exit()


# Python's own, without a public name: it runs these when the main thread has ended, before it waits
# for the others. Too late for it when the process is ending already.
with suppress(AttributeError, RuntimeError):
    threading._register_atexit(_flush)  # type: ignore[attr-defined]  # noqa: SLF001
# For what was captured after the main thread ended, by threads that outlive it.
atexit.register(_end)
