"""How long the end of a process waits for the pipeline, and for whom.

What is left to do here, scoring, is finished.  A judge or a backend that is dead must not hold up a
program that has ended, and from here it looks like one that thinks: both are waited for while something
comes of it.  With everything dead, a program is held up for less than two seconds.  A judge that is known
to take longer has longer: some multiple of what its answers took.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import NamedTuple, Protocol

from ragmeter._runtime.queue import remaining

__all__ = ["Patience", "PipelineEnding", "Signs"]

logger = logging.getLogger("ragmeter")

OWN_WORK_S = 10.0
"""Seconds that the exit is held up altogether, unless the user says how long."""
SILENCE_S = 1.5
"""Seconds of these in which neither judge nor exporters have got anything done."""
JUDGE_SHARE = 0.8
"""Share of the silence that is the judge's: the rest is for writing what there is without it."""
TIMES_USUAL = 3.0
"""A judge may be silent for this many times as long as its slowest recent answer took."""
WORTH_SAYING_S = 1.0
"""Seconds that the end has waited in vain from which on it says so."""


class Signs(NamedTuple):
    """What judge and exporters have got done so far."""

    at: float
    """When that was, the last time of which it is known (monotonic)."""
    held: object
    """What exporters hold that they were given: it changes at moments that no one tells."""


class Patience:
    """What is left of the time in which others may be silent.

    Args:
        seconds: How long that is.
        signs: Returns their latest signs of life.
    """

    def __init__(self, seconds: float, signs: Callable[[], Signs]) -> None:
        self._left_s = seconds
        self._signs = signs

    def wait(
        self,
        done: Callable[[float], bool],
        deadline: float,
        share: float = 1.0,
        usual_s: float = 0.0,
    ) -> bool:
        """Wait until others are `done`, or silent for too long, until `deadline` (monotonic).

        Args:
            done: Waits for so many seconds; returns whether all is done.
            deadline: When the wait ends, whatever they do.
            share: How much of the patience this may cost.
            usual_s: How long they are known to be silent when all is well. What this takes beyond
                the share costs no patience.
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
            # A sign early in that time does not begin it again at its end.
            silent_since = now if signs.held != seen.held else max(silent_since, signs.at)
            seen = signs


class Flushes(Protocol):
    """A pipeline, as far as the end of the process is concerned."""

    def signs(self) -> Signs:
        """Return when the judge or an exporter has got something done, and what exporters hold."""
        ...

    def flush(self, deadline: float, patience: Patience | None = None) -> bool:
        """Wait until everything is exported; return whether that came true."""
        ...


class PipelineEnding:
    """Flushes a pipeline as the process ends, perhaps more than once, within one limit.

    Args:
        given_s: Seconds that the user allows for everything; None: as described above.
    """

    def __init__(self, given_s: float | None) -> None:
        self._left_s = OWN_WORK_S if given_s is None else given_s
        self._silence_s = SILENCE_S if given_s is None else given_s
        self._patience: Patience | None = None

    def flush(self, pipeline: Flushes) -> None:
        """Flush within what is left of the time; say so, once, when that was not enough."""
        first = self._patience is None
        patience = self._patience or Patience(self._silence_s, pipeline.signs)
        self._patience = patience
        began = time.monotonic()
        done = pipeline.flush(began + self._left_s, patience)
        took = time.monotonic() - began
        self._left_s = max(0.0, self._left_s - took)
        # An exporter that fails at once was not waited for: its error is logged where it was contained.
        if first and not done and took >= min(self._silence_s, WORTH_SAYING_S):
            logger.warning(
                "ragmeter: the process ends after %.1f s in which the judge or an exporter was not done: "
                "scores may be lost. RagMeter(limits=Limits(shutdown_timeout_s=30)) waits longer, and so does "
                "`with RagMeter(...) as meter:`",
                took,
            )
