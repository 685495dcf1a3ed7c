"""The sums of every score, by workflow, of all time and of the last day: `QualityTable`.

The pipeline counts each request here once when it was scored for free, and each judged one once more
when its verdicts have come; the meter reads estimates off it, exporters the sums.  Never called on a
request's own path.  What is remembered is sums by five minutes and, beyond three hours, by hours: no
request, and a bounded number of scores and workflows.
"""

from __future__ import annotations

import math
import time
from array import array
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Generic, NamedTuple, TypeVar

from ragmeter.exporters.protocol import QualitySums, RagRun
from ragmeter.metrics import Score
from ragmeter.metrics import _fork as fork

from .estimate import Estimate, estimate
from .moments import FreeMoments, JudgedMoments, Moments
from .population import JudgedScore, proxy_value

__all__ = ["LONGEST_WINDOW_S", "OTHER", "QualityKey", "QualityTable"]

SLOT_S = 300.0
"""Sums are kept by so many seconds,"""
FINE_SLOTS = 36
"""for so many of them, the last three hours;"""
SLOTS_PER_HOUR = 12
COARSE_HOURS = 25
"""and by hours for so many hours: a day, and the hour that has begun."""
LONGEST_WINDOW_S = 86_400.0
"""The longest window that an estimate can be asked for, in seconds."""
MAX_SERIES = 1_500
"""Scores times workflows; the workflows beyond are counted together."""
OTHER = "other"
"""The name that they are counted under."""
MAX_REMEMBERED = 10_000
"""Requests of which it is known that they were counted: what is delivered twice counts once."""
LEAST_NEIGHBOURS = 12
"""Pairs of neighbouring slots that a design effect must be seen in."""
LARGEST_EFFECT = 10.0


M = TypeVar("M", FreeMoments, JudgedMoments)


class QualityKey(NamedTuple):
    """What an estimate is of."""

    score: str
    """Name of the score."""
    workflow: str
    """Name of the chain, engine or workflow; empty: it has none."""
    segment: str = ""
    """Which part of its requests; empty: all of them."""


class _Series(Generic[M]):
    """The sums of one score of one workflow."""

    __slots__ = ("closed", "coarse", "current", "design_effect", "fine", "judge", "slot")

    def __init__(self, made: M, slot: int, judge: str) -> None:
        self.current: M = made
        self.slot = slot
        self.judge = judge
        self.closed = made.values()
        self.fine: deque[tuple[int, array[float]]] = deque()
        self.coarse: deque[tuple[int, array[float]]] = deque()
        self.design_effect = 1.0

    def roll(self, slot: int) -> None:
        """Begin the slot `slot`: put away what was counted before it."""
        values = self.current.values()
        _add(self.closed, values)
        self.fine.append((self.slot, values))
        # Once in five minutes: too much work for every time that it is asked for.
        self.design_effect = self._design_effect()
        self.current = type(self.current)()
        self.slot = slot
        while self.fine[0][0] <= slot - FINE_SLOTS:
            earlier, sums = self.fine.popleft()
            hour = earlier // SLOTS_PER_HOUR
            if self.coarse and self.coarse[-1][0] == hour:
                _add(self.coarse[-1][1], sums)
            else:
                self.coarse.append((hour, sums))
            if not self.fine:
                break
        while self.coarse and self.coarse[0][0] <= slot // SLOTS_PER_HOUR - COARSE_HOURS:
            self.coarse.popleft()

    def totals(self) -> dict[str, float]:
        """Return everything that was counted, by the sums' names."""
        totals = array("d", self.closed)
        _add(totals, self.current.values())
        return dict(zip(self.current.names, totals, strict=True))

    def add_since(self, first: int, to: Moments) -> None:
        """Add what was counted from slot `first` on."""
        for hour, sums in self.coarse:
            if (hour + 1) * SLOTS_PER_HOUR > first:
                to.add(sums)
        for slot, sums in self.fine:
            if slot >= first:
                to.add(sums)
        if self.slot >= first:
            to.add(self.current.values())

    def _design_effect(self) -> float:
        """Return how much more neighbouring slots differ than independent requests would; at least 1.

        Σ (R' - R)² / Σ (S' + S) over neighbouring slots, R being the sum of a slot's weighted
        residuals and S that of their squares.  Requests of one session resemble each other and come
        together, so a slot's sum varies more than its terms.  1 where that is within what chance does.
        """
        if len(self.fine) <= LEAST_NEIGHBOURS:
            return 1.0
        slots = [type(self.current)(sums).measured_values() for _, sums in self.fine]
        weight, total = sum(one.weight for one in slots), sum(one.total for one in slots)
        if not weight:
            return 1.0
        mean = total / weight
        parts = [
            (each.total - mean * each.weight, each.squares(mean)) for each in slots if each.weight
        ]
        expected = chance = excess = 0.0
        for (left, left_squares), (right, right_squares) in pairwise(parts):
            alone = left_squares + right_squares
            more = (right - left) ** 2 - alone
            expected += alone
            excess += more
            chance += 1.5 * more * more  # neighbouring pairs share a slot: half as much again
        if len(parts) <= LEAST_NEIGHBOURS or not expected or excess < 2.0 * math.sqrt(chance):
            return 1.0
        return min(LARGEST_EFFECT, 1.0 + excess / expected)


class _Family:
    """The series of one workflow."""

    __slots__ = ("free", "judged")

    def __init__(self) -> None:
        self.free: dict[str, _Series[FreeMoments]] = {}
        self.judged: dict[str, _Series[JudgedMoments]] = {}

    def series(self) -> Iterable[tuple[str, _Series[FreeMoments] | _Series[JudgedMoments]]]:
        """Return them all, with the scores' names."""
        yield from self.free.items()
        yield from self.judged.items()


def _add(to: array[float], values: Iterable[float]) -> None:
    for place, value in enumerate(values):
        to[place] += value


class QualityTable:
    """Counts scores. Thread-safe; in a forked child it begins anew.

    Args:
        clock: Monotonic seconds.
        most: At most so many series; see `MAX_SERIES`.
    """

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, *, most: int = MAX_SERIES
    ) -> None:
        self._clock = clock
        self._most = most
        self._lock = fork.lock()
        self._fresh()
        fork.forget(self._fresh)  # what the parent counted, the parent exports

    def _fresh(self) -> None:
        self._families: dict[str, _Family] = {}
        self._size = 0
        self._is_full = False
        self._counted: set[str] = set()
        self._counted_before: set[str] = set()

    def seen(
        self,
        run: RagRun,
        scores: Mapping[str, Score],
        judged: Sequence[JudgedScore],
        *,
        about: str = "",
    ) -> bool:
        """Count a request that was scored for free; return whether it was not counted before.

        Args:
            run: The request.
            scores: Its free scores, by name.
            judged: The judged scores that it has the inputs of, whether it is judged or not.
            about: Names what was learned of the request later; it counts once for each.
        """
        with self._lock:
            slot = int(self._clock() // SLOT_S)
            if not self._is_new(run.run_id + about):
                return False
            family = self._family(run.name or "", len(scores) + len(judged))
            for score in scores.values():
                self._count_free(family.free, score, slot)
            for one in judged:
                sums = self._judged_sums(family.judged, one, slot)
                sums.seen(proxy_value(one.name, scores))
        return True

    def judged(
        self,
        run: RagRun,
        scores: Mapping[str, Score],
        judged: Sequence[JudgedScore],
        probability: float,
    ) -> None:
        """Count a request that was chosen to be judged, when its verdicts are in; once for each `seen`.

        Args:
            run: The request.
            scores: All its scores by name, the free ones as `seen` was given them.
            judged: As `seen` was given them.
            probability: That it was chosen, given that `seen` counted it.
        """
        with self._lock:
            slot = int(self._clock() // SLOT_S)
            family = self._family(run.name or "", len(judged))
            for one in judged:
                _count_judged(self._judged_sums(family.judged, one, slot), one, scores, probability)

    def estimates(self, workflow: str | None, window_s: float) -> dict[QualityKey, Estimate]:
        """Return the estimates of all scores over the last `window_s` seconds, each by itself.

        Args:
            workflow: Of this workflow only; None: of all.
            window_s: Seconds; see `SLOT_S` for what they are rounded up to.
        """
        found: dict[QualityKey, tuple[Moments, float]] = {}
        with self._lock:
            first = self._first(window_s)
            for name, family in self._families.items():
                for score, series in family.series():
                    if workflow in (None, name):
                        sums = type(series.current)()
                        series.add_since(first, sums)
                        found[QualityKey(score, name)] = sums, series.design_effect
        return {key: estimate(sums, design_effect=effect) for key, (sums, effect) in found.items()}

    def estimate(self, score: str, workflow: str | None, window_s: float) -> Estimate:
        """Return the estimate of one score over the last `window_s` seconds.

        Args:
            score: Name of the score; one that was never seen has the estimate that nothing is known.
            workflow: Of this workflow; None: of all of them together.
            window_s: Seconds; see `SLOT_S` for what they are rounded up to.
        """
        sums: Moments | None = None
        effect = 1.0
        with self._lock:
            first = self._first(window_s)
            for name, family in self._families.items():
                for each, series in family.series():
                    if each == score and workflow in (None, name):
                        sums = type(series.current)() if sums is None else sums
                        series.add_since(first, sums)
                        effect = max(effect, series.design_effect)
        return estimate(FreeMoments() if sums is None else sums, design_effect=effect)

    def totals(self) -> list[QualitySums]:
        """Return everything counted since the start, for exporters."""
        with self._lock:
            return [
                QualitySums(
                    score=score,
                    workflow=workflow,
                    judge=series.judge,
                    design_effect=series.design_effect,
                    sums=series.totals(),
                )
                for workflow, family in self._families.items()
                for score, series in family.series()
            ]

    def _first(self, window_s: float) -> int:
        """Return the first slot of a window that ends now."""
        return int((self._clock() - min(window_s, LONGEST_WINDOW_S)) // SLOT_S)

    def _is_new(self, run_id: str) -> bool:
        # Two sets in turn: a table that orders its entries would cost more than all the sums.
        if run_id in self._counted or run_id in self._counted_before:
            return False
        if len(self._counted) >= MAX_REMEMBERED // 2:
            self._counted_before = self._counted
            self._counted = set()
        self._counted.add(run_id)
        return True

    def _family(self, workflow: str, expected: int) -> _Family:
        """Return the series of a workflow: its own, if there was room for `expected` ones when it came."""
        family = self._families.get(workflow)
        if family is not None:
            return family
        # Once one was turned away all are: it must not come in by a door that a smaller one left open.
        self._is_full = (
            self._is_full or self._size + expected > self._most or len(self._families) >= self._most
        )
        return self._families.setdefault(OTHER if self._is_full else workflow, _Family())

    def _count_free(self, known: dict[str, _Series[FreeMoments]], score: Score, slot: int) -> None:
        value, status = score.value, score.status
        if value is None and (
            status == "missing_input" or (status == "skipped" and score.error_type is None)
        ):
            return  # the request is no case of this score
        series = known.get(score.name)
        if series is None:
            if not _is_bounded(score):
                return
            series = known[score.name] = _Series(FreeMoments(), slot, "")
            self._size += 1
        elif series.slot != slot:
            series.roll(slot)
        if value is None or status != "ok":
            series.current.measured(None, undefined=status == "undefined")
        elif (span := score.range) == (0.0, 1.0):
            series.current.measured(value)
        elif _is_bounded(score):
            series.current.measured(_scaled(value, *span))

    def _judged_sums(
        self, known: dict[str, _Series[JudgedMoments]], one: JudgedScore, slot: int
    ) -> JudgedMoments:
        series = known.get(one.name)
        if series is None:
            series = known[one.name] = _Series(JudgedMoments(), slot, one.judge)
            self._size += 1
        elif series.slot != slot:
            series.roll(slot)
        return series.current


def _count_judged(
    sums: JudgedMoments, one: JudgedScore, scores: Mapping[str, Score], probability: float
) -> None:
    name, _, lowest, highest = one
    x = proxy_value(name, scores)
    score = scores.get(name)
    if score is None:
        sums.judged(x, probability, None)
        return
    value, status = score.value, score.status
    if value is not None and status == "ok":
        if lowest != 0.0 or highest != 1.0:
            value = _scaled(value, lowest, highest)
        sums.judged(x, probability, value)
    elif status == "partial":
        lower = 0.0 if score.lower is None else _scaled(score.lower, lowest, highest)
        upper = 1.0 if score.upper is None else _scaled(score.upper, lowest, highest)
        sums.judged(x, probability, None, lower=lower, upper=upper)
    else:
        # What turns out to lack an input only when it is measured has no value in principle, either.
        undefined = status in ("undefined", "missing_input")
        sums.judged(x, probability, None, undefined=undefined)


def _is_bounded(score: Score) -> bool:
    lowest, highest = score.range
    if score.direction == "none" or lowest is None or highest is None:
        return False
    return lowest < highest


def _scaled(value: float, lowest: float | None, highest: float | None) -> float:
    """Return where `value` lies in a range that was found to be one: 0 to 1."""
    low, high = lowest or 0.0, 1.0 if highest is None else highest
    return min(1.0, max(0.0, (value - low) / (high - low)))
