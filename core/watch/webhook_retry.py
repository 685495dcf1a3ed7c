"""`WebhookRetry`: a change that a webhook did not take is offered to it again, with backoff, for an hour.

`Notifier` calls it on its thread, between two changes.  Log, exporters and callbacks heard of it at once
and hear nothing twice.  While a change waits its claim is kept, so that of several servers none but this one
tells it, and another takes over should this one be killed.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple, Protocol

from ragmeter._runtime.guard import Guard
from ragmeter._runtime.queue import LOOK_S
from ragmeter._runtime.threads import Bell
from ragmeter.exporters.changes import NotTakenError, QualityChange
from ragmeter.metrics._process import fork
from ragmeter.metrics._process.retry import pause_before

from .change import Change

__all__ = ["Deliveries", "TellsChanges", "WebhookRetry"]

PATIENCE_S = 3600.0
"""Seconds for which a change is offered; then it counts as not delivered."""
AT_ONCE_S = 60.0
"""Seconds for which a flush waits for it."""
LONGEST_PAUSE_S = 60.0
"""Between two attempts; claims last three times as long."""
MAX_WAITING = 100
"""Changes that wait; of more the oldest count as not delivered."""

_log = logging.getLogger("ragmeter")


class TellsChanges(Protocol):
    """Tells others of a change: an exporter, or a webhook."""

    def changed(self, change: QualityChange, said: str, resource: Mapping[str, str]) -> None:
        """Tell of `change`, of which `said` is one sentence.

        Raises:
            NotTakenError: It was not taken, and may be later.
        """
        ...


class Deliveries(NamedTuple):
    """What became of changes that were to be posted."""

    delivered: int
    """Were taken."""
    waiting: int
    """Were not taken yet, and are offered again."""
    not_delivered: int
    """Were refused, or not taken for an hour."""


class _PendingPost(NamedTuple):
    change: Change
    said: str
    resource: Mapping[str, str]
    claim: str | None
    since: float


class WebhookRetry:
    """Offers changes, and again those that were not taken. Thread-safe.

    Args:
        webhook: Takes them, or does not; None: there is none.
        guard: Contains what is raised.
        hold: Returns whether a claim is ours still.
        done: Takes the claims of changes that wait no longer.
        clock: Seconds that only grow.
    """

    def __init__(
        self,
        webhook: TellsChanges | None,
        guard: Guard,
        hold: Callable[[str], bool],
        done: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._webhook = webhook
        self._guard = guard
        self._hold = hold
        self._done = done
        self._clock = clock
        self._fresh()
        fork.forget(self._fresh)

    def _fresh(self) -> None:
        # In a child there is nothing: it is the parent's to deliver.
        self._lock = threading.Lock()
        self._waiting: deque[_PendingPost] = deque()
        self._next = 0.0
        self._retry = 0
        self._delivered = 0
        self._not_delivered = 0
        self._settling: list[Bell] = []

    def deliveries(self) -> Deliveries:
        """Return what became of changes so far."""
        with self._lock:
            return Deliveries(self._delivered, len(self._waiting), self._not_delivered)

    def offer(
        self, change: Change, said: str, resource: Mapping[str, str], claim: str | None = None
    ) -> bool:
        """Offer a change; return whether that is done. Else its claim is kept, and noted as done later."""
        one = _PendingPost(change, said, resource, claim, self._clock())
        taken, asked_s = self._attempt(one)
        if taken:
            return True
        with self._lock:
            if not self._waiting:
                self._retry = 0
                self._pause(asked_s)
            self._waiting.append(one)
            lost = [self._waiting.popleft() for _ in range(len(self._waiting) - MAX_WAITING)]
        self._give_up(lost)
        return False

    def step(self) -> float | None:
        """Offer one change again, if it is time; return the seconds until the next one, None: nothing waits."""
        now = self._clock()
        with self._lock:
            waiting, due = tuple(self._waiting), self._next
        if not waiting:
            return None
        if now < due:
            return due - now
        old = [one for one in waiting if now - one.since >= PATIENCE_S]
        # All of them, as any may wait for long behind others; what another server tells is gone from here.
        lost = [one for one in waiting if one not in old and not self._is_ours(one)]
        self._remove(*old, *lost)
        self._give_up(old)
        left = [one for one in waiting if one not in (*old, *lost)]
        if not left:
            return 0.0
        first = left[0]
        taken, asked_s = self._attempt(first)
        with self._lock:
            if taken:
                self._retry, self._next = 0, self._clock()
            else:
                self._pause(asked_s)
                # What cannot be taken at all keeps the others waiting no longer than its turn.
                self._waiting.rotate(-1)
        if taken:
            self._remove(first)
            self._finish(first)
        return 0.0

    def settle(self, deadline: float) -> bool:
        """Wait for those that have waited less than a minute, until `deadline` (monotonic).

        Return whether nothing waits. Another thread calls `step` meanwhile.
        """
        bell = Bell()
        try:
            self._settling.append(bell)
            while waiting := self._waiting.copy():
                newest = max(one.since for one in waiting)
                wait_s = min(deadline - time.monotonic(), newest + AT_ONCE_S - self._clock())
                if wait_s <= 0:
                    return False
                bell.wait(min(wait_s, LOOK_S))
            return True
        finally:
            with suppress(ValueError):
                self._settling.remove(bell)

    def close(self) -> None:
        """Give up: what is claimed is left to others, or to the next start."""
        with self._lock:
            left = list(self._waiting)
            self._waiting.clear()
        self._give_up([one for one in left if one.claim is None])

    def _pause(self, asked_s: float | None) -> None:
        """Wait before the next attempt: as long as was asked for, within reason, else longer each time."""
        asked_s = None if asked_s is None else min(asked_s, LONGEST_PAUSE_S)
        pause_s = pause_before(self._retry, asked_s, longest_s=LONGEST_PAUSE_S)
        self._retry += 1
        self._next = self._clock() + pause_s

    def _attempt(self, one: _PendingPost) -> tuple[bool, float | None]:
        """Return whether it need not be offered again, and else the seconds that were asked for."""
        if self._webhook is None:
            return True, None
        with self._guard:
            try:
                self._webhook.changed(one.change, one.said, one.resource)
            except NotTakenError as error:
                return False, error.pause_s
            with self._lock:
                self._delivered += 1
            return True, None
        # It was refused for good: the guard has counted and told that.
        with self._lock:
            self._not_delivered += 1
        return True, None

    def _is_ours(self, one: _PendingPost) -> bool:
        return one.claim is None or self._hold(one.claim)

    def _remove(self, *gone: _PendingPost) -> None:
        with self._lock:
            for one in gone:
                with suppress(ValueError):
                    self._waiting.remove(one)
        for bell in self._settling.copy():
            bell.ring()

    def _finish(self, one: _PendingPost) -> None:
        if one.claim is not None:
            self._done(one.claim)

    def _give_up(self, lost: Sequence[_PendingPost]) -> None:
        for one in lost:
            with self._lock:
                self._not_delivered += 1
            with self._guard:
                _log.warning("ragmeter: not delivered, as it was not taken: %s", one.said)
            self._finish(one)
