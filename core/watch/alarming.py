"""Check the scores of each five-minute slot once it is over, and notify people of changes.

One thread checks, another notifies (`notify`); nothing here runs on a request's path.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from ragmeter._runtime.guard import Guard
from ragmeter._runtime.queue import WorkerQueue, remaining
from ragmeter.exporters.changes import ChangeEvidence, ObservesChanges, ObservesDrift
from ragmeter.quality.merge import merge_sums
from ragmeter.quality.sums import SlotSums, unix_clock
from ragmeter.quality.sums_by_time import SLOT_S

from ._state_file import WatchFile
from .change import Change
from .notify import NoticeClaims, Notifier, OnChange
from .watch import ChangeNotice, Watch
from .webhook_retry import Deliveries

if TYPE_CHECKING:
    from ragmeter.exporters.webhook import ChangeWebhook
    from ragmeter.settings.options import Alarms

    from .judge_check import JudgeCheck

GRACE_S = 1.0
"""Seconds from the end of a slot to its check."""


class Elsewhere(Protocol):
    """Source of the scores of other processes."""

    def slots(self, since: float, until: float) -> Iterable[tuple[float, Sequence[SlotSums]]]:
        """Return the start (unix seconds) of each five-minute slot that has scores, and its sums, oldest first.

        Args:
            since: Earliest start, unix seconds.
            until: Latest end, unix seconds.
        """
        ...

    def complete(self) -> float:
        """Return the time up to which all data has arrived, unix seconds."""
        ...

    def explained(self, change: Change) -> Change:
        """Return the change with what is new since it began. On the notifier's thread; may raise and block."""
        ...

    def notifies_itself(self, resource: Mapping[str, str]) -> bool:
        """Return whether a service notifies people of its own changes. Never blocks."""
        ...


class Alarming:
    """Check the counted scores, and notify people of changes.

    Args:
        watch: Detects changes.
        slots: Returns the sums of completed slots that began at a time (unix seconds) or later.
        exporters: Those that implement `ObservesChanges` are notified.
        guard_for: Makes a guard for a component.
        alarms: Where changes are posted, and where the state is kept: without a file a restart learns the
            baselines again. None: neither.
        check: Checks the judge for drift; started and closed with this; None: no check.
        clock: Monotonic unix seconds; None: this machine's.

    Raises:
        ConfigurationError: `alarms.webhook` is no URL, or `alarms.state` cannot be a file.
        MissingDependencyError: The webhook's HTTP client is not installed.
    """

    def __init__(
        self,
        watch: Watch,
        slots: Callable[[float], Sequence[SlotSums]],
        exporters: Sequence[object],
        guard_for: Callable[[str], Guard],
        alarms: Alarms | None = None,
        check: JudgeCheck | None = None,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self.watch = watch
        self._slots = slots
        self._webhook: ChangeWebhook | None = None
        self._file: WatchFile | None = None
        language = "en"
        if alarms is not None:
            language = alarms.language
            if alarms.webhook is not None:
                from ragmeter.exporters.webhook import ChangeWebhook  # noqa: PLC0415 -- only when wanted

                self._webhook = ChangeWebhook(alarms.webhook, page=alarms.page)
            if alarms.state is not None:
                self._file = WatchFile(alarms.state, watch)
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
        self._elsewhere: Elsewhere | None = None
        # The previous process has sent the notifications for older slots.
        self._silent_before = 0.0 if watch.next else self._clock() - 2 * SLOT_S
        self._guard = guard_for("meter.changes")
        self._notifier = Notifier(observers, self._guard, self._clock, self._webhook, language)
        self._looking: WorkerQueue[None] = WorkerQueue(
            "ragmeter-watch",
            lambda _: self.look(),
            guard=guard_for("meter.watch"),
            on_drop=lambda *_: None,  # the next look covers a dropped wake-up
            tick=self._tick,
            max_items=1,
            max_bytes=1,
        )

    def on_change(self, callback: OnChange) -> None:
        """Call `callback` with every change from now on, on ragmeter's own thread."""
        self._notifier.on_change(callback)

    def tell(self, change: Change, resource: Mapping[str, str] | None = None) -> None:
        """Notify people of a change that was detected elsewhere. Never blocks."""
        self.watch.keep(change)
        self._notifier.put(ChangeNotice(change, resource or {}))

    def look_elsewhere(self, elsewhere: Elsewhere | None, claims: NoticeClaims | None = None) -> None:
        """Watch the scores of other processes, too; None: stop watching them.

        The threads start now, even if this process captures no request. A slot is checked when the data of
        other processes is complete. Without a state file, baselines are learned from the data already
        received, without notifications. `claims` decides which of several watching processes notifies; None:
        there is only this one.
        """
        self._elsewhere = elsewhere
        self._notifier.claim_by(claims)
        self._notifier.explain_by(None if elsewhere is None else elsewhere.explained)
        if elsewhere is not None:
            self._looking.start()
            self._notifier.start()

    def look(self) -> None:
        """Check the slots since the last look, and notify people of changes."""
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
        # Saved after the changes are claimed: a process that is killed in between detects them again.
        if self._file is not None:
            self._file.save_if_due()

    def _take(self, slots: Iterable[SlotSums], *, silently: bool = False) -> None:
        elsewhere = self._elsewhere
        for notice in self.watch.take(slots):
            # A service that sends its own notifications has done so already.
            if not (silently or (elsewhere is not None and elsewhere.notifies_itself(notice.resource))):
                self._notifier.put_claimed(notice)

    def _slots_with(self, elsewhere: Elsewhere) -> Iterator[tuple[float, list[SlotSums]]]:
        """Yield the slots of this and other processes by start time, oldest first."""
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
        """Return the evidence for changes, except of services that publish their own."""
        found = self.watch.evidence()
        elsewhere = self._elsewhere
        if elsewhere is None:
            return found
        return [one for one in found if not elsewhere.notifies_itself(one.resource)]

    def start(self) -> None:
        """Start the threads. The caller must hold no lock."""
        self._looking.start()
        self._notifier.start()
        if self._check is not None:
            self._check.start()

    def flush(self, deadline: float) -> bool:
        """Check and hand on all notifications; return whether this finished before `deadline` (monotonic)."""
        if not self._looking.is_alive:
            return True  # nothing was captured
        self._looking.put(None)
        looked = self._looking.flush(remaining(deadline))
        return self._notifier.flush(deadline) and looked

    def settle(self, deadline: float) -> bool:
        """Wait for the webhook; see `WebhookRetry.settle`."""
        return self._notifier.settle(deadline)

    def close(self, deadline: float) -> None:
        """Check and notify a last time, until `deadline` (monotonic), and stop."""
        if self._check is not None:
            self._check.close()
        self.flush(deadline)
        self._notifier.take_up(last=True)
        self._notifier.flush(deadline)
        self.settle(deadline)
        self._looking.close(0.0)
        if self._file is not None:
            with self._guard:
                self._file.save()
        if self._webhook is not None:
            self._webhook.close()
        self._notifier.close()

    def deliveries(self) -> Deliveries | None:
        """Return the counts of webhook deliveries; None: no webhook."""
        return None if self._webhook is None else self._notifier.deliveries()

    def _tick(self) -> float:
        with self._guard:
            self.look()
        return SLOT_S - self._clock() % SLOT_S + GRACE_S
