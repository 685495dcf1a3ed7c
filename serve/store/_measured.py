"""The order of a score's measurements by several judges or formulas, and the requests that they share.

A mean is of one measurement. Requests without a measurement are traffic nonetheless: each judge's estimate
includes a share of them, in proportion to the number of requests that its own ones represent.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from ragmeter.quality.moments import FreeMoments, JudgedMoments

from ._cells import Cell, CellKey


class MeasuredScore(NamedTuple):
    """A score with its measurement."""

    score: str
    measurement: str


def settle(scores: Iterable[tuple[CellKey, Cell]]) -> Iterator[tuple[CellKey, Cell]]:
    """Yield cells, with the requests without a measurement added to those of the same score that have one.

    With several measurements, each gets a share of the sums in proportion to the requests it represents (Σ
    1/probability). The counts go to the one that represents most, so that they still add up to all requests.
    """
    found = list(scores)
    unmeasured = {key[:4]: cell for key, cell in found if not key.measurement}
    judged: dict[tuple[str, str, str, str], dict[str, float]] = {}
    if unmeasured:
        for key, cell in found:
            if key.measurement and key[:4] in unmeasured:
                judged.setdefault(key[:4], {})[key.measurement] = _stands_for(cell)
    for key, cell in found:
        weights = judged.get(key[:4], {})
        if not weights:
            yield key, cell
        elif key.measurement:
            whole = sum(weights.values())
            share = weights[key.measurement] / whole if whole else 1.0 / len(weights)
            most = max(weights.items(), key=lambda one: one[::-1])[0]
            yield key, _with(cell, unmeasured[key[:4]], share, counts=key.measurement == most)


def _stands_for(cell: Cell) -> float:
    """Return the number of requests that the measured ones represent."""
    sums = cell.moments
    if isinstance(sums, JudgedMoments) and sums.w:
        return sums.w
    return float(sum(cell.bins))


def _with(cell: Cell, unmeasured: Cell, share: float, *, counts: bool) -> Cell:
    """Return a cell with its share of the unmeasured counts."""
    whole = Cell(cell.kind)
    whole.add(cell)
    if counts:
        whole.statuses.update(unmeasured.statuses)
    sums, more = whole.moments, unmeasured.moments
    if type(sums) is type(more) and not isinstance(sums, FreeMoments):
        sums.add([share * value for value in more.values()])
    return whole


def in_order(parts: Iterable[Mapping[MeasuredScore, Cell]]) -> dict[str, tuple[str, ...]]:
    """Return the measurements of each score, the one to show first.

    That is the one with the most values since the youngest of them began: after a switch the new judge;
    during a trial of a second judge, the one that judges most requests. `parts` are in order of time.
    """
    values: dict[str, list[Counter[str]]] = {}
    for part in parts:
        here: dict[str, Counter[str]] = {}
        for place, cell in part.items():
            here.setdefault(place.score, Counter())[place.measurement] = sum(cell.bins)
        for score, counts in here.items():
            periods = values.setdefault(score, [Counter()])
            seen = {name for period in periods for name, n in period.items() if n}
            if {name for name, n in counts.items() if n} - seen:
                periods.append(Counter())
            periods[-1].update(counts)
    return {score: _in_order(periods) for score, periods in values.items()}


def _in_order(periods: Sequence[Counter[str]]) -> tuple[str, ...]:
    """Return the measurements, given their values in each of the periods that began with a new one."""
    whole: Counter[str] = Counter()
    for counts in periods:
        whole.update(counts)
    last = periods[-1]
    return tuple(sorted(whole, key=lambda name: (-last[name], -whole[name], name)))


def only_measurements(measured: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return the measurement of each score that has a single one, from scores and their measurements."""
    found: dict[str, set[str]] = {}
    for score, measurement in measured:
        if measurement:
            found.setdefault(score, set()).add(measurement)
    return {score: max(names) for score, names in found.items() if len(names) == 1}
