"""Which measurement of a score comes first where two judges or formulas measured it, and what both share.

A mean is of one measurement.  Requests that were not measured are traffic all the same: each judge's estimate
counts as many of them as its own requests stand for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from ragmeter.quality.moments import FreeMoments, JudgedMoments

from ._cells import Cell, CellKey


class MeasuredScore(NamedTuple):
    """A score, and by which measurement."""

    score: str
    measurement: str


def settle(scores: Iterable[tuple[CellKey, Cell]]) -> Iterator[tuple[CellKey, Cell]]:
    """Yield cells; requests without a measurement are added to those of the same score that have one.

    Where several did, each is given as much of their sums as its own requests stand for (Σ 1/probability), and
    the counts go to the one that stands for most: so they still add up to all requests.
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
    """Return how many requests the measured ones stand for."""
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
    """Return the measurements of each score, the one to look at first.

    That is the one with the most values since the youngest of them began: after a switch the new judge, beside
    a trial of another one the judge that most requests have.

    Args:
        parts: What was counted, in order of time.
    """
    values: dict[str, list[dict[str, int]]] = {}
    seen: dict[str, set[str]] = {}
    for part in parts:
        here: dict[str, dict[str, int]] = {}
        for place, cell in part.items():
            here.setdefault(place.score, {})[place.measurement] = sum(cell.bins)
        for score, counts in here.items():
            fresh = {name for name, n in counts.items() if n} - seen.setdefault(score, set())
            if fresh:
                seen[score] |= fresh
                values.setdefault(score, []).append({})
            since = values.setdefault(score, [{}])[-1]
            for name, n in counts.items():
                since[name] = since.get(name, 0) + n
    return {score: _in_order(since) for score, since in values.items()}


def _in_order(since: list[dict[str, int]]) -> tuple[str, ...]:
    """Return the measurements, given their values in each stretch of time that began with a new one."""
    whole: dict[str, int] = {}
    for counts in since:
        for name, n in counts.items():
            whole[name] = whole.get(name, 0) + n
    last = since[-1]
    return tuple(sorted(whole, key=lambda name: (-last.get(name, 0), -whole[name], name)))
