"""The sums of every score, by workflow, of all time and of the last day: `QualityTable`.

The pipeline counts each request here once when it was scored for free, and each judged one once more
when its verdicts have come; the meter reads estimates off it, exporters the sums.  Never called on a
request's own path.  What is remembered is sums by five minutes and, beyond three hours, by hours: no
request, and a bounded number of scores and workflows.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from ragmeter.exporters.protocol import QualitySums, RagRun
from ragmeter.metrics import Score
from ragmeter.metrics import _fork as fork

from ._series import SLOT_S, Family, Series
from .estimate import Estimate, estimate
from .moments import FreeMoments, JudgedMoments, Moments
from .objectives import Objective, Objectives
from .population import JudgedScore, proxy_value

__all__ = ["LONGEST_WINDOW_S", "OTHER", "SLOT_S", "QualityKey", "QualityTable", "SlotSums"]

LONGEST_WINDOW_S = 86_400.0
"""The longest window that an estimate can be asked for, in seconds."""
MAX_SERIES = 1_500
"""Scores times workflows; the workflows beyond are counted together."""
OTHER = "other"
"""The name that they are counted under."""
MAX_REMEMBERED = 10_000
"""Requests of which it is known that they were counted: what is delivered twice counts once."""


class QualityKey(NamedTuple):
    """What an estimate is of."""

    score: str
    """Name of the score."""
    workflow: str
    """Name of the chain, engine or workflow; empty: it has none."""
    segment: str = ""
    """Which part of its requests; empty: all of them."""


class SlotSums(NamedTuple):
    """What was counted of one score, of one part of the requests, in five minutes."""

    at: float
    """When they began, in unix seconds: a multiple of `SLOT_S`."""
    counted: QualitySums
    """What was counted in them alone."""


def unix_clock() -> Callable[[], float]:
    """Return a clock that shows unix time and never goes back: it is not set after it was made."""
    offset = time.time() - time.monotonic()
    return lambda: time.monotonic() + offset


class QualityTable:
    """Counts scores. Thread-safe; in a forked child it begins anew.

    Args:
        clock: Unix seconds that never go back; None: those of this machine.
        objectives: Which values are bad; they may grow at any time.
        most: At most so many series; see `MAX_SERIES`.
    """

    def __init__(
        self,
        clock: Callable[[], float] | None = None,
        *,
        objectives: Objectives | None = None,
        most: int = MAX_SERIES,
    ) -> None:
        self._clock = clock or unix_clock()
        self._objectives = objectives or Objectives()
        self._most = most
        self._lock = fork.lock()
        self._fresh()
        fork.forget(self._fresh)  # what the parent counted, the parent exports

    def _fresh(self) -> None:
        self._families: dict[str, Family] = {}
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
            workflow = run.name or ""
            family = self._family(workflow, len(scores) + len(judged))
            for score in scores.values():
                self._count_free(family.free, score, slot, workflow)
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
        *,
        by_chance: bool = True,
    ) -> None:
        """Count a request that was chosen to be judged, when its verdicts are in; once for each `seen`.

        Args:
            run: The request.
            scores: All its scores by name, the free ones as `seen` was given them.
            judged: As `seen` was given them.
            probability: That it was chosen, given that `seen` counted it.
            by_chance: Chance alone would have chosen it, whether it is bad or not.
        """
        with self._lock:
            slot = int(self._clock() // SLOT_S)
            workflow = run.name or ""
            family = self._family(workflow, len(judged))
            for one in judged:
                sums = self._judged_sums(family.judged, one, slot)
                objective = self._objectives.of(one.name, workflow)
                _count_judged(sums, one, scores, probability, objective, by_chance=by_chance)

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
                self._told(score, workflow, series, series.totals())
                for workflow, family in self._families.items()
                for score, series in family.series()
            ]

    def slots(self, since: float, *, unfinished: bool = False) -> list[SlotSums]:
        """Return what was counted in each five minutes that are over, oldest first.

        What was returned once never changes. Five minutes in which nothing was counted of a score are left
        out, and those of more than three hours ago are forgotten.

        Args:
            since: Those that began then or later, in unix seconds.
            unfinished: Also those that have begun; for the end of a process.
        """
        first = math.ceil(since / SLOT_S)
        with self._lock:
            last = int(self._clock() // SLOT_S) - (not unfinished)
            found = [
                SlotSums(slot * SLOT_S, self._told(score, workflow, series, sums))
                for workflow, family in self._families.items()
                for score, series in family.series()
                for slot, sums in series.slots(first, last)
            ]
        return sorted(found, key=lambda one: one.at)

    def _told(
        self,
        score: str,
        workflow: str,
        series: Series[FreeMoments] | Series[JudgedMoments],
        sums: dict[str, float],
    ) -> QualitySums:
        objective = self._objectives.of(score, workflow)
        if objective is None:
            del sums["low"]
        return QualitySums(
            score=score,
            workflow=workflow,
            judge=series.judge,
            direction=series.direction,
            design_effect=series.design_effect,
            budget=None if objective is None else objective.budget,
            sums=sums,
        )

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

    def _family(self, workflow: str, expected: int) -> Family:
        """Return the series of a workflow: its own, if there was room for `expected` ones when it came."""
        family = self._families.get(workflow)
        if family is not None:
            return family
        # Once one was turned away all are: it must not come in by a door that a smaller one left open.
        self._is_full = (
            self._is_full or self._size + expected > self._most or len(self._families) >= self._most
        )
        return self._families.setdefault(OTHER if self._is_full else workflow, Family())

    def _count_free(
        self, known: dict[str, Series[FreeMoments]], score: Score, slot: int, workflow: str
    ) -> None:
        value, status = score.value, score.status
        if value is None and (
            status == "missing_input" or (status == "skipped" and score.error_type is None)
        ):
            return  # the request is no case of this score
        series = known.get(score.name)
        if series is None:
            if not _is_bounded(score):
                return
            series = known[score.name] = Series(FreeMoments(), slot, "", score.direction)
            self._size += 1
        elif series.slot != slot:
            series.roll(slot)
        if value is None or status != "ok":
            series.current.measured(None, undefined=status == "undefined")
            return
        objective = self._objectives.of(score.name, workflow)
        low = objective is not None and objective.is_low(value)
        if (span := score.range) == (0.0, 1.0):
            series.current.measured(value, low=low)
        elif _is_bounded(score):
            series.current.measured(_scaled(value, *span), low=low)

    def _judged_sums(
        self, known: dict[str, Series[JudgedMoments]], one: JudgedScore, slot: int
    ) -> JudgedMoments:
        series = known.get(one.name)
        if series is None:
            series = known[one.name] = Series(JudgedMoments(), slot, one.judge, one.direction)
            self._size += 1
        elif series.slot != slot:
            series.roll(slot)
        return series.current


def _count_judged(
    sums: JudgedMoments,
    one: JudgedScore,
    scores: Mapping[str, Score],
    probability: float,
    objective: Objective | None,
    *,
    by_chance: bool,
) -> None:
    name, lowest, highest = one.name, one.lowest, one.highest
    x = proxy_value(name, scores)
    score = scores.get(name)
    if score is None:
        sums.judged(x, probability, None)
        return
    value, status = score.value, score.status
    if value is not None and status == "ok":
        low = objective is not None and objective.is_low(value)
        if lowest != 0.0 or highest != 1.0:
            value = _scaled(value, lowest, highest)
        sums.judged(x, probability, value, low=low, by_chance=by_chance)
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
