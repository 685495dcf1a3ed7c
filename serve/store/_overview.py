"""Compute from sums what an overview shows: means with intervals, usual ranges, trends and counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from ragmeter.quality.estimate import estimate
from ragmeter.quality.estimates import Estimate
from ragmeter.quality.moments import Clustering
from ragmeter.quality.objectives import Objective, Objectives
from ragmeter.quality.verdict_shares import VERDICT_BAD

from ._cells import BINS, Cell, CellKey, Cells, GroupKey, sum_of
from ._counting import COST_UNITS
from ._measured import MeasuredScore, only_measurements, settle
from ._parts import UNKNOWN_DEFINITION, Kind
from .views import Filters, Group, JudgeUse, ScoreSummary, TrendPoint

LEAST_FOR_USUAL = 20
"""Fewest values for a usual range."""
LEAST_IN_BIN = 12
"""Fewest values of a trend's point: a quiet night makes long periods rather than a zigzag."""
_LOW, _HIGH = 0.1, 0.9


Known = Callable[[], Iterable[Objective]]
"""Returns the current objectives."""


class Mean(NamedTuple):
    """A mean and its score."""

    direction: str
    """The better direction."""
    estimate: Estimate
    definition: str
    """Version of the formula or prompt."""
    judge: str
    """The judge's model; empty: none, or unknown."""
    judged: bool
    """Whether only requests that were selected for judging have the score."""


def estimate_of(cell: Cell, objective: Objective | None = None) -> Estimate | None:
    """Return the mean with its interval and objective, or None if the score has no direction or range."""
    if not cell.is_quality or cell.kind is None:
        return None
    found = estimate(cell.moments)
    if objective is None:
        return found
    return replace(found, objective=cell.kind.place(objective.threshold), objective_share=objective.share)


def usual_of(cell: Cell | None) -> tuple[float, float] | None:
    """Return the 10th and the 90th percentile on the score's own scale, rounded outwards."""
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


class Selection:
    """The sums that match the filters."""

    def __init__(self, cells: Cells, filters: Filters, objectives: Objectives | None = None) -> None:
        self._cells = cells
        self._filters = filters
        self._objectives = objectives or Objectives()

    def counts(self) -> Counter[str]:
        """Return the number of requests, in total and by status, verdict and the like."""
        whole: Counter[str] = Counter()
        for key, counts in self._cells.groups.items():
            if self._is_chosen(key):
                whole.update(counts)
        return whole

    def scores(self) -> dict[MeasuredScore, Cell]:
        """Return the scores of the requested service, by name and measurement."""
        return self.by_service().get(self._filters.service or "", {})

    def first_mean(self, scores: Sequence[str]) -> Estimate | None:
        """Return the mean of the first of these scores that has one."""
        found = self.scores()
        for score in scores:
            for name, cell in found.items():
                mean = estimate_of(cell) if name.score == score else None
                if mean is not None and mean.mean is not None:
                    return mean
        return None

    def clustering(self) -> Clustering | None:
        """Return the similarity of verdicts within conversations; None: no conversation has two requests."""
        return next(
            (cell.moments.clustering() for name, cell in self.scores().items() if name.score == VERDICT_BAD),
            None,
        )

    def by_service(self) -> dict[str, dict[MeasuredScore, Cell]]:
        """Return the scores of each service, by name and measurement: there is no mean over two services."""
        found: dict[str, dict[MeasuredScore, Cell]] = {}
        for key, cell in settle(each for each in self._cells.scores.items() if self._is_chosen(each[0])):
            place = MeasuredScore(key.score, key.measurement)
            of_one = found.setdefault(key.service, {})
            of_one[place] = sum_of(of_one.get(place), cell)
        return {service: _join_unnamed(scores) for service, scores in found.items()}

    def groups(
        self, distinct: Mapping[str, object], order: Mapping[str, Mapping[str, Sequence[str]]]
    ) -> tuple[Group, ...]:
        """Return workflows and their segments, irrespective of the selected segment.

        `order`: the order of the measurements of each service's scores.
        """
        requests = {
            key: counts["requests"]
            for key, counts in self._cells.groups.items()
            if self._is_of_workflow(key) and _is_distinct(key.segment, distinct)
        }
        scores: dict[GroupKey, dict[MeasuredScore, Cell]] = {}
        for each, cell in settle(
            one for one in self._cells.scores.items() if GroupKey(*one[0][:3]) in requests
        ):
            measured = MeasuredScore(each.score, each.measurement)
            scores.setdefault(GroupKey(*each[:3]), {})[measured] = cell

        def largest_first(key: GroupKey) -> tuple[int, GroupKey, str, int, str]:
            whole = key._replace(segment="")
            name = key.segment.partition(":")[0]
            return -requests.get(whole, 0), whole, name, -requests[key], key.segment

        return tuple(
            self._group(key, requests[key], scores.get(key, {}), order.get(key.service, {}))
            for key in sorted(requests, key=largest_first)
        )

    def _group(
        self,
        key: GroupKey,
        requests: int,
        scores: Mapping[MeasuredScore, Cell],
        order: Mapping[str, Sequence[str]],
    ) -> Group:
        known: dict[str, list[str]] = {}
        for name, measurement in sorted(scores):
            known.setdefault(name, []).append(measurement)
        estimates: dict[str, Estimate] = {}
        measurements: dict[str, str] = {}
        for name, names in known.items():
            first = next((one for one in order.get(name, ()) if one in names), names[0])
            mean = estimate_of(scores[MeasuredScore(name, first)], self._objectives.of(name, key.workflow))
            if mean is not None:
                estimates[name], measurements[name] = mean, first
        return Group(**key._asdict(), requests=requests, estimates=estimates, measurements=measurements)

    def estimates(self, distinct: Mapping[str, object]) -> dict[CellKey, Mean]:
        """Return the means: whole workflows first, and the largest first."""
        found: dict[CellKey, Mean] = {}
        for key, cell in settle(self._cells.scores.items()):
            if not _is_distinct(key.segment, distinct):
                continue
            mean = estimate_of(cell, self._objectives.of(key.score, key.workflow))
            if mean is not None and cell.kind is not None:
                definition = "" if cell.kind.definition == UNKNOWN_DEFINITION else cell.kind.definition
                found[key] = Mean(cell.kind.direction, mean, definition, cell.kind.judge, cell.kind.judged)
        order = sorted(found, key=lambda key: (bool(key.segment), -found[key].estimate.n_requests, key))
        return {key: found[key] for key in order}

    def by_name(self, name: str) -> dict[str, int]:
        """Return the number of requests by service or workflow."""
        found: Counter[str] = Counter()
        for key, counts in self._cells.groups.items():
            if self._is_chosen(key):
                found[getattr(key, name)] += counts["requests"]
        return dict(sorted(found.items(), key=lambda each: (-each[1], each[0])))

    def segments(self, distinct: Mapping[str, object]) -> dict[str, dict[str, int]]:
        """Return the number of requests by segment, irrespective of the selected segment."""
        found: dict[str, Counter[str]] = {}
        for key, counts in self._cells.groups.items():
            if key.segment and self._is_of_workflow(key) and _is_distinct(key.segment, distinct):
                name, _, value = key.segment.partition(":")
                found.setdefault(name, Counter())[value] += counts["requests"]
        return {name: dict(values.most_common()) for name, values in sorted(found.items())}

    def _is_chosen(self, key: GroupKey | CellKey) -> bool:
        return key.segment == (self._filters.segment or "") and self._is_of_workflow(key)

    def _is_of_workflow(self, key: GroupKey | CellKey) -> bool:
        wanted = self._filters
        return wanted.service in (None, key.service) and wanted.workflow in (None, key.workflow)


def _join_unnamed(found: dict[MeasuredScore, Cell]) -> dict[MeasuredScore, Cell]:
    """Return cells, in which those without a measurement join those of another workflow with one."""
    keys = {CellKey("", "", "", *place): cell for place, cell in found.items()}
    return {MeasuredScore(key.score, key.measurement): cell for key, cell in settle(keys.items())}


def _is_distinct(segment: str, distinct: Mapping[str, object]) -> bool:
    # Metadata that now has too many values is no segment any more.
    return not segment or segment.partition(":")[0] in distinct


def summaries(
    scores: Mapping[str, Mapping[MeasuredScore, Cell]],
    before: Mapping[str, Mapping[MeasuredScore, Cell]],
    parts: Sequence[tuple[int, int, Mapping[str, Mapping[MeasuredScore, Cell]]]],
    order: Mapping[str, Mapping[str, Sequence[str]]],
    objective: Callable[[str], Objective | None],
) -> Iterator[ScoreSummary]:
    """Yield each score of each service, of its measurements the one to show first.

    `before` are the cells of the time before, `parts` those of successive periods with beginning and end,
    `order` the order of the measurements of each service's scores.
    """
    for service, cells in scores.items():
        lines = trends((began, ended, all_.get(service, {})) for began, ended, all_ in parts)
        earlier, ranks = before.get(service, {}), order[service]
        for name in sorted(cells, key=lambda one: (one[0], ranks[one[0]].index(one[1]))):
            cell = cells[name]
            kind = cell.kind
            yield ScoreSummary(
                service=service,
                name=name.score,
                measurement=name.measurement,
                judge=kind.judge if kind else "",
                direction=kind.direction if kind else "none",
                method=kind.method if kind else "",
                target=kind.target if kind else "",
                definition=kind.definition if kind and kind.definition != UNKNOWN_DEFINITION else "",
                range=(kind.lowest, kind.highest) if kind else (None, None),
                judged=kind is not None and kind.judged,
                estimate=estimate_of(cell, objective(name.score)),
                statuses=dict(sorted(cell.statuses.items())),
                usual=usual_of(earlier.get(name)) or usual_of(cell),
                trend=tuple(lines.get(name, ())),
            )


def trends(
    parts: Iterable[tuple[int, int, Mapping[MeasuredScore, Cell]]],
) -> dict[MeasuredScore, list[TrendPoint]]:
    """Return the course of scores; neighbouring periods are joined until each has enough values."""
    found: dict[MeasuredScore, list[TrendPoint]] = {}
    open_: dict[MeasuredScore, tuple[int, int, Cell]] = {}
    listed = list(parts)
    # Requests that were not measured for a time belong to the only judge there is.
    only = only_measurements(name for _, _, scores in listed for name in scores)
    for from_ms, until_ms, scores in listed:
        for each, cell in scores.items():
            name = each if each.measurement else MeasuredScore(each.score, only.get(each.score, ""))
            began, _, earlier = open_.get(name, (from_ms, until_ms, None))
            whole = sum_of(earlier, cell)
            open_[name] = (began, until_ms, whole)
            if sum(whole.bins) >= LEAST_IN_BIN:
                _close(found, name, open_)
    for name in list(open_):
        _close(found, name, open_)
    return found


def _close(
    found: dict[MeasuredScore, list[TrendPoint]],
    name: MeasuredScore,
    open_: dict[MeasuredScore, tuple[int, int, Cell]],
) -> None:
    began, ended, cell = open_.pop(name)
    mean = estimate_of(cell)
    if mean is not None and any(cell.bins):
        found.setdefault(name, []).append(TrendPoint(from_ms=began, until_ms=ended, estimate=mean))


def judge_use(counts: Mapping[str, int]) -> JudgeUse:
    """Return the number of judge calls and their outcomes."""
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


def with_prefix(counts: Mapping[str, int], prefix: str) -> dict[str, int]:
    """Return the counts whose names begin with a prefix, under the names without it."""
    return {
        name.removeprefix(prefix): count for name, count in sorted(counts.items()) if name.startswith(prefix)
    }
