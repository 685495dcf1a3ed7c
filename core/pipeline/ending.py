"""Flush every living meter at the exit of a process, and decide how long that waits for judge and exporters.

Exit handlers run in reverse order of registration, so a telemetry provider configured after the meter would
shut down before it. Meters are therefore flushed before any exit handler, where Python waits for non-daemon
threads, by the hook that its own thread pools use. No thread waits for the main thread, which would block the
process under greenlets.

Remaining scoring work is finished. A dead judge or backend must not delay the exit, and cannot be
distinguished from a slow one: the exit waits for both while they make progress. If everything is dead, the
delay is less than two seconds. A slow judge gets a multiple of its recent response time.
"""

from __future__ import annotations

import atexit
import logging
import threading
import time
import weakref
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from ragmeter._runtime.queue import remaining

if TYPE_CHECKING:
    from ragmeter._port import MeterPort

    from .pipeline import Pipeline

logger = logging.getLogger("ragmeter")

OWN_WORK_S = 10.0
"""Longest delay of the exit in seconds, unless the user sets one."""
SILENCE_S = 1.5
"""Seconds to wait without any progress by judge or exporters."""
JUDGE_SHARE = 0.8
"""Share of that for the judge; the rest is for exporting without its scores."""
TIMES_USUAL = 3.0
"""A judge may take this multiple of its slowest recent response time."""
WORTH_SAYING_S = 1.0
"""Seconds of waiting without success after which a warning is logged."""


class Signs(NamedTuple):
    """Progress of judge and exporters."""

    at: float
    """Time of the last known progress (monotonic)."""
    held: object
    """What exporters hold: it changes at unknown times."""


class Patience:
    """The remaining time to wait without progress.

    Args:
        seconds: That time.
        signs: Returns the latest progress.
    """

    def __init__(self, seconds: float, signs: Callable[[], Signs]) -> None:
        self._left_s = seconds
        self._signs = signs

    def wait(
        self, done: Callable[[float], bool], deadline: float, share: float = 1.0, usual_s: float = 0.0
    ) -> bool:
        """Wait until all is `done`, there is no progress for too long, or `deadline` (monotonic).

        Args:
            done: Waits for a number of seconds; returns whether all is done.
            deadline: The end of the wait in any case.
            share: Share of the patience to spend.
            usual_s: Usual time without progress. Waiting beyond the share costs no patience.
        """
        allowed_s = self._left_s * share
        longest_s = max(allowed_s, TIMES_USUAL * usual_s)
        seen, now = self._signs(), time.monotonic()
        silent_since = now
        while True:
            left_s = max(0.0, longest_s - (now - silent_since))
            if done(min(left_s, remaining(deadline))):
                return True
            signs, now = self._signs(), time.monotonic()
            if signs == seen or not remaining(deadline):
                spent_s = min(now - silent_since, allowed_s)
                self._left_s = max(0.0, self._left_s - spent_s)
                return False
            # Count from the progress itself, not from when it was noticed.
            silent_since = now if signs.held != seen.held else max(silent_since, signs.at)
            seen = signs


class PipelineEnding:
    """Flushes a pipeline at exit, perhaps several times, within one limit.

    Args:
        given_s: The user's limit for everything, in seconds; None: as described above.
    """

    def __init__(self, given_s: float | None) -> None:
        self._left_s = OWN_WORK_S if given_s is None else given_s
        self._silence_s = SILENCE_S if given_s is None else given_s
        self._patience: Patience | None = None

    def flush(self, pipeline: Pipeline) -> bool:
        """Flush within the remaining time; return whether it was enough. If not, log a warning, once."""
        first = self._patience is None
        patience = self._patience or Patience(self._silence_s, pipeline.signs)
        self._patience = patience
        began = time.monotonic()
        done = pipeline.flush(began + self._left_s, patience)
        took = time.monotonic() - began
        self._left_s = max(0.0, self._left_s - took)
        # An exporter that fails at once causes no wait; its error is logged elsewhere.
        if first and not done and took >= min(self._silence_s, WORTH_SAYING_S):
            late = [name for name, waiting in pipeline.backlog().export_backlog.items() if waiting]
            logger.warning(
                "ragmeter: the process ends after %.1f s in which %s was not done: scores may be lost. "
                "RagMeter(limits=Limits(shutdown_timeout_s=30)) waits longer, and so does "
                "`with RagMeter(...) as meter:`",
                took,
                " and ".join(late) or "the judge or an exporter",
            )
        return done


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
# For requests captured after the main thread ended, by threads that outlive it.
atexit.register(_end)
