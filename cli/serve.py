"""``ragmeter serve``: runs the server until it is told to end, and says what became of what it received."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Mapping
from types import FrameType

from ragmeter.serve import Server

__all__ = ["run_server", "summary"]

EXIT_INTERRUPTED = 130
_ALWAYS_TOLD = ("exports", "spans", "requests")
_OVERTIME_S = 5.0
"""Seconds beyond the time to drain after which the process ends come what may."""


def run_server(server: Server, say: Callable[[str], None]) -> bool:
    """Serve until SIGTERM or SIGINT, then drain; a second signal ends the process at once.

    Args:
        server: What is to run.
        say: Prints a line.

    Returns:
        Whether everything that was received was scored and sent.
    """
    ending = False
    # A lock and not an event: one that is set in a signal handler may wait for the code it interrupts.
    told = threading.Lock()
    told.acquire()

    def on_signal(_number: int, _frame: FrameType | None) -> None:
        nonlocal ending
        if ending:
            os._exit(EXIT_INTERRUPTED)
        ending = True
        told.release()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, on_signal)
    server.start()
    say(f"ragmeter serve: {server.address}")
    told.acquire()
    say(f"ragmeter serve: draining, at most {server.options.drain_timeout_s:g} s")
    watchdog = threading.Timer(
        server.options.drain_timeout_s + _OVERTIME_S, os._exit, args=(EXIT_INTERRUPTED,)
    )
    watchdog.daemon = True
    watchdog.start()
    complete = server.stop()
    say(f"ragmeter serve: {summary(server.stats())}")
    return complete


def summary(stats: Mapping[str, Mapping[str, int]]) -> str:
    """Return what was received and what became of it, in one line."""
    parts: list[str] = []
    for name, counts in stats.items():
        if counts or name in _ALWAYS_TOLD:
            told = ", ".join(f"{count} {outcome}" for outcome, count in counts.items())
            parts.append(f"{sum(counts.values())} {name}" + (f" ({told})" if told else ""))
    return "; ".join(parts)
