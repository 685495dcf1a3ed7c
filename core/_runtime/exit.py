"""Flush every living meter when the interpreter is about to exit.

Exit handlers run in reverse order of registration, so a telemetry provider configured after the meter would
shut down before it. Meters are therefore flushed before any exit handler, where Python waits for non-daemon
threads, by the hook that its own thread pools use. No thread waits for the main thread, which would block the
process under greenlets. `ragmeter.pipeline.ending` limits the delay of the exit.
"""

from __future__ import annotations

import atexit
import threading
import weakref
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ragmeter._port import MeterPort


# By identity, and without a lock: a garbage collection may add a meter on any thread at any time.
_watched: dict[int, weakref.ref[MeterPort]] = {}


def keep_watch(meter: MeterPort) -> None:
    """Flush `meter` at exit, as long as the application holds it."""
    key = id(meter)
    _watched[key] = weakref.ref(meter, lambda _: _watched.pop(key, None))


def _meters() -> list[MeterPort]:
    return [meter for meter in (seen() for seen in list(_watched.values())) if meter is not None]


def _flush() -> None:
    for meter in _meters():
        meter.flush_at_exit()


def _end() -> None:
    _flush()
    for meter in _meters():
        meter.end_at_exit()


# Private to Python: run when the main thread has ended, before waiting for the others. It refuses once the
# process is already ending.
with suppress(AttributeError, RuntimeError):
    threading._register_atexit(_flush)  # type: ignore[attr-defined]  # noqa: SLF001
# For what was captured after the main thread ended, by threads that outlive it.
atexit.register(_end)
