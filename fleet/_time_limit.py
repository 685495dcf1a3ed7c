"""Limit the time of a message: the process is ended if it takes too long.

The operating system's timer does it, as a hanging call may hold the interpreter lock. To the engine the
process was killed: the message is redelivered with one more death, so that in the end only the hanging
request becomes a dead letter.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

ENDED_BY = signal.SIGALRM
"""The signal that ends such a process."""


@contextmanager
def at_most(seconds: float | None) -> Iterator[None]:
    """End this process if the block takes longer. For the main thread; None: no limit."""
    if seconds is None:
        yield
        return
    before = signal.signal(ENDED_BY, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        if before is not None:
            signal.signal(ENDED_BY, before)
