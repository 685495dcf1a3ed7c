"""Runs the watch over scores: a look at every five minutes that are over, and word of what changed.

A thread of its own, for a meter that was asked to watch; another one tells (`notify`).  The request's
path has no part in it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from ragmeter._runtime.guard import Guard
from ragmeter._runtime.queue import WorkerQueue, remaining
from ragmeter.exporters.changes import (
    ChangeEvidence,
    ObservesChanges,
    ObservesDrift,
)
from ragmeter.quality.merge import merge_sums
from ragmeter.quality.sums import SLOT_S, SlotSums, unix_clock

from ._state_file import WatchFile
from .change import Change
from .notify import NoticeClaims, Notifier, OnChange
from .watch import ChangeNotice, Watch
from .webhook_retry import Deliveries

if TYPE_CHECKING:
    from ragmeter.exporters.webhook import ChangeWebhook

    from .judge_check import JudgeCheck

__all__ = ["Alarming", "Elsewhere", "ElsewhereSlot", "alarming_of"]

GRACE_S = 1.0
"""Seconds after the end of five minutes at which they are looked at."""


class ElsewhereSlot(NamedTuple):
    """What was counted in other processes in five minutes."""

    at: float
    """When they began, unix seconds: a multiple of `SLOT_S`."""
    sums: Sequence[SlotSums]
    """What was counted in them, by service, score, workflow and segment."""


class Elsewhere(Protocol):
    """Knows what was scored in other processes."""

    def slots(self, since: float, until: float) -> Iterable[ElsewhereSlot]:
        """Return the five minutes in which anything was, oldest first.

        Args:
            since: Those that began then or later, unix seconds.
            until: Those that were over by then.
        """
        ...

    def complete(self) -> float:
        """Return until when everything has come, unix seconds."""
        ...

    def explained(self, change: Change) -> Change:
        """Return the change with what is new since then. On the thread that tells; may raise, and wait."""
        ...

    def tells_itself(self, resource: Mapping[str, str]) -> bool:
        """Return whether a service tells of its changes itself. Never blocks."""
        ...


class Alarming:
    """Looks at what was counted, and tells of what changed.

    Args:
        watch: Says what changed.
        slots: Returns what was counted in the five minutes that are over, from a time on (unix seconds).
        exporters: Those that publish changes are notified of them.
        guard_for: Makes a guard for a component.
        webhook: Is notified, too; None: there is none.
        check: Says whether judges still judge as they did; None: no one looks. It lives as long as this.
        file: Keeps what is known; None: a restart learns again.
        clock: Unix seconds that never go back; None: those of this machine.
    """

    def __init__(
        self,
        watch: Watch,
        slots: Callable[[float], Sequence[SlotSums]],
        exporters: Sequence[object],
        guard_for: Callable[[str], Guard],
        *,
        webhook: ChangeWebhook | None = None,
        check: JudgeCheck | None = None,
        file: WatchFile | None = None,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self.watch = watch
        self._slots = slots
        self._webhook = webhook
        observers = [one for one in exporters if isinstance(one, ObservesChanges)]
        for observer in observers:
            observer.observe_changes(self._evidence)
        self._check = check
        if check is not None:
            check.on_moved(self.tell)
            for one in exporters:
                if isinstance(one, ObservesDrift):
                    one.observe_drift(check.drifts)
        self._clock = clock or unix_clock()
        self._file = file
        self._elsewhere: Elsewhere | None = None
        # What is as old as that was told by the process before, if it was to be told.
        self._silent_before = 0.0 if watch.next else self._clock() - 2 * SLOT_S
        self._guard = guard_for("meter.changes")
        self._notifier = Notifier(observers, self._guard, self._clock, webhook)
        self._looking: WorkerQueue[None] = WorkerQueue(
            "ragmeter-watch",
            lambda _: self.look(),
            guard=guard_for("meter.watch"),
            on_drop=_ignore,
            tick=self._tick,
            max_items=1,
            max_bytes=1,
        )

    def on_change(self, callback: OnChange) -> None:
        """Call `callback` with every change from now on, on ragmeter's own thread."""
        self._notifier.on_change(callback)

    def tell(self, change: Change, resource: Mapping[str, str] | None = None) -> None:
        """Tell of a change that was found elsewhere. Never blocks."""
        self.watch.keep(change)
        self._notifier.put(ChangeNotice(change, resource or {}))

    def look_elsewhere(
        self, elsewhere: Elsewhere | None, claims: NoticeClaims | None = None
    ) -> None:
        """Watch over what other processes scored, too, from now on; None: no longer.

        Nothing need be captured here for that: the threads start now.  Everything is looked at when
        that of other processes is complete, which is later.  Where nothing is known of the past, as the
        file is gone that it was kept in, it is learned from what they have sent, and people hear nothing.
        Of several processes that look at the same, `claims` says who tells; None: there is one.
        """
        self._elsewhere = elsewhere
        self._notifier.claim_by(claims)
        self._notifier.explain_by(None if elsewhere is None else elsewhere.explained)
        if elsewhere is not None:
            self._looking.start()
            self._notifier.start()

    def look(self) -> None:
        """Look at what was counted since the last look, and notify people of what changed."""
        elsewhere = self._elsewhere
        if elsewhere is None:
            self._take(self._slots(self.watch.next))
            for change, resource in list(self.watch.versions.changes(self._clock())):
                self.tell(change, resource)
        else:
            for at, slots in self._slots_with(elsewhere):
                self._take(slots, silently=at < self._silent_before)
            self._silent_before = 0.0
        self._notifier.take_up()
        # After what was found is claimed: who is killed in between finds it again.
        if self._file is not None:
            self._file.save_if_due()

    def _take(self, slots: Iterable[SlotSums], *, silently: bool = False) -> None:
        elsewhere = self._elsewhere
        for told in self.watch.take(slots):
            # Where the application tells of its changes itself, people have been told.
            if not (silently or (elsewhere is not None and elsewhere.tells_itself(told.resource))):
                self._notifier.put_claimed(told)

    def _slots_with(self, elsewhere: Elsewhere) -> Iterator[tuple[float, list[SlotSums]]]:
        """Yield what was counted here and elsewhere, by when it began, oldest first."""
        until = elsewhere.complete()
        own: dict[float, list[SlotSums]] = {}
        for slot in self._slots(self.watch.next):
            if slot.at + SLOT_S <= until:
                own.setdefault(slot.at, []).append(slot)
        for at, sums in elsewhere.slots(self.watch.next, until):
            for earlier in sorted(each for each in own if each < at):
                yield earlier, own.pop(earlier)
            yield at, merge_sums(own.pop(at, ()), sums)
        yield from sorted(own.items())

    def _evidence(self) -> list[ChangeEvidence]:
        """Return the evidence for changes; of a service that publishes its own, that is enough."""
        found = self.watch.evidence()
        elsewhere = self._elsewhere
        if elsewhere is None:
            return found
        return [one for one in found if not elsewhere.tells_itself(one.resource)]

    def start(self) -> None:
        """Start the threads. To be called below no lock."""
        self._looking.start()
        self._notifier.start()
        if self._check is not None:
            self._check.start()

    def flush(self, deadline: float) -> bool:
        """Look, and notify people of everything; return whether that was done before `deadline` (monotonic)."""
        if not self._looking.is_alive:
            return True  # nothing was captured
        self._looking.put(None)
        looked = self._looking.flush(remaining(deadline))
        return self._notifier.flush(deadline) and looked

    def close(self, deadline: float) -> None:
        """Look and tell a last time, until `deadline` (monotonic), and stop."""
        if self._check is not None:
            self._check.close()
        self.flush(deadline)
        self._notifier.take_up(last=True)
        self._notifier.flush(deadline)
        self._looking.close(0.0)
        if self._file is not None:
            with self._guard:
                self._file.save()
        if self._webhook is not None:
            self._webhook.close()
        self._notifier.close()

    def before_fork(self, deadline: float) -> None:
        """Let no thread of these be in the middle of something, if that is so before `deadline`."""
        self._looking.before_fork(deadline)
        self._notifier.before_fork(deadline)

    def after_fork_in_parent(self) -> None:
        """Let them go on."""
        self._notifier.after_fork_in_parent()
        self._looking.after_fork_in_parent()

    def deliveries(self) -> Deliveries | None:
        """Return what became of the changes that were posted; None: there is no webhook."""
        return None if self._webhook is None else self._notifier.deliveries()

    def _tick(self) -> float:
        with self._guard:
            self.look()
        return SLOT_S - self._clock() % SLOT_S + GRACE_S


def alarming_of(
    slots: Callable[[float], Sequence[SlotSums]],
    exporters: Sequence[object],
    guard_for: Callable[[str], Guard],
    webhook: str | None = None,
    check: JudgeCheck | None = None,
    state: str | os.PathLike[str] | None = None,
) -> Alarming:
    """Return what watches over a meter's scores.

    Args:
        slots: See `Alarming`.
        exporters: As above.
        guard_for: As above.
        webhook: Address that changes are posted to; None: nowhere.
        check: See `Alarming`.
        state: File that what is known is kept in; None: nowhere.

    Raises:
        ConfigurationError: `webhook` is no address, or `state` no file.
        MissingDependencyError: What posts to it is not installed.
    """
    posting = None
    if webhook is not None:
        from ragmeter.exporters.webhook import ChangeWebhook  # noqa: PLC0415 -- only when wanted

        posting = ChangeWebhook(webhook)
    watch = Watch(ruler=check)
    file = None if state is None else WatchFile(state, watch)
    return Alarming(watch, slots, exporters, guard_for, webhook=posting, check=check, file=file)


def _ignore(_item: object, _reason: str) -> None:
    """Drop it: there is another look."""
