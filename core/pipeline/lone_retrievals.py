"""Holds retrievals that were called by themselves, until the call that was given their documents is read.

On the scoring thread only.  One waits for a few seconds, longer while a call is under way that may have been
given what it found (`ragmeter.requests.lone_retrieval`).  Where no such call comes, or it shows nothing of it,
the retrieval is scored as a request of its own; so are all that wait at a flush, and the oldest of too many.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from ragmeter._runtime.queue import WorkerQueue, remaining
from ragmeter._runtime.stats import Counters
from ragmeter._runtime.threads import Bell
from ragmeter.metrics._process import fork
from ragmeter.requests.lone_retrieval import LoneRetrieval

from .scoring import Offer

__all__ = ["LoneRetrievals"]

MOST = 256
"""Retrievals that wait."""
MOST_BYTES = 4 * 1024 * 1024
LOOK_S = 1.0
"""Seconds between two looks whether one has waited long enough."""


class LoneRetrievals:
    """The lone retrievals of one pipeline.

    Args:
        score: Scores what no call has taken.
        counters: Where those are counted that one has.
    """

    def __init__(self, score: Callable[[Sequence[Offer]], None], counters: Counters) -> None:
        self._score = score
        self._counters = counters
        self._fresh()
        fork.forget(self._fresh)  # in a child: they are the parent's

    def _fresh(self) -> None:
        self._held: deque[tuple[LoneRetrieval, Offer]] = deque()
        self._is_called = False

    def hold(self, offer: Offer) -> bool:
        """Take a request if it is a lone retrieval; return whether it is."""
        if offer.alone is None:
            return False
        offer.alone.wait(offer.build)
        self._held.append((offer.alone, offer))
        while len(self._held) > MOST or sum(one.size_bytes for _, one in self._held) > MOST_BYTES:
            self._end(*self._held.popleft())
        return True

    def look(self, queue: WorkerQueue[Any]) -> float | None:
        """Score the retrievals that have waited long enough; return the seconds until the next check.

        Not at once, but behind what has come by now: a call that has ended meanwhile is among that.
        """
        if not self._held:
            return None
        now = time.monotonic()
        if not self._is_called and not all(alone.left_s(now) for alone, _ in self._held):
            self._is_called = queue.errand(self._end_due) is not None
        return LOOK_S

    def _end_due(self) -> None:
        self._is_called = False
        now = time.monotonic()
        for _ in range(len(self._held)):
            alone, offer = self._held.popleft()
            if alone.left_s(now):
                self._held.append((alone, offer))
            else:
                self._end(alone, offer)

    def end_all(self, queue: WorkerQueue[Any], deadline: float) -> bool:
        """Have all scored that wait, until `deadline` (monotonic); return whether that came true."""
        if not self._held:
            return True
        through = Bell()

        def end_all() -> None:
            try:
                while self._held:
                    self._end(*self._held.popleft())
            finally:
                through.ring()

        if queue.errand(end_all) is None:
            end_all()  # no thread can be had any more
        return through.wait(remaining(deadline))

    def drop_all(self) -> None:
        """Count as dropped what there was no time to score."""
        while self._held:
            _, offer = self._held.popleft()
            self._counters.count_drop("shutdown", capture=offer.capture, once=offer.leave)

    def _end(self, alone: LoneRetrieval, offer: Offer) -> None:
        if alone.is_taken:
            self._counters.withdraw()
        else:
            self._score([offer._replace(build=alone.take)])
