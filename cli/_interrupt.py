"""What Ctrl-C does to a command: whatever loop over a user's data runs is left at once, with exit status 130.

`explained` runs every command inside `interruptible`, so no loop needs a stop of its own.  asyncio would take
the first SIGINT as a wish for the next wait, which a loop of computed metrics never reaches.  What must not
be torn, a line or a part of a file, is written inside `whole`.  Where the end takes longer than `END_S`
(processes of Ray, a metric in C code), or after a second Ctrl-C, the process ends as it is: what is
finished stands in its file.
"""

from __future__ import annotations

import os
import select
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from ragmeter.metrics._process import fork

__all__ = ["EXIT_INTERRUPTED", "interrupted_line", "interruptible", "resumable", "whole"]

EXIT_INTERRUPTED = 130
END_S = 0.7
"""Seconds for leaving: files closed, connections, processes of others."""
WRITE_S = 10.0
"""Seconds for what is being written at that moment."""
_INTERRUPT = bytes([signal.SIGINT])
_running: _Interrupt | None = None
_says: list[str] = []


class _Interrupt:
    """SIGINT as an exception, and a thread that ends the process where that does not come through."""

    def __init__(self) -> None:
        self.writing = 0
        self.waits = False
        self._raised = self._ended = False
        self._read, self._write = os.pipe()
        os.set_blocking(self._write, False)
        self._before = signal.signal(signal.SIGINT, self._raise)
        # Told by the system, also while the main thread is in C code and no handler runs.
        self._fd_before = signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        self._thread = threading.Thread(target=self._watch, name="ragmeter-interrupt", daemon=True)
        self._thread.start()
        fork.forget(self._leave)

    def _leave(self) -> None:
        """Tell the parent nothing of what a forked child is sent."""
        signal.set_wakeup_fd(-1)

    def close(self) -> None:
        """Leave SIGINT to whoever had it."""
        self._ended = True
        signal.set_wakeup_fd(self._fd_before)
        if signal.getsignal(signal.SIGINT) == self._raise:
            signal.signal(signal.SIGINT, self._before)
        os.write(self._write, b"\0")
        self._thread.join()
        os.close(self._read)
        os.close(self._write)

    def _raise(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        if self.writing:
            self.waits = True
        elif not self._raised:  # a second one is the thread's business
            self._raised = True
            raise KeyboardInterrupt

    def _watch(self) -> None:
        while os.read(self._read, 1) != _INTERRUPT:
            if self._ended:
                return
        for patience in (END_S, WRITE_S):
            readable, _, _ = select.select([self._read], [], [], patience)
            if self._ended or signal.getsignal(signal.SIGINT) != self._raise:
                return  # somebody else ends this process in a way of their own
            if readable or not self.writing:
                break
        shown = "\x1b[?25h\n" if os.isatty(2) else ""  # a progress bar hides the cursor
        with suppress(OSError):
            os.write(2, f"{shown}{interrupted_line()}\n".encode("utf-8", "backslashreplace"))
        os._exit(EXIT_INTERRUPTED)


@contextmanager
def interruptible() -> Iterator[None]:
    """Run a block that Ctrl-C ends with KeyboardInterrupt, wherever it is; the process then has `END_S`.

    In another thread than the main one, where nobody may handle signals, and inside another such block it does
    nothing.  Whoever started this process with SIGINT ignored has it ignored.
    """
    global _running  # noqa: PLW0603 -- signals are the process's
    if (
        threading.current_thread() is not threading.main_thread()
        or _running is not None
        or signal.getsignal(signal.SIGINT) is not signal.default_int_handler
    ):
        yield
        return
    found = _running = _Interrupt()
    try:
        yield
    finally:
        _running = None
        found.close()


@contextmanager
def whole() -> Iterator[None]:
    """Run a short block, which writes something, to its end; an interrupt comes after it."""
    found = _running
    if found is None or threading.current_thread() is not threading.main_thread():
        yield
        return
    found.writing += 1
    try:
        yield
    finally:
        found.writing -= 1
    if found.waits and not found.writing:
        raise KeyboardInterrupt


@contextmanager
def resumable(line: str) -> Iterator[None]:
    """Run a block; if it is interrupted, ``interrupted; <line>`` is what the command says."""
    _says.append(line)
    yield
    _says.remove(line)  # after an interrupt it is still to be said


def interrupted_line() -> str:
    """Return what is said of an interrupt: where what is finished stands, and how to go on."""
    return f"interrupted{'; ' + _says[-1] if _says else ''}"
