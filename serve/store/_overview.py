"""From sums to what an overview shows: means with intervals, usual ranges, trends and counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from ragmeter.quality.estimate import Estimate, estimate
from ragmeter.quality.objectives import Objective, Objectives

from ._cells import BINS, COST_UNITS, Cell, CellKey, Cells, GroupKey
from ._parts import Kind
from .views import Filters, Group, JudgeUse, ScoreSummary, TrendPoint

__all__ = [
    "Chosen",
    "Known",
    "estimate_of",
    "judge_use",
    "prefixed",
    "summary",
    "trends",
    "usual_of",
]

LEAST_FOR_USUAL = 20
"""Values below which nothing is called usual."""
LEAST_IN_BIN = 12
"""Values that a point of a trend stands for, at least: a quiet night makes wide stretches and no zigzag."""
_LOW, _HIGH = 0.1, 0.9


Known = Callable[[], Iterable[Objective]]
"""Returns the objectives that there are."""


def estimate_of(cell: Cell, objective: Objective | None = None) -> Estimate | None:
    """Return the mean with its interval, and where good begins; None where the score is no quality."""
    if not cell.is_quality or cell.kind is None:
        return None
    found = estimate(cell.moments)
    if objective is None:
        return found
    return replace(found, objective=cell.kind.place(objective.threshold))


def usual_of(cell: Cell | None) -> tuple[float, float] | None:
    """Return the 10th and the 90th percentile on the score's own scale, rounded away from each other."""
    if cell is None or cell.kind is None or sum(cell.bins) < LEAST_FOR_USUAL:
        return None
    return (
        _on_scale(cell.kind, _bin_of(cell.bins, _LOW) / BINS),
        _on_scale(cell.kind, (_bin_of(cell.bins, _HIGH) + 1) / BINS),
    )


def _bin_of(bins: Sequence[int], share: float) -> int:
    wanted = share * sum(bins)
    below = 0
    for place, count in enumerate(bins):
        below += count
        if count and below >= wanted:
            return place
    return BINS - 1


def _on_scale(kind: Kind, place: float) -> float:
    lowest, highest = kind.lowest or 0.0, 1.0 if kind.highest is None else kind.highest
    return lowest + place * (highest - lowest)


class Chosen:
    """The sums that filters leave.

    Args:
        cells: All of them.
        filters: What is looked at.
        objectives: Where good begins.
    """

    def __init__(
        self, cells: Cells, filters: Filters, objectives: Objectives | None = None
    ) -> None:
        self._cells = cells
        self._filters = filters
        self._objectives = objectives or Objectives()

    @classmethod
    def of(
        cls, parts: Iterable[Cells], filters: Filters, objectives: Objectives | None = None
    ) -> Chosen:
        """Return the same of several stretches of time together."""
        whole = Cells()
        for cells in parts:
            whole.add(cells)
        return cls(whole, filters, objectives)

    def counts(self) -> Counter[str]:
        """Return how many requests there were, and how many of each kind."""
        whole: Counter[str] = Counter()
        for key, counts in self._cells.groups.items():
            if self._is_chosen(key):
                whole.update(counts)
        return whole

    def scores(self) -> dict[str, Cell]:
        """Return the scores by name, over all that is looked at."""
        found: dict[str, Cell] = {}
        for key, cell in self._cells.scores.items():
            if self._is_chosen(GroupKey(*key[:3])):
                found.setdefault(key.score, Cell(cell.kind)).add(cell)
        return found

    def groups(self, told_apart: Mapping[str, object]) -> tuple[Group, ...]:
        """Return workflows and their parts, whatever part is looked at."""
        requests: dict[tuple[str, str], int] = {}
        scores: dict[tuple[str, str], dict[str, Cell]] = {}
        for key, counts in self._cells.groups.items():
            if self._is_of_workflow(key) and _is_told_apart(key.segment, told_apart):
                place = (key.workflow, key.segment)
                requests[place] = requests.get(place, 0) + counts["requests"]
        for each, cell in self._cells.scores.items():
            place = (each.workflow, each.segment)
            if place in requests and self._is_of_workflow(GroupKey(*each[:3])):
                scores.setdefault(place, {}).setdefault(each.score, Cell(cell.kind)).add(cell)

        def order(place: tuple[str, str]) -> tuple[int, str, str, int, str]:
            workflow, segment = place
            name = segment.partition(":")[0]
            return -requests.get((workflow, ""), 0), workflow, name, -requests[place], segment

        return tuple(
            Group(
                workflow=place[0],
                segment=place[1],
                requests=requests[place],
                estimates={
                    name: mean
                    for name, cell in sorted(scores.get(place, {}).items())
                    if (mean := estimate_of(cell, self._objectives.of(name, place[0]))) is not None
                },
            )
            for place in sorted(requests, key=order)
        )

    def estimates(self, told_apart: Mapping[str, object]) -> dict[CellKey, tuple[str, Estimate]]:
        """Return which way of each score is better, and its mean: whole workflows first, the largest first."""
        found: dict[CellKey, tuple[str, Estimate]] = {}
        for key, cell in self._cells.scores.items():
            if not _is_told_apart(key.segment, told_apart):
                continue
            mean = estimate_of(cell, self._objectives.of(key.score, key.workflow))
            if mean is not None and cell.kind is not None:
                found[key] = cell.kind.direction, mean
        order = sorted(found, key=lambda key: (bool(key.segment), -found[key][1].n_requests, key))
        return {key: found[key] for key in order}

    def by_name(self, name: str) -> dict[str, int]:
        """Return requests by service or workflow."""
        found: Counter[str] = Counter()
        for key, counts in self._cells.groups.items():
            if self._is_chosen(key):
                found[getattr(key, name)] += counts["requests"]
        return dict(sorted(found.items(), key=lambda each: (-each[1], each[0])))

    def segments(self, told_apart: Mapping[str, object]) -> dict[str, dict[str, int]]:
        """Return requests by part, whatever part is looked at."""
        found: dict[str, Counter[str]] = {}
        for key, counts in self._cells.groups.items():
            if (
                key.segment
                and self._is_of_workflow(key)
                and _is_told_apart(key.segment, told_apart)
            ):
                name, _, value = key.segment.partition(":")
                found.setdefault(name, Counter())[value] += counts["requests"]
        return {name: dict(values.most_common()) for name, values in sorted(found.items())}

    def _is_chosen(self, key: GroupKey) -> bool:
        return self._is_of_workflow(key) and key.segment == (self._filters.segment or "")

    def _is_of_workflow(self, key: GroupKey) -> bool:
        wanted = self._filters
        return wanted.service in (None, key.service) and wanted.workflow in (None, key.workflow)


def _is_told_apart(segment: str, told_apart: Mapping[str, object]) -> bool:
    # Metadata that turned out to have too many values is no segment any more.
    return not segment or segment.partition(":")[0] in told_apart


def summary(
    name: str,
    cell: Cell,
    usual: Cell | None,
    trend: Sequence[TrendPoint],
    objective: Objective | None = None,
) -> ScoreSummary:
    """Return one score over everything that is looked at."""
    kind = cell.kind
    return ScoreSummary(
        name=name,
        direction=kind.direction if kind else "none",
        method=kind.method if kind else "",
        target=kind.target if kind else "",
        definition=kind.definition if kind else "",
        range=(kind.lowest, kind.highest) if kind else (None, None),
        judged=kind is not None and kind.judged,
        estimate=estimate_of(cell, objective),
        statuses=dict(sorted(cell.statuses.items())),
        usual=usual_of(usual) or usual_of(cell),
        trend=tuple(trend),
    )


def trends(parts: Iterable[tuple[int, int, dict[str, Cell]]]) -> dict[str, list[TrendPoint]]:
    """Return how scores went; neighbouring stretches are joined until each has enough values."""
    found: dict[str, list[TrendPoint]] = {}
    open_: dict[str, tuple[int, int, Cell]] = {}
    for from_ms, until_ms, scores in parts:
        for name, cell in scores.items():
            began, _, whole = open_.get(name, (from_ms, until_ms, Cell(cell.kind)))
            whole.add(cell)
            open_[name] = (began, until_ms, whole)
            if sum(whole.bins) >= LEAST_IN_BIN:
                _close(found, name, open_)
    for name in list(open_):
        _close(found, name, open_)
    return found


def _close(
    found: dict[str, list[TrendPoint]], name: str, open_: dict[str, tuple[int, int, Cell]]
) -> None:
    began, ended, cell = open_.pop(name)
    mean = estimate_of(cell)
    if mean is not None and any(cell.bins):
        found.setdefault(name, []).append(TrendPoint(from_ms=began, until_ms=ended, estimate=mean))


def judge_use(counts: Mapping[str, int]) -> JudgeUse:
    """Return what the judge was asked."""
    priced = counts.get("judge:priced", 0)
    return JudgeUse(
        priced=priced,
        cost=counts.get("judge:cost", 0) / COST_UNITS if priced else None,
        **{
            name: counts.get(f"judge:{name}", 0)
            for name in (
                "requests", "failed", "calls", "input_tokens", "output_tokens", "cache_hits",
            )
        }
    )  # fmt: skip


def prefixed(counts: Mapping[str, int], prefix: str) -> dict[str, int]:
    """Return the counts whose names begin so, without that."""
    return {
        name.removeprefix(prefix): count
        for name, count in sorted(counts.items())
        if name.startswith(prefix)
    }
