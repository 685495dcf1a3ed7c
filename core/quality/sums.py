"""Store the sums of every score, by workflow and segment, in total and for the last day: `QualityTable`.

The pipeline counts each request here once with its free scores, and each judged one once more with its
verdicts; the meter computes estimates from it, exporters read the sums. Never called on a request's path. It
stores sums by five minutes and, beyond three hours, by hours: no request, and a bounded number of scores,
workflows, segments and services.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from ragmeter.exporters.protocol import QualitySums, RagRun
from ragmeter.metrics import Score
from ragmeter.metrics._display.mean_interval import scale_to_unit
from ragmeter.metrics._process import fork

from ._holdings import PARTS_SHARE, AnySeries, HeldSeries, Holdings, Room
from ._series import Series, SeriesFamily
from .conversations import Conversations, ConversationSums
from .estimate import estimate
from .estimates import Estimate, Estimates, QualityKey
from .measurement import measurement_of
from .moments import FreeMoments, JudgedMoments, Moments
from .objectives import Objective, Objectives
from .population import JudgedScore, proxy_value
from .segments import Segments
from .sums_by_time import SLOT_S
from .verdict_shares import CountedShare

LONGEST_WINDOW_S = 86_400.0
"""Longest window of an estimate, in seconds."""
MAX_SERIES = 1_500
"""Most combinations of score, workflow and segment in one service; further ones are counted together, as
`OTHER`."""
MAX_SERVICES = 63
"""Services that are counted separately, in addition to this process."""
FULL_SERVICES = 6
"""Number of services that could reach `MAX_SERIES`: all services share this memory."""
MAX_REMEMBERED = 10_000
"""Most counted requests to remember: a request delivered twice counts once."""


class SlotSums(NamedTuple):
    """The sums of one score, of one part of the requests, in one five-minute slot."""

    at: float
    """Start of the slot, in unix seconds: a multiple of `SLOT_S`."""
    counted: QualitySums
    """The counts of this slot only."""


def unix_clock() -> Callable[[], float]:
    """Return a monotonic clock of unix time, which ignores later changes of the system clock."""
    offset = time.time() - time.monotonic()
    return lambda: time.monotonic() + offset


class CountedRequest(NamedTuple):
    """Where a request was counted, so that its verdicts count there, too, whatever changed since."""

    workflow: str
    families: tuple[SeriesFamily, ...]
    """The series of the whole workflow, then those of the request's segments."""
    room: Room
    conversation: ConversationSums | None = None
    """Its conversation; None: unknown."""
    at: float = 0.0
    """Arrival, in seconds of the table's clock."""


class QualityTable:
    """Counts scores. Thread-safe; empty in a forked child.

    Args:
        clock: Monotonic unix seconds; None: this machine's.
        objectives: They define bad values; more may be added at any time.
        segments: Finds the segments of a request, which have additional sums.
        most: Most series of one service; see `MAX_SERIES`.
    """

    def __init__(
        self,
        clock: Callable[[], float] | None = None,
        *,
        objectives: Objectives | None = None,
        segments: Segments | None = None,
        most: int = MAX_SERIES,
    ) -> None:
        self._clock = clock or unix_clock()
        self._objectives = objectives or Objectives()
        self._segments = segments or Segments()
        self._most = most
        self._lock = fork.lock()
        self._fresh()
        fork.forget(self._fresh)  # the parent exports its counts

    def _fresh(self) -> None:
        self._room = Room(self._most * FULL_SERVICES)
        self._services: dict[_Resource, Holdings] = {}
        self._counted: set[str] = set()
        self._counted_before: set[str] = set()
        self._conversations = Conversations()

    def count_request(
        self,
        run: RagRun,
        scores: Mapping[str, Score | CountedShare],
        judged: Sequence[JudgedScore],
        *,
        about: str = "",
    ) -> CountedRequest | None:
        """Count a request with its free scores; return where, or None if it was counted before.

        Args:
            run: The request.
            scores: Its free scores, by name, and the other counted values.
            judged: The judged scores whose inputs it has, whether it is judged or not.
            about: Identifies scores that arrive later; the request counts once for each.
        """
        segments = self._segments.of(run) if self._segments.names else ()
        with self._lock:
            now = self._clock()
            slot = int(now // SLOT_S)
            if not self._is_new(run.run_id + about):
                return None
            conversation = self._conversations.of(run.conversation_id, run.sample.question, now)
            holdings = self._holdings(run.resource)
            name, families = holdings.families(run.name or "", segments, slot, len(scores) + len(judged))
            room = holdings.room
            objectives = None
            if self._objectives.all():
                objectives = {one: self._objectives.of(one, name) for one in scores}
            _count_free(families, scores.values(), slot, room, objectives, conversation, now)
            for one in judged:
                x = proxy_value(one.name, scores)
                for family in families:
                    series = _judged_series(family, one, slot, room)
                    if series is not None:
                        series.current.add_request(x)
            return CountedRequest(name, families, room, conversation, now)

    def count_judged(
        self,
        counted: CountedRequest,
        scores: Mapping[str, Score],
        judged: Sequence[JudgedScore],
        probability: float,
        *,
        by_chance: bool = True,
    ) -> None:
        """Count a request that was chosen to be judged, once per `count_request`, with its verdicts.

        Args:
            counted: As `count_request` returned it.
            scores: All its scores by name, the free ones as passed to `count_request`.
            judged: As passed to `count_request`.
            probability: Probability that it was chosen, given that `count_request` counted it.
            by_chance: Whether the random selection alone would have chosen it.
        """
        with self._lock:
            slot = int(self._clock() // SLOT_S)
            for one in judged:
                x = proxy_value(one.name, scores)
                objective = self._objectives.of(one.name, counted.workflow)
                for family in counted.families:
                    series = _judged_series(family, one, slot, counted.room)
                    if series is None:
                        continue
                    value = _count_judged(
                        series.current,
                        one,
                        x,
                        scores.get(one.name),
                        probability,
                        objective,
                        by_chance=by_chance,
                    )
                    if value is not None and counted.conversation is not None:
                        counted.conversation.add(
                            family, series.place, series.current, 1.0 / probability, value, counted.at
                        )

    def estimates(
        self, workflow: str | None, window_s: float, *, segment: str | None = None, service: str | None = None
    ) -> Estimates:
        """Return the estimates of all scores over the last `window_s` seconds.

        Args:
            workflow: Only this workflow; None: all.
            window_s: Seconds, rounded up to a multiple of `SLOT_S`.
            segment: Only this segment, e.g. ``language:zh``; empty: whole workflows; None: both.
            service: Only this ``service.name``; None: all services, together.
        """
        found: dict[QualityKey, _Sum] = {}
        with self._lock:
            first = self._first(window_s)
            for _, one in self._all(workflow, service):
                if segment in (None, one.segment):
                    key = QualityKey(one.score, one.workflow, one.segment)
                    found[key] = _plus(found.get(key), one.series, first)
        return Estimates({key: self._estimate(one, key.score, key.workflow) for key, one in found.items()})

    def estimate(
        self,
        score: str,
        workflow: str | None,
        window_s: float,
        *,
        segment: str = "",
        service: str | None = None,
    ) -> Estimate:
        """Return the estimate of one score over the last `window_s` seconds.

        Args:
            score: Name of the score; the estimate of an unknown one is empty.
            workflow: Only this workflow; None: all together.
            window_s: Seconds, rounded up to a multiple of `SLOT_S`.
            segment: Only this segment, e.g. ``language:zh``; empty: all requests.
            service: Only this ``service.name``; None: all services, together.
        """
        found: _Sum | None = None
        with self._lock:
            first = self._first(window_s)
            for _, one in self._all(workflow, service):
                if one.score == score and one.segment == segment:
                    found = _plus(found, one.series, first)
        if found is None:
            return estimate(FreeMoments())
        return self._estimate(found, score, workflow)

    def _estimate(self, found: _Sum, score: str, workflow: str | None) -> Estimate:
        objective = self._objectives.of(score, workflow)
        return replace(
            estimate(found.sums, design_effect=found.effect),
            objective=None if objective is None else scale_to_unit(objective.threshold, *found.range),
            objective_share=None if objective is None else objective.share,
        )

    def totals(self) -> list[QualitySums]:
        """Return the sums since the start, for exporters."""
        with self._lock:
            return [self._exported_sums(holdings, one, one.series.totals()) for holdings, one in self._all()]

    def slots(self, since: float, *, unfinished: bool = False) -> list[SlotSums]:
        """Return the sums of each completed five-minute slot, oldest first.

        Returned sums never change later. Slots without counts of a score are left out, and those older than
        three hours are dropped.

        Args:
            since: Earliest start, in unix seconds.
            unfinished: Include the current slot; for the end of a process.
        """
        first = math.ceil(since / SLOT_S)
        with self._lock:
            last = int(self._clock() // SLOT_S) - (not unfinished)
            found = [
                SlotSums(slot * SLOT_S, self._exported_sums(holdings, one, sums))
                for holdings, one in self._all()
                for slot, sums in one.series.slots(first, last)
            ]
        return sorted(found, key=lambda one: one.at)

    def _exported_sums(self, holdings: Holdings, found: HeldSeries, sums: dict[str, float]) -> QualitySums:
        objective = self._objectives.of(found.score, found.workflow)
        if objective is None:
            del sums["low"]
        series = found.series
        return QualitySums(
            score=found.score,
            workflow=found.workflow,
            segment=found.segment,
            judge=series.judge,
            measurement=series.measurement,
            direction=series.direction,
            design_effect=series.design_effect,
            budget=None if objective is None else objective.budget,
            resource=holdings.resource,
            sums=sums,
        )

    def _all(
        self, workflow: str | None = None, service: str | None = None
    ) -> Iterator[tuple[Holdings, HeldSeries]]:
        for holdings in self._services.values():
            if service in (None, holdings.resource.get("service.name", "")):
                for one in holdings.entries():
                    if workflow in (None, one.workflow):
                        yield holdings, one

    def _first(self, window_s: float) -> int:
        """Return the first slot of a window that ends now."""
        return int((self._clock() - min(window_s, LONGEST_WINDOW_S)) // SLOT_S)

    def _is_new(self, run_id: str) -> bool:
        # Two alternating sets: an ordered table would cost more than all the sums.
        if run_id in self._counted or run_id in self._counted_before:
            return False
        if len(self._counted) >= MAX_REMEMBERED // 2:
            self._counted_before = self._counted
            self._counted = set()
        self._counted.add(run_id)
        return True

    def _holdings(self, resource: Mapping[str, str]) -> Holdings:
        """Return the series of a service; beyond the limit, those of this process."""
        key = tuple(sorted(resource.items())) if resource else ()
        found = self._services.get(key)
        if found is None:
            if key and len(self._services) >= MAX_SERVICES:
                return self._holdings({})
            room = Room(self._most, self._room)
            found = self._services[key] = Holdings(resource, room, self._most)
        return found


_Resource = tuple[tuple[str, str], ...]


class _Sum(NamedTuple):
    """Sums of several series, their largest design effect, and the range of their score."""

    sums: Moments
    effect: float
    range: tuple[float, float]


def _plus(known: _Sum | None, series: AnySeries, first: int) -> _Sum:
    """Add the counts of a series from slot `first` on."""
    sums, effect, _ = known or (type(series.current)(), 1.0, series.range)
    series.add_since(first, sums)
    return _Sum(sums, max(effect, series.design_effect), series.range)


def _count_free(
    families: Sequence[SeriesFamily],
    scores: Iterable[Score | CountedShare],
    slot: int,
    room: Room,
    objectives: Mapping[str, Objective | None] | None,
    conversation: ConversationSums | None,
    now: float,
) -> None:
    for score in scores:
        name, value, status = score.name, score.value, score.status
        if value is None and (status == "missing_input" or (status == "skipped" and score.error_type is None)):
            continue  # the score does not apply to this request
        lowest, highest = score.range
        if score.direction == "none" or lowest is None or highest is None or lowest >= highest:
            continue
        undefined = low = False
        if value is None or status != "ok":
            value, undefined = None, status == "undefined"
        else:
            objective = None if objectives is None else objectives[name]
            low = objective is not None and objective.is_low(value)
            if lowest != 0.0 or highest != 1.0:
                value = scale_to_unit(value, lowest, highest)
        for family in families:
            series = family.free.get(name)
            if series is None:
                if family.is_part and not room.has(1, PARTS_SHARE):
                    continue
                measurement = measurement_of(name, score.definition)
                series = family.free[name] = Series(
                    FreeMoments(), slot, "", score.direction, measurement, (lowest, highest), family.size
                )
                room.take()
            elif series.slot != slot:
                series.roll(slot)
            series.current.add_value(value, undefined=undefined, low=low)
            if value is not None and conversation is not None:
                conversation.add(family, series.place, series.current, 1.0, value, now)


def _judged_series(
    family: SeriesFamily, one: JudgedScore, slot: int, room: Room
) -> Series[JudgedMoments] | None:
    series = family.judged.get(one.name)
    if series is None:
        if family.is_part and not room.has(1, PARTS_SHARE):
            return None
        series = family.judged[one.name] = Series(
            JudgedMoments(), slot, one.judge, one.direction, one.judge, (one.lowest, one.highest), family.size
        )
        room.take()
    elif series.slot != slot:
        series.roll(slot)
    return series


def _count_judged(
    sums: JudgedMoments,
    one: JudgedScore,
    x: float,
    score: Score | None,
    probability: float,
    objective: Objective | None,
    *,
    by_chance: bool,
) -> float | None:
    """Count the judge's score; return its value on 0 … 1, or None."""
    if score is None:
        sums.judged(x, probability, None)
        return None
    lowest, highest = one.lowest, one.highest
    value, status = score.value, score.status
    if value is not None and status == "ok":
        low = objective is not None and objective.is_low(value)
        if lowest != 0.0 or highest != 1.0:
            value = scale_to_unit(value, lowest, highest)
        sums.judged(x, probability, value, low=low, by_chance=by_chance)
        return value
    if status == "partial":
        lower = 0.0 if score.lower is None else scale_to_unit(score.lower, lowest, highest)
        upper = 1.0 if score.upper is None else scale_to_unit(score.upper, lowest, highest)
        sums.judged(x, probability, None, lower=lower, upper=upper)
    else:
        # A score whose input turns out to be missing only when it is measured has no value in principle,
        # either.
        undefined = status in ("undefined", "missing_input")
        sums.judged(x, probability, None, undefined=undefined)
    return None
