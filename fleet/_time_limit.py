"""An end to what hangs: a message that takes too long ends the process that scores it.

The operating system does it, since what hangs may hold the interpreter's lock, and no thread of ours would run
again.  To the engine that process was killed: the message comes back with one more death, and so a request that
hangs lies among the dead alone in the end.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["ENDED_BY", "at_most"]

ENDED_BY = signal.SIGALRM
"""The signal that ends such a process."""


@contextmanager
def at_most(seconds: float | None) -> Iterator[None]:
    """Let this process end when the block takes longer. For the main thread; None: there is no limit."""
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
