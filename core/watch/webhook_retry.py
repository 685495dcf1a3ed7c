"""Post changes to a webhook, with retries and backoff for an hour.

`Notifier` calls `WebhookRetry` on its thread, between two changes. Log, exporters and callbacks are not
notified again. A waiting change keeps its claim, so that no other server posts it; if this process is killed,
another one takes over.
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

PATIENCE_S = 3600.0
"""Seconds of retries; after that, a change counts as not delivered."""
AT_ONCE_S = 60.0
"""Seconds for which a flush waits for a change."""
LONGEST_PAUSE_S = 60.0
"""Longest pause between two attempts, in seconds; claims last three times as long."""
MAX_WAITING = 100
"""Most waiting changes; beyond that, the oldest count as not delivered."""

_log = logging.getLogger("ragmeter")


class ChangeObserver(Protocol):
    """Receives changes: an exporter or a webhook."""

    def changed(self, change: QualityChange, sentence: str, resource: Mapping[str, str]) -> None:
        """Receive a change, with one sentence about it.

        Raises:
            NotTakenError: It was not accepted, and may be later.
        """
        ...


class Deliveries(NamedTuple):
    """Counts of posted changes."""

    delivered: int
    """Accepted by the webhook."""
    waiting: int
    """Not accepted yet; will be retried."""
    not_delivered: int
    """Refused, or not accepted within an hour."""


class _PendingPost(NamedTuple):
    change: Change
    sentence: str
    resource: Mapping[str, str]
    claim: str | None
    since: float


class WebhookRetry:
    """Posts changes, with retries. Thread-safe.

    Args:
        webhook: Receives the changes; None: no webhook.
        guard: Contains errors.
        hold: Returns whether this process still holds a claim.
        done: Called with the claim of a change that no longer waits.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        webhook: ChangeObserver | None,
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
        # A forked child has none: its parent delivers.
        self._lock = threading.Lock()
        self._waiting: deque[_PendingPost] = deque()
        self._next = 0.0
        self._retry = 0
        self._delivered = 0
        self._not_delivered = 0
        self._settling: list[Bell] = []

    def deliveries(self) -> Deliveries:
        """Return the counts so far."""
        with self._lock:
            return Deliveries(self._delivered, len(self._waiting), self._not_delivered)

    def offer(
        self, change: Change, sentence: str, resource: Mapping[str, str], claim: str | None = None
    ) -> bool:
        """Post a change; return False if it has to be retried, in which case `done` is called later."""
        one = _PendingPost(change, sentence, resource, claim, self._clock())
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
        """Retry one change, if due; return the seconds until the next retry, None: nothing waits."""
        now = self._clock()
        with self._lock:
            waiting, due = tuple(self._waiting), self._next
        if not waiting:
            return None
        if now < due:
            return due - now
        old = [one for one in waiting if now - one.since >= PATIENCE_S]
        # Check all, as one may wait long behind others; those claimed by another server are dropped here.
        claimed = [one for one in waiting if one not in old and one.claim is not None]
        lost = [one for one in claimed if not self._hold(one.claim or "")]
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
                # A change that never succeeds must not block the others.
                self._waiting.rotate(-1)
        if taken:
            self._remove(first)
            self._finish(first)
        return 0.0

    def settle(self, deadline: float) -> bool:
        """Wait for changes younger than a minute, until `deadline` (monotonic); another thread calls `step`.

        Return whether nothing waits.
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
        """Give up; other processes, or the next start, take over claimed changes."""
        with self._lock:
            left = list(self._waiting)
            self._waiting.clear()
        self._give_up([one for one in left if one.claim is None])

    def _pause(self, asked_s: float | None) -> None:
        """Set the next attempt: after the requested pause, capped, or with backoff."""
        asked_s = None if asked_s is None else min(asked_s, LONGEST_PAUSE_S)
        pause_s = pause_before(self._retry, asked_s, longest_s=LONGEST_PAUSE_S)
        self._retry += 1
        self._next = self._clock() + pause_s

    def _attempt(self, one: _PendingPost) -> tuple[bool, float | None]:
        """Post a change once; return whether it is finished, else the pause the webhook asked for."""
        if self._webhook is None:
            return True, None
        with self._guard:
            try:
                self._webhook.changed(one.change, one.sentence, one.resource)
            except NotTakenError as error:
                return False, error.pause_s
            with self._lock:
                self._delivered += 1
            return True, None
        # Refused for good: the guard has counted and logged it.
        with self._lock:
            self._not_delivered += 1
        return True, None

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
                _log.warning("ragmeter: not delivered to the webhook: %s", one.sentence)
            self._finish(one)
