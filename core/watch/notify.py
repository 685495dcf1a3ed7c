"""Tells people of changes of quality: log, exporters, webhook and callbacks, in this order.

Called by `Alarming`.  A thread of its own does it, so that a callback that takes its time delays no look at
the scores; what one of them raises is contained.  Where several processes see the same scores, `NoticeClaims`
decides which of them tells; nothing here knows how.
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
from .webhook_retry import Deliveries, TellsChanges, WebhookRetry
from .wording import word_change

__all__ = ["ClaimError", "NoticeClaims", "Notifier", "OnChange"]

OnChange = Callable[[Change], object]
"""Called with each change of quality."""
MAX_WAITING = 1_000
"""Changes that may wait for their notification."""
PATIENCE_S = 600.0
"""Seconds for which a change waits for it to be known who tells it; then it is the finder's to tell."""

_log = logging.getLogger("ragmeter")


class ClaimError(RagmeterError):
    """It cannot be known just now whether another process tells of a change."""


class NoticeClaims(Protocol):
    """Sees to it that of several processes that find the same change one tells it, and that one does."""

    def claim(self, told: ChangeNotice) -> str | None:
        """Return the claim to tell of a change, which is kept before this returns; None: another has it.

        Raises:
            ClaimError: That cannot be known just now.
        """
        ...

    def left(self) -> Sequence[tuple[str, ChangeNotice]]:
        """Take over what others claimed and did not tell in time; return it with our claims.

        Raises as `claim`.
        """
        ...

    def hold(self, claim: str) -> bool:
        """Return whether a claim is ours still, and keep it a while longer. Raises as `claim`."""
        ...

    def done(self, claim: str) -> None:
        """Note that people were notified. Raises as `claim`."""
        ...


class _WaitingNotice(NamedTuple):
    told: ChangeNotice
    claim: str | None = None
    """None: no one has claimed it yet."""
    until: float | None = None
    """When people are notified without a claim, unix seconds; None: no claim was tried for yet."""


class Notifier:
    """Tells of each change once, as far as this process is the one to do it.

    Args:
        tellers: Are notified, one after the other.
        guard: Contains what they raise.
        clock: Unix seconds.
        webhook: Is notified, too, and again for an hour until it takes a change.
    """

    def __init__(
        self,
        tellers: Sequence[TellsChanges],
        guard: Guard,
        clock: Callable[[], float],
        webhook: TellsChanges | None = None,
    ) -> None:
        self._tellers = tuple(tellers)
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
            self._tell,
            guard=guard,
            on_drop=_ignore,
            tick=self._tick,
            max_items=MAX_WAITING,
            max_bytes=1,
        )

    def _fresh(self) -> None:
        # In a child there are none: they are the parent's to tell.
        self._unclaimed: deque[_WaitingNotice] = deque(maxlen=MAX_WAITING)

    def on_change(self, callback: OnChange) -> None:
        """Call `callback` with every change from now on, on ragmeter's own thread."""
        self._callbacks = (*self._callbacks, callback)

    def claim_by(self, claims: NoticeClaims | None) -> None:
        """Ask `claims` who tells, from now on; None: this process tells of all that it finds."""
        self._claims = claims

    def explain_by(self, explain: Callable[[Change], Change] | None) -> None:
        """Have `explain` add what it knows to each change from now on; None: nothing is added."""
        self._explain = explain

    def put(self, told: ChangeNotice) -> None:
        """Notify people of a change. Never blocks: it is claimed when its turn comes."""
        self._queue.put(_WaitingNotice(told))

    def put_claimed(self, told: ChangeNotice) -> None:
        """Notify people of a change, claimed before this returns if it can be: a kill then loses it no more."""
        claims = self._claims
        if claims is None:
            self.put(told)
            return
        try:
            claim = claims.claim(told)
        except ClaimError:
            self.put(told)
            return
        if claim is not None:
            self._queue.put(_WaitingNotice(told, claim))

    def take_up(self, *, last: bool = False) -> None:
        """Take up what others have left untold, and what could not be claimed. May wait for others.

        Args:
            last: There is no other time: what cannot be claimed now goes out.
        """
        claims = self._claims
        if claims is None:
            return
        with suppress(IndexError):  # the end takes them up, too
            for _ in range(len(self._unclaimed)):
                one = self._unclaimed.popleft()
                self._queue.put(one._replace(until=-math.inf) if last else one)
        if last:
            return
        with suppress(ClaimError):  # there is another time, and there are others
            for claim, told in claims.left():
                self._queue.put(_WaitingNotice(told, claim))

    def start(self) -> None:
        """Start the thread. To be called below no lock."""
        self._queue.start()

    def deliveries(self) -> Deliveries:
        """Return what became of the changes that were posted."""
        return self._later.deliveries()

    def flush(self, deadline: float) -> bool:
        """Notify people of everything; return whether that was done before `deadline` (monotonic).

        What a webhook has not taken for a minute is not waited for.
        """
        return self._queue.flush(remaining(deadline)) and self._later.settle(deadline)

    def close(self) -> None:
        """Stop; people are not notified of the rest, but for what is claimed: others tell that."""
        self._queue.close(0.0)
        self._later.close()

    def before_fork(self, deadline: float) -> None:
        """Let the thread not be in the middle of something, if that is so before `deadline`."""
        self._queue.before_fork(deadline)

    def after_fork_in_parent(self) -> None:
        """Let it go on."""
        self._queue.after_fork_in_parent()

    def _tell(self, batch: Sequence[_WaitingNotice]) -> None:
        for one in batch:
            claims = self._claims
            if claims is None:
                self._say(one.told, None)
                continue
            try:
                claim = claims.claim(one.told) if one.claim is None else one.claim
                is_ours = claim is not None and claims.hold(claim)
            except ClaimError:
                if one.claim is None and self._waits(one):
                    continue
                claim, is_ours = one.claim, True
            if not is_ours:
                continue
            if self._say(one.told, claim) and claim is not None:
                self._done(claim)

    def _tick(self) -> float | None:
        with self._guard:
            return self._later.step()
        return None

    def _hold(self, claim: str) -> bool:
        """Return whether a claim is ours; where that cannot be known, it is."""
        with suppress(ClaimError):
            return self._claims is None or self._claims.hold(claim)
        return True

    def _done(self, claim: str) -> None:
        if self._claims is not None:
            with suppress(ClaimError):  # it may be told again, which is better than never
                self._claims.done(claim)

    def _waits(self, one: _WaitingNotice) -> bool:
        """Return whether a change that cannot be claimed waits until it can be."""
        now = self._clock()
        until = now + PATIENCE_S if one.until is None else one.until
        if now >= until:
            return False
        self._unclaimed.append(one._replace(until=until))
        return True

    def _say(self, told: ChangeNotice, claim: str | None) -> bool:
        """Tell of a change; return whether that is done: a webhook may not have taken it yet."""
        change, resource = told
        explain = self._explain
        if explain is not None and change.kind not in ("recovered", "version"):
            with self._guard:
                change = explain(change)
        said = word_change(change)
        with self._guard:
            _log.log(
                logging.INFO if change.kind == "recovered" else logging.WARNING,
                "ragmeter: %s",
                said,
            )
        for teller in self._tellers:
            with self._guard:
                teller.changed(change, said, resource)
        is_done = self._later.offer(change, said, resource, claim)
        for callback in self._callbacks:
            with self._guard:
                callback(change)
        return is_done


def _ignore(_item: object, _reason: str) -> None:
    """Drop it: a newer change says more."""
