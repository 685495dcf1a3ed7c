"""Watch every score of every service: `Watch` feeds the detectors and reports changes.

It takes the sums of each five-minute slot and selects the alarms of a service together, so that many segments
raise no more false alarms than one score. It has no clock and no thread (`ragmeter.watch.alarming` has them),
and survives a restart by its `state`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from pydantic import TypeAdapter

from ragmeter.exporters.changes import ChangeEvidence, ChangeNote
from ragmeter.exporters.protocol import QualitySums
from ragmeter.metrics._process import fork
from ragmeter.quality.estimates import Estimate
from ragmeter.quality.manner import PARTS, notes_on_fall
from ragmeter.quality.measurement import BY_WORDS
from ragmeter.quality.sums import SlotSums
from ragmeter.quality.sums_by_time import SLOT_S

from ._watched_series import SeriesKey, SeriesState
from .change import Change, Fall
from .evidence import ALARM_EVIDENCE, e_bh
from .history import History
from .mix_shift import mix_change
from .version_watch import VersionWatch

if TYPE_CHECKING:
    from .judge_check import JudgeCheck

_Resource = tuple[tuple[str, str], ...]
_NAME = "service.name"
_ENVIRONMENT = "deployment.environment.name"
_OLD_ENVIRONMENT = "deployment.environment"

LONGEST_PENDING_S = 86_400.0
"""Most seconds that an alarm waits for a check of the judge."""
RECENT_S = 1800.0
"""Seconds that count as now, if the end of a fall has no known time."""
MIX_SHARE = 0.75
"""Least share of a fall due to changed shares of segments to call it a change of the mix."""
BESIDE = ("empty_retrieval", "fact_conflict")
"""Scores that do not depend on an answer's manner, quoted with a fall of those that do."""
MAX_SERIES = 3_000
"""Most watched series: scores × workflows × segments × services."""
FORGOTTEN_AFTER_S = 15 * 86_400.0
"""Seconds without a value after which a series is dropped."""
REPLACED_AFTER_S = 3600.0
"""Seconds without a value after which a series counts as replaced, if another judge measures the same score."""
MOST_EVIDENCE = 1e12
"""Cap of the evidence: JSON has no infinity."""
MAX_CHANGES = 100


class ChangeNotice(NamedTuple):
    """A change to notify people of."""

    change: Change
    resource: Mapping[str, str]
    """The resource of its service, if that is another process."""

    def to_json(self) -> str:
        """Return the notice as JSON, for `from_json`."""
        return _NOTICE.dump_json(self).decode()

    @classmethod
    def from_json(cls, text: str) -> ChangeNotice:
        """Restore a notice. Raises ValueError if it is of another version, or damaged."""
        return _NOTICE.validate_json(text)


_NOTICE = TypeAdapter(ChangeNotice)


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchedSeries:
    """State of the watch of one score."""

    service: str
    workflow: str
    score: str
    segment: str
    status: Literal["learning", "watching", "fallen"]
    """``learning``: no baseline yet."""
    evidence: float
    """Evidence for a fall; an alarm needs 1, or a little more with several series."""
    baseline: float | None
    """The usual mean in this hour, in the score's own direction; None: unknown."""
    scores: int
    """Number of values in the last two weeks."""
    since: float | None
    """Start of the current or suspected fall, unix seconds."""
    measurement: str = ""
    """Formula and judge, see `ragmeter.quality.measurement`: each has its own baseline."""


@dataclass(slots=True)
class _WatchedService:
    """The series of one service, whose alarms are selected together."""

    resource: Mapping[str, str]
    series: dict[SeriesKey, SeriesState] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class _WatchState:
    """What a restart needs."""

    version: Literal[2] = 2
    next: float
    past: Sequence[Change]
    services: Sequence[tuple[dict[str, str], Sequence[tuple[SeriesKey, SeriesState]]]]
    """The resource of each, and its series."""
    versions: Any


_STATE = TypeAdapter(_WatchState)


class Watch:
    """Feeds one detector per score, workflow and segment of each service. Thread-safe.

    Args:
        check: Knows whether judges have drifted; None: not checked.

    Attributes:
        versions: Compares new versions with the one before.
    """

    def __init__(self, *, check: JudgeCheck | None = None) -> None:
        self._check = check
        self.versions = VersionWatch()
        self._lock = fork.lock()
        self._fresh()
        fork.forget(self._fresh)

    def _fresh(self) -> None:
        self._services: dict[_Resource, _WatchedService] = {}
        self._next = 0.0
        self._past: deque[Change] = deque(maxlen=MAX_CHANGES)

    @property
    def next(self) -> float:
        """Start of the next slot to take, unix seconds."""
        return self._next

    def take(self, slots: Iterable[SlotSums]) -> list[ChangeNotice]:
        """Take the sums of completed slots, oldest first; return the changes.

        Args:
            slots: The sums; slots taken before are ignored.
        """
        notices: list[ChangeNotice] = []
        with self._lock:
            for at, group in groupby(slots, key=lambda slot: slot.at):
                if at < self._next:
                    continue
                self._next = at + SLOT_S
                by_service: dict[_Resource, dict[SeriesKey, QualitySums]] = {}
                for slot in group:
                    counted = slot.counted
                    name = counted.resource.get(_NAME, "")
                    key = SeriesKey(name, counted.workflow, counted.score, counted.segment, counted.measured_by)
                    by_service.setdefault(_key_of(counted.resource), {})[key] = counted
                for resource, found in by_service.items():
                    notices += self._step(resource, at, found, self._next)
                self._forget(at)
            self._past.extend(one.change for one in notices)
        return notices

    def keep(self, change: Change) -> None:
        """Remember a change that was detected elsewhere."""
        with self._lock:
            self._past.append(change)

    def changes(self, *, on: bool = False) -> tuple[Change, ...]:
        """Return the ongoing changes, then the latest past ones, each newest first.

        Args:
            on: Only ongoing changes.
        """
        with self._lock:
            every = (one for service in self._services.values() for one in service.series.values())
            now = [one.fall for one in every if one.fall is not None]
            now.sort(key=lambda change: change.at, reverse=True)
            if on:
                return tuple(now)
            return (*now, *(one for one in reversed(self._past) if one not in now))

    def series(self) -> tuple[WatchedSeries, ...]:
        """Return the state of each watched score."""
        with self._lock:
            return tuple(
                WatchedSeries(
                    **key._asdict(),
                    status=one.step.status,
                    evidence=one.ratio,
                    baseline=None if one.step.baseline is None else one.on_score_scale(one.step.baseline),
                    scores=one.estimate(one.history.split(0.0)[1]).n_judged,
                    since=one.step.since,
                )
                for service in self._services.values()
                for key, one in service.series.items()
                if key.score not in PARTS
            )

    def evidence(self) -> list[ChangeEvidence]:
        """Return the evidence for a change of every score that has a baseline."""
        drifts = () if self._check is None else self._check.drifts()
        with self._lock:
            found = [
                ChangeEvidence(
                    score=key.score,
                    workflow=key.workflow,
                    segment=key.segment,
                    kind="fell" if one.fall is None else one.fall.kind,
                    resource=service.resource,
                    evidence=one.ratio,
                )
                for service in self._services.values()
                for key, one in _clearest(service.series).items()
            ]
        return found + [
            ChangeEvidence(score=one.score, workflow="", kind="judge", evidence=2.0)
            for one in drifts
            if one.has_moved
        ]

    def accept(
        self,
        score: str | None = None,
        *,
        workflow: str | None = None,
        segment: str | None = None,
        service: str | None = None,
    ) -> int:
        """Accept the current level as the new baseline, which ends a change. Return the number of series reset.

        Args:
            score: Of this score; None: of all.
            workflow: Of this workflow; None: of all.
            segment: Of this segment, empty for the whole; None: of all.
            service: Of this service; None: of all.
        """
        wanted = (service, workflow, score, segment)
        with self._lock:
            found = [
                one
                for each in self._services.values()
                for key, one in each.series.items()
                if all(given in (None, value) for given, value in zip(wanted, key, strict=False))
            ]
            for one in found:
                one.accept()
            return len(found)

    def mark(self, service: str | None = None) -> int:
        """Note a deployment: learn a new baseline. Return the number of series reset.

        What a deployment made worse is no change then: `RagMeter.objective` sees it.

        Args:
            service: Of this service; None: of all.
        """
        with self._lock:
            found = [
                series
                for one in self._services.values()
                if service in (None, one.resource.get(_NAME, ""))
                for series in one.series.values()
            ]
            for series in found:
                series.restart()
            return len(found)

    def state(self) -> dict[str, Any]:
        """Return the state as JSON values."""
        with self._lock:
            state = _WatchState(
                next=self._next,
                past=list(self._past),
                services=[(dict(one.resource), list(one.series.items())) for one in self._services.values()],
                versions=self.versions.state(),
            )
            found: dict[str, Any] = _STATE.dump_python(state, mode="json")
            return found

    def restore(self, state: object) -> None:
        """Go on from what `state` returned.

        Raises:
            ValueError, TypeError: It is of another version, or damaged; nothing is taken over.
        """
        kept = _STATE.validate_python(state)
        self.versions.restore(kept.versions)
        with self._lock:
            self._services = {
                _key_of(resource): _WatchedService(resource, dict(series)) for resource, series in kept.services
            }
            self._next = kept.next
            self._past = deque(kept.past, maxlen=MAX_CHANGES)

    def _step(
        self, resource: _Resource, at: float, found: Mapping[SeriesKey, QualitySums], now: float
    ) -> list[ChangeNotice]:
        service = self._services.setdefault(resource, _WatchedService(dict(resource)))
        notices: list[ChangeNotice] = []
        room = MAX_SERIES - sum(len(each.series) for each in self._services.values())
        for key in [key for key in found if key not in service.series][: max(room, 0)]:
            counted = found[key]
            service.series[key] = SeriesState(counted, History(judged="w" in counted.sums))
        for key, one in service.series.items():
            if one.take(at, found.get(key)).recovered:
                if one.fall is not None:
                    notices.append(ChangeNotice(_recovery(key, one, one.fall, now), service.resource))
                one.calm()
        for key in _replaced_series(service.series, at):
            # A new judge or formula says nothing about the series of the old one.
            service.series[key].calm()
        notices += [ChangeNotice(change, service.resource) for change in self._alarms(service, at, now)]
        return notices

    def _alarms(self, service: _WatchedService, at: float, now: float) -> list[Change]:
        replaced = _replaced_series(service.series, at)
        known = {
            key: one.step.evidence
            for key, one in service.series.items()
            if one.step.status != "learning" and key not in replaced
        }
        chosen: set[SeriesKey] = set()
        for family in (
            {key: value for key, value in known.items() if not key.segment},
            {key: value for key, value in known.items() if key.segment},
        ):
            chosen |= e_bh(family)
        alarmed: dict[SeriesKey, tuple[SeriesState, Fall]] = {}
        for key, one in sorted(service.series.items()):
            if key in chosen:
                one.peak = one.step.evidence / ALARM_EVIDENCE
                fall = one.detector.alarm(at)
                if one.held is None:
                    one.held, one.held_since = fall, now
            # The detector stops learning at once; only the notification waits.
            if one.held is not None and not self._is_held(key, one, now):
                alarmed[key] = one, one.held
                one.held = None
        changes: list[Change] = []
        for key, (one, fall) in alarmed.items():
            if key.segment:
                continue
            parts = {part: each for part, each in alarmed.items() if _is_part(part, key)}
            one.fall = self._change(service, key, one, fall, now, list(parts))
            changes.append(one.fall)
        for key, (one, fall) in alarmed.items():
            if not key.segment:
                continue
            one.fall = self._change(service, key, one, fall, now, [])
            # The change of the whole already names its parts.
            if key._replace(segment="") not in alarmed:
                changes.append(one.fall)
        return changes

    def _is_held(self, key: SeriesKey, one: SeriesState, now: float) -> bool:
        """Return whether an alarm waits because the judge, not the quality, may have changed."""
        if self._check is None or not one.counted.judge:
            return False
        since = now if one.held is None else one.held.since
        standing = self._check.standing(key.score, since)
        if standing in ("unchecked", "steady"):
            return False
        return standing == "moved" or now - one.held_since < LONGEST_PENDING_S

    def _change(
        self,
        service: _WatchedService,
        key: SeriesKey,
        one: SeriesState,
        fall: Fall,
        now: float,
        fallen_parts: Sequence[SeriesKey],
    ) -> Change:
        before, after = one.history.split(fall.since)
        parts = {part: each for part, each in service.series.items() if _is_part(part, key)}
        fallen = {part.segment for part, each in parts.items() if each.fall is not None}
        fallen.update(part.segment for part in fallen_parts)
        is_mix = not fallen and _is_mix(one, parts, fall.since)
        notes: list[ChangeNote] = []
        environment = service.resource.get(_ENVIRONMENT) or service.resource.get(_OLD_ENVIRONMENT)
        if environment:
            notes.append(ChangeNote("environment", (environment,)))
        if is_mix:
            notes.append(ChangeNote("mix"))
        elif fallen:
            notes.append(ChangeNote("in", (", ".join(sorted(fallen)),)))
        if fall.again:
            notes.append(ChangeNote("again"))
        if key.score in BY_WORDS:
            notes += _related_scores(service.series, key, fall.since)
        return Change(
            score=key.score,
            workflow=key.workflow,
            segment=key.segment,
            service=key.service,
            since=fall.since,
            at=now,
            before=_moved_to(one.estimate(before), one.on_score_scale(fall.before)),
            now=one.estimate(after),
            evidence=min(fall.evidence, MOST_EVIDENCE),
            kind="mix" if is_mix else "fell",
            notes=tuple(notes),
        )

    def _forget(self, at: float) -> None:
        for name, service in list(self._services.items()):
            for key, one in list(service.series.items()):
                if one.last_at < at - FORGOTTEN_AFTER_S:
                    del service.series[key]
            if not service.series:
                del self._services[name]


def _key_of(resource: Mapping[str, str]) -> _Resource:
    return tuple(sorted(resource.items()))


def _clearest(series: Mapping[SeriesKey, SeriesState]) -> dict[SeriesKey, SeriesState]:
    """Return, for each score, the series of the judge or formula with the clearest change."""
    found: dict[SeriesKey, SeriesState] = {}
    for key, one in series.items():
        if one.step.status != "learning":
            known = found.get(key.of_all)
            if known is None or one.ratio > known.ratio:
                found[key.of_all] = one
    return found


def _replaced_series(series: Mapping[SeriesKey, SeriesState], at: float) -> set[SeriesKey]:
    """Return series without values for an hour while another judge or formula measured the same score."""
    latest: dict[SeriesKey, float] = {}
    several = False
    for key, one in series.items():
        known = latest.get(key.of_all)
        several = several or known is not None
        latest[key.of_all] = one.last_at if known is None else max(known, one.last_at)
    if not several:
        return set()
    return {
        key
        for key, one in series.items()
        if one.last_at < at - REPLACED_AFTER_S and latest[key.of_all] > one.last_at
    }


def _related_scores(
    series: Mapping[SeriesKey, SeriesState], fallen: SeriesKey, since: float
) -> Iterator[ChangeNote]:
    """Yield notes on scores that do not depend on manner, and on the parts of a fall."""
    parts: tuple[dict[str, float], dict[str, float]] = {}, {}
    beside: dict[str, ChangeNote] = {}
    for key, one in series.items():
        if key.score in PARTS and key.of_all == fallen.of_all._replace(score=key.score):
            for means, half in zip(parts, one.history.split(since), strict=True):
                if (mean := one.estimate(half).mean) is not None:
                    means[key.score] = mean
        if key.score in BESIDE and key.of_all == fallen.of_all._replace(score=key.score):
            before, now = (one.estimate(half).mean for half in one.history.split(since))
            if before is not None and now is not None:
                beside[key.score] = ChangeNote(key.score, (before, now))
    yield from (beside[name] for name in sorted(beside, reverse=True))
    yield from notes_on_fall(*parts) or ((ChangeNote("manner"),) if beside else ())


def _is_part(part: SeriesKey, whole: SeriesKey) -> bool:
    return bool(part.segment) and part._replace(segment="") == whole


def _is_mix(whole: SeriesState, parts: Mapping[SeriesKey, SeriesState], since: float) -> bool:
    """Return whether a whole fell because the shares of its parts changed, not because the parts fell."""
    split: dict[str, tuple[dict[str, Estimate], dict[str, Estimate]]] = {}
    for key, one in parts.items():
        # Segments of one name, such as languages, make up the whole; each name splits it once.
        before, now = split.setdefault(key.segment.partition(":")[0], ({}, {}))
        earlier, later = one.history.split(since)
        before[key.segment], now[key.segment] = one.estimate(earlier), one.estimate(later)
    worse = 1.0 if whole.counted.direction == "lower" else -1.0
    for before, now in split.values():
        found = mix_change(before, now)
        if found is None:
            continue
        total, mix = worse * found.total, worse * found.mix.value
        least = found.mix.lower if worse > 0 else -found.mix.upper
        if least > 0.0 and mix >= MIX_SHARE * total:
            return True
    return False


def _moved_to(found: Estimate, mean: float) -> Estimate:
    """Return an estimate moved to another mean, with its interval.

    A fall is compared with the usual mean of the same hours, not with that of all hours of two weeks.
    """
    if found.mean is None:
        return replace(found, mean=mean, lower=min(found.lower, mean), upper=max(found.upper, mean))
    by = mean - found.mean
    return replace(
        found,
        mean=mean,
        lower=max(0.0, min(mean, found.lower + by)),
        upper=min(1.0, max(mean, found.upper + by)),
    )


def _recovery(key: SeriesKey, one: SeriesState, fall: Change, now: float) -> Change:
    since = now - RECENT_S if one.step.since is None else one.step.since
    return Change(
        score=key.score,
        workflow=key.workflow,
        segment=key.segment,
        service=key.service,
        since=since,
        at=now,
        before=fall.now,
        now=one.estimate(one.history.split(max(fall.at, since))[1]),
        evidence=0.0,
        kind="recovered",
    )
