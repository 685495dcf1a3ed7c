"""Shows progress: a bar on a terminal, plain lines anywhere else.

Everything goes to the error stream, so that results on the output stream stay clean.
Used by `demo` and `evaluate`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from ragmeter.metrics.judge.protocol import JudgeStats

from ._console import Console

Advance = Callable[[str], None]
"""Call it once per finished step with a short note to show beside the bar."""

LINE_EVERY_S = 5.0
"""Seconds between two lines without a terminal, at most; the first, every tenth and the last step get a line,
too."""
LINE_AFTER_S = 1.0
"""Shortest interval between the line of a tenth and the previous line."""
ESTIMATE_AFTER_S, ESTIMATE_AFTER = 10.0, 32
"""Seconds and steps after which an estimate is shown, if a tenth of the steps does not come first."""


class _Rate(ProgressColumn):
    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text("" if speed is None else f"{speed:.1f}/s", style="progress.data.speed")


@contextmanager
def progress(label: str, total: int, console: Console | None = None) -> Iterator[Advance]:
    """Show progress over `total` steps, e.g. ``asking``; yield the function that marks one step as done."""
    screen = console or Console(stderr=True)
    if screen.is_terminal:
        with Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            _Rate(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[note]}", style="dim", markup=False),
            console=screen,
            transient=True,
        ) as bar:
            task = bar.add_task(label, total=total, note="")
            yield lambda note: bar.update(task, advance=1, note=note)
        return
    yield _Lines(label, total, screen)


def judge_note(spent: JudgeStats) -> str:
    """Return the note beside the progress: the judge's work so far; empty without a judge."""
    if not spent.calls and not spent.cache_hits:
        return ""
    failed = sum(spent.errors.values())
    return (
        f"{spent.calls} calls, {spent.input_tokens:,} + {spent.output_tokens:,} tokens"
        + (f", {spent.cache_hits} cached" if spent.cache_hits else "")
        + (f", {failed} failed" if failed else "")
    )


@contextmanager
def waiting(label: str) -> Iterator[Callable[[str], None]]:
    """Show progress without known steps; yield the function that sets the note."""
    screen = Console(stderr=True)
    if screen.is_terminal:
        with screen.status(label) as status:
            yield lambda note: status.update(f"{label}: {note}")
        return
    yield lambda note: screen.print(f"{label}: {note}", highlight=False, markup=False)


class _Lines:
    """Prints ``label 12/40, 3.1/s, 9 s left: note`` at intervals."""

    def __init__(self, label: str, total: int, screen: Console) -> None:
        self._label = label
        self._total = total
        self._screen = screen
        self._done = 0
        self._began = self._last = time.monotonic()

    def __call__(self, note: str) -> None:
        self._done += 1
        now = time.monotonic()
        tenth = max(1, self._total // 10)
        passed_s = now - self._last
        due = passed_s >= (LINE_AFTER_S if self._done % tenth == 0 else LINE_EVERY_S)
        if not (due or self._done in (1, self._total)):
            return
        self._last = now
        line = f"{self._label} {self._done}/{self._total}{self._estimate(now - self._began)}"
        self._screen.print(f"{line}: {note}" if note else line, highlight=False, markup=False, soft_wrap=True)

    def _estimate(self, took_s: float) -> str:
        """Return the rate and the seconds left, once they can be estimated.

        The first step includes the warm-up, and concurrent ones have not ended: it gives no estimate.
        """
        ready = self._done * 10 >= self._total or (took_s >= ESTIMATE_AFTER_S and self._done >= ESTIMATE_AFTER)
        if self._done == 1 or not ready:
            return ""
        rate = self._done / max(took_s, 1e-6)
        return f", {rate:.1f}/s, {(self._total - self._done) / rate:.0f} s left"
