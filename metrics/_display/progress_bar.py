"""The progress of `evaluate`: a bar in a notebook or on a terminal, nothing anywhere else.

To stay out of server logs it shows on a terminal only while the main thread itself is scoring, outside any
event loop.  Short runs show nothing.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from importlib import import_module
from typing import Any

SHOWN_AFTER_S = 0.5
"""Seconds; shorter runs show no bar."""
EVERY_S = 0.1
WIDTH = 24


class ProgressBar:
    """Counts finished items, and shows the progress: if `wanted` is None, in a notebook and on a terminal."""

    def __init__(self, total: int, *, wanted: bool | None = None) -> None:
        self._total = total
        self._done = 0
        self._due = time.monotonic() + SHOWN_AFTER_S
        self._cell: Any = None
        self._line = False
        self._notebook = wanted is not False and _in_a_notebook()
        self._terminal = not self._notebook and (_on_a_terminal() if wanted is None else wanted)

    def advance(self) -> None:
        """Count one more item as done. Any thread may call it; it does not update the display."""
        self._done += 1

    def show(self) -> None:
        """Update the display, if that is due."""
        now = time.monotonic()
        if not (self._notebook or self._terminal) or now < self._due:
            return
        self._due = now + EVERY_S
        if self._notebook:
            self._show_cell()
        else:
            filled = WIDTH * self._done // max(1, self._total)
            self._line = True
            sys.stderr.write(f"\r[{'#' * filled:.<{WIDTH}}] {self._done}/{self._total}")
            sys.stderr.flush()

    def close(self) -> None:
        """Remove the bar."""
        if self._line:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
        if self._cell is not None:
            self._cell.update(import_module("IPython.display").HTML(""))

    def _show_cell(self) -> None:
        ipython = import_module("IPython.display")
        shown = ipython.HTML(
            f'<progress value="{self._done}" max="{self._total}"></progress> {self._done} of {self._total}'
        )
        if self._cell is None:
            self._cell = ipython.display(shown, display_id=True)
        else:
            self._cell.update(shown)


def _in_a_notebook() -> bool:
    running = getattr(sys.modules.get("IPython"), "get_ipython", None)
    shell = None if running is None else running()
    return shell is not None and hasattr(shell, "kernel")


def _on_a_terminal() -> bool:
    if threading.current_thread() is not threading.main_thread() or is_in_a_loop():
        return False
    return sys.stderr is not None and sys.stderr.isatty()


def is_in_a_loop() -> bool:
    """Return whether the caller runs on an event loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
