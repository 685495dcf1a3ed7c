"""Notify people of changes of quality: by log, exporters, webhook and callbacks, in this order.

Runs on its own thread, so that a slow callback does not delay the watch; errors of observers are contained.
If several processes watch the same scores, `NoticeClaims` decides which one notifies.
"""

from __future__ import annotations

import logging
import math
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NamedTuple, Protocol

from ragmeter._runtime.guard import Guard
from ragmeter._runtime.queue import WorkerQueue, remaining
from ragmeter.metrics import RagmeterError
from ragmeter.metrics._process import fork

from .change import Change
from .watch import ChangeNotice
from .webhook_retry import ChangeObserver, Deliveries, WebhookRetry
from .wording import word_change

OnChange = Callable[[Change], object]
"""Called with each change of quality."""
MAX_WAITING = 1_000
"""Most changes in the queue."""
PATIENCE_S = 600.0
"""Seconds to wait for a claim; after that, the process that detected the change notifies."""

_log = logging.getLogger("ragmeter")


class ClaimError(RagmeterError):
    """It is unknown, for now, whether another process notifies of a change."""


class NoticeClaims(Protocol):
    """Ensures that exactly one of several processes notifies of a change that all of them detect."""

    def claim(self, notice: ChangeNotice) -> str | None:
        """Return a persisted claim to notify of a change; None: another process has it.

        Raises:
            ClaimError: The claims cannot be read or written for now.
        """
        ...

    def left(self) -> Sequence[tuple[str, ChangeNotice]]:
        """Take over expired claims of other processes; return them with their notices. Raises as `claim`."""
        ...

    def hold(self, claim: str) -> bool:
        """Renew a claim; return whether this process still holds it. Raises as `claim`."""
        ...

    def done(self, claim: str) -> None:
        """Record that people were notified. Raises as `claim`."""
        ...


class _WaitingNotice(NamedTuple):
    notice: ChangeNotice
    claim: str | None = None
    """None: not claimed yet."""
    until: float | None = None
    """When to notify without a claim, unix seconds; None: no claim was tried yet."""


class Notifier:
    """Notifies people once of each change that this process holds or needs no claim for.

    Args:
        observers: Notified one after the other.
        guard: Contains the errors they raise.
        clock: Unix seconds.
        webhook: Notified as well, with retries for an hour.
        language: Language of what the webhook gets.
    """

    def __init__(
        self,
        observers: Sequence[ChangeObserver],
        guard: Guard,
        clock: Callable[[], float],
        webhook: ChangeObserver | None = None,
        language: str = "en",
    ) -> None:
        self._observers = tuple(observers)
        self._language = language
        self._guard = guard
        self._clock = clock
        self._callbacks: tuple[OnChange, ...] = ()
        self._claims: NoticeClaims | None = None
        self._explain: Callable[[Change], Change] | None = None
        self._later = WebhookRetry(webhook, guard, self._hold, self._done)
        self._fresh()
        fork.forget(self._fresh)
        self._queue: WorkerQueue[_WaitingNotice] = WorkerQueue(
            "ragmeter-changes",
            self._notify_batch,
            guard=guard,
            on_drop=lambda *_: None,  # the oldest notice: newer ones matter more
            tick=self._tick,
            max_items=MAX_WAITING,
            max_bytes=1,
        )

    def _fresh(self) -> None:
        # A forked child has none: its parent notifies.
        self._unclaimed: deque[_WaitingNotice] = deque(maxlen=MAX_WAITING)

    def on_change(self, callback: OnChange) -> None:
        """Call `callback` with every change from now on, on ragmeter's own thread."""
        self._callbacks = (*self._callbacks, callback)

    def claim_by(self, claims: NoticeClaims | None) -> None:
        """Use `claims` to decide which process notifies; None: this one notifies of all changes."""
        self._claims = claims

    def explain_by(self, explain: Callable[[Change], Change] | None) -> None:
        """Extend each change by `explain` before its notification; None: stop."""
        self._explain = explain

    def put(self, notice: ChangeNotice) -> None:
        """Queue a notification, to be claimed when it is its turn. Never blocks."""
        self._queue.put(_WaitingNotice(notice))

    def put_claimed(self, notice: ChangeNotice) -> None:
        """Queue a notification, claimed before this returns if possible, so that a kill cannot lose it."""
        claims = self._claims
        if claims is None:
            self.put(notice)
            return
        try:
            claim = claims.claim(notice)
        except ClaimError:
            self.put(notice)
            return
        if claim is not None:
            self._queue.put(_WaitingNotice(notice, claim))

    def take_up(self, *, last: bool = False) -> None:
        """Queue expired claims of others, and unclaimed changes; `last`: even without a claim. May block."""
        claims = self._claims
        if claims is None:
            return
        with suppress(IndexError):  # `close` takes from it, too
            for _ in range(len(self._unclaimed)):
                one = self._unclaimed.popleft()
                self._queue.put(one._replace(until=-math.inf) if last else one)
        if last:
            return
        with suppress(ClaimError):  # the next tick tries again
            for claim, notice in claims.left():
                self._queue.put(_WaitingNotice(notice, claim))

    def start(self) -> None:
        """Start the thread. The caller must hold no lock."""
        self._queue.start()

    def deliveries(self) -> Deliveries:
        """Return the counts of webhook deliveries."""
        return self._later.deliveries()

    def flush(self, deadline: float) -> bool:
        """Hand on all notifications; return whether this finished before `deadline` (monotonic)."""
        return self._queue.flush(remaining(deadline))

    def settle(self, deadline: float) -> bool:
        """Wait for the webhook; see `WebhookRetry.settle`."""
        return self._later.settle(deadline)

    def close(self) -> None:
        """Stop without further notifications; other processes take over claimed ones."""
        self._queue.close(0.0)
        self._later.close()

    def _notify_batch(self, batch: Sequence[_WaitingNotice]) -> None:
        for one in batch:
            claims = self._claims
            if claims is None:
                self._notify(one.notice, None)
                continue
            try:
                claim = claims.claim(one.notice) if one.claim is None else one.claim
                is_ours = claim is not None and claims.hold(claim)
            except ClaimError:
                if one.claim is None and self._waits(one):
                    continue
                claim, is_ours = one.claim, True
            if not is_ours:
                continue
            if self._notify(one.notice, claim) and claim is not None:
                self._done(claim)

    def _tick(self) -> float | None:
        with self._guard:
            return self._later.step()
        return None

    def _hold(self, claim: str) -> bool:
        """Return whether this process holds a claim, or whether that is unknown."""
        with suppress(ClaimError):
            return self._claims is None or self._claims.hold(claim)
        return True

    def _done(self, claim: str) -> None:
        if self._claims is not None:
            with suppress(ClaimError):  # a second notification is better than none
                self._claims.done(claim)

    def _waits(self, one: _WaitingNotice) -> bool:
        """Postpone a change that cannot be claimed; return False if it has waited long enough."""
        now = self._clock()
        until = now + PATIENCE_S if one.until is None else one.until
        if now >= until:
            return False
        self._unclaimed.append(one._replace(until=until))
        return True

    def _notify(self, notice: ChangeNotice, claim: str | None) -> bool:
        """Notify people of a change; return False if the webhook has to be retried."""
        change, resource = notice
        explain = self._explain
        if explain is not None and change.kind not in ("recovered", "version"):
            with self._guard:
                change = explain(change)
        sentence = word_change(change)
        with self._guard:
            _log.log(logging.INFO if change.kind == "recovered" else logging.WARNING, "ragmeter: %s", sentence)
        for observer in self._observers:
            with self._guard:
                observer.changed(change, sentence, resource)
        is_done = self._later.offer(change, word_change(change, self._language), resource, claim)
        for callback in self._callbacks:
            with self._guard:
                callback(change)
        return is_done
