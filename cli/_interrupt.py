"""Makes Ctrl-C end any command at once, with exit status 130.

`exit_with_line` runs every command inside `interruptible`, so no loop needs its own stop.  asyncio would
defer the first SIGINT to the next await, which a loop of computed metrics never reaches.  Writes that must be
complete, a line or a part of a file, run inside `whole`.  If leaving takes longer than `END_S` (processes of
Ray, a metric in C code), or after a second Ctrl-C, the process exits: finished work is in its file.
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

EXIT_INTERRUPTED = 130
END_S = 0.7
"""Seconds to close files, connections and child processes."""
WRITE_S = 10.0
"""Seconds to finish a write in progress."""
_INTERRUPT = bytes([signal.SIGINT])
_running: _Interrupt | None = None
_hints: list[str] = []


class _Interrupt:
    """Raises SIGINT as an exception; a thread ends the process if the exception has no effect in time."""

    def __init__(self) -> None:
        self.writing = 0
        self.waits = False
        self._raised = self._ended = False
        self._read, self._write = os.pipe()
        os.set_blocking(self._write, False)
        self._before = signal.signal(signal.SIGINT, self._raise)
        # The system writes to this pipe even while the main thread is in C code and no handler runs.
        self._fd_before = signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        self._thread = threading.Thread(target=self._watch, name="ragmeter-interrupt", daemon=True)
        self._thread.start()
        fork.forget(self._leave)

    def _leave(self) -> None:
        """Keep signals to a forked child from waking the parent's thread."""
        signal.set_wakeup_fd(-1)

    def close(self) -> None:
        """Restore the previous handler of SIGINT."""
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
        elif not self._raised:  # the thread handles a second interrupt
            self._raised = True
            raise KeyboardInterrupt

    def _watch(self) -> None:
        while os.read(self._read, 1) != _INTERRUPT:
            if self._ended:
                return
        for patience in (END_S, WRITE_S):
            readable, _, _ = select.select([self._read], [], [], patience)
            if self._ended or signal.getsignal(signal.SIGINT) != self._raise:
                return  # another handler ends this process
            if readable or not self.writing:
                break
        shown = "\x1b[?25h\n" if os.isatty(2) else ""  # a progress bar hides the cursor
        with suppress(OSError):
            os.write(2, f"{shown}{interrupted_line()}\n".encode("utf-8", "backslashreplace"))
        os._exit(EXIT_INTERRUPTED)


@contextmanager
def interruptible() -> Iterator[None]:
    """Run a block that Ctrl-C ends with KeyboardInterrupt, wherever it is; the process then has `END_S`.

    Does nothing outside the main thread, where signals cannot be handled, and inside another such block.  If
    the process was started with SIGINT ignored, it stays ignored.
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
    """Run a short block of writes to its end; an interrupt is raised after it."""
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
    """Run a block; if it is interrupted, the command prints ``interrupted; <line>``."""
    _hints.append(line)
    yield
    _hints.remove(line)  # not after an interrupt, whose line is still to be printed


def interrupted_line() -> str:
    """Return the message about an interrupt: the location of finished work, and how to resume."""
    return f"interrupted{'; ' + _hints[-1] if _hints else ''}"
