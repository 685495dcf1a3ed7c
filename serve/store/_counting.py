"""Count stored requests: their rows are read, and added up in cells, as a meter counts requests.

Requests kept only for being bad are in no mean, as they are no random sample; a judged score is weighted by the
inverse of its probability of being judged.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from operator import itemgetter
from typing import Any, NamedTuple, cast

from ragmeter.metrics import Score
from ragmeter.metrics._ungrounded import GROUNDEDNESS
from ragmeter.quality.manner import parts_of
from ragmeter.quality.moments import FreeMoments
from ragmeter.quality.population import proxy_value
from ragmeter.quality.verdict_shares import CountedShare, verdict_shares

from ._cells import ALL, BINS, Cell, CellKey, Cells, GroupKey, Home, Keep, measurement
from ._conversations import Turns, earlier
from ._database import Database
from ._names import DistinctSegments
from ._parts import SHARE_KINDS, Kind
from ._rows import kinds_of, stored_segments

COST_UNITS = 10**9
"""Units of one currency unit: costs are whole numbers of these, so that they add up in any order."""
FAILED = frozenset({"judge_error", "timeout", "metric_error"})
"""Statuses of a judged score that was tried and failed."""
_MANY = 4
"""Requests of the same groups from which on it is cheaper to count once and add to each group."""
_AT_ONCE = 128
"""Requests whose scores are read at a time."""
_Row = tuple[Any, ...]
_REQUESTS = (
    "SELECT r.id, r.at, r.conversation_id, r.question, r.service, r.workflow, r.status, r.verdict, "
    "r.started_ns IS NULL, r.language, r.retriever, r.metadata, r.segments, r.judge_sample_rate, r.selection, "
    "r.judge_selection FROM request r"
)
_SCORES = (
    "SELECT s.request, s.name, coalesce(s.status, 'ok'), s.kind, s.turned, s.lower, s.upper, "
    "coalesce(s.judge_calls, 0), coalesce(s.input_tokens, 0), coalesce(s.output_tokens, 0), "
    "coalesce(s.cache_hits, 0), s.cost, s.asked_with FROM score s"
)
_UNGROUNDED = (
    "SELECT s.request, s.kind, s.turned, e.summary FROM score s "
    "JOIN evidence e ON e.request = s.request AND e.name = s.name "
    f"WHERE s.name = '{GROUNDEDNESS}' AND s.request IN (these)"
)


class _Value(NamedTuple):
    """A score of one request, as counted."""

    value: float | None
    """Scaled to 0 … 1, in the score's own direction: low stays low."""
    status: str
    kind: Kind | None
    measurement: str
    lower: float | None = None
    upper: float | None = None
    usage: Sequence[int] = (0, 0, 0, 0)
    """Calls of the judge, tokens in, tokens out, and hits of its cache."""
    cost: float | None = None
    asked_with: float | None = None
    """In a cascade: the probability of asking for this score, given that the request was judged."""


class StoredRequest(NamedTuple):
    """A request in the form in which it is counted."""

    groups: tuple[GroupKey, ...]
    values: Mapping[str, _Value]
    judge_rate: float | None
    selection: str | None
    by_chance: bool
    """Whether the request would have been judged by chance alone."""
    counts: Mapping[str, int]

    def rate_of(self, value: _Value) -> float:
        """Return the probability with which a judged score was asked for."""
        return (self.judge_rate or 1.0) * (value.asked_with or 1.0)


def count_between(
    database: Database, moments: Sequence[int], distinct: DistinctSegments, keep: Keep = ALL
) -> list[Cells]:
    """Count the requests of each interval between two successive moments."""
    rows = database.execute(f"{_REQUESTS} WHERE r.at >= ? AND r.at < ?", (moments[0], moments[-1]))
    return _count(database, rows, distinct, ends=moments[1:], keep=keep)


def count_requests(
    database: Database, numbers: Sequence[int], distinct: DistinctSegments, *, with_parts: bool = False
) -> Cells:
    """Count requests by their row numbers; `with_parts`: including the parts of their groundedness."""
    rows = database.among(f"{_REQUESTS} WHERE r.id IN (these)", numbers)
    (cells,) = _count(database, rows, distinct, with_parts=with_parts)
    return cells


def _count(
    database: Database,
    requests: Iterable[_Row],
    distinct: DistinctSegments,
    *,
    ends: Sequence[float] = (math.inf,),
    keep: Keep = ALL,
    with_parts: bool = False,
) -> list[Cells]:
    """Count requests in intervals: before the first of `ends`, from there to the second, and so on."""
    kinds = kinds_of(database)
    present = sorted(requests, key=itemgetter(1, 0))
    paired = ", ".join(["-1", *(str(n) for n, kind in kinds.items() if Cell(kind).is_quality)])
    of_pairs = f"{_SCORES} WHERE s.turned IS NOT NULL AND s.kind IN ({paired}) AND s.request IN (these)"
    before = earlier(database, present, _REQUESTS)
    turns = Turns([*before, *present])
    for some in _read(database, before, of_pairs, kinds, distinct):
        for row, request in some:
            turns.count(row, request, None, keep)
    homes_of: list[dict[GroupKey, Home]] = [{} for _ in ends]
    found = [Cells() for _ in ends]
    for some in _read(database, present, f"{_SCORES} WHERE s.request IN (these)", kinds, distinct, with_parts):
        alike: dict[tuple[int, tuple[GroupKey, ...]], list[StoredRequest]] = {}
        for row, request in some:
            alike.setdefault((bisect_right(ends, row[1]), request.groups), []).append(request)
        for (place, groups), same in alike.items():
            kept = [homes_of[place].setdefault(one, {}) for one in groups if keep.has_part(one.segment)]
            counted = _count_alike(same, kept, keep)
            for group in groups:
                found[place].groups.setdefault(group, Counter()).update(counted)
        for row, request in some:
            turns.count(row, request, homes_of[bisect_right(ends, row[1])], keep)
    for cells, homes in zip(found, homes_of, strict=True):
        cells.scores = {
            CellKey(*group, *measured): cell for group, home in homes.items() for measured, cell in home.items()
        }
    return found


def _read(
    database: Database,
    rows: Sequence[_Row],
    statement: str,
    kinds: Mapping[int, Kind],
    distinct: DistinctSegments,
    with_parts: bool = False,
) -> Iterator[list[tuple[_Row, StoredRequest]]]:
    """Yield requests with their scores, some at a time: all of a busy hour would fill the memory."""
    unmeasured = {kind.name: kind.unmeasured() for kind in kinds.values()}
    for start in range(0, len(rows), _AT_ONCE):
        some = rows[start : start + _AT_ONCE]
        numbers = [row[0] for row in some]
        values: dict[int, dict[str, _Value]] = {number: {} for number in numbers}
        for number, name, *score in database.among(statement, numbers):
            values[number][name] = _value(kinds, unmeasured, name, *score)
        for number, *part in database.among(_UNGROUNDED, numbers) if with_parts else ():
            values[number] |= _parts(kinds, *part)
        yield [(row, _request(row, values[row[0]], distinct)) for row in some]


def _request(row: _Row, values: dict[str, _Value], distinct: DistinctSegments) -> StoredRequest:
    _, _, _, question, service, workflow, status, verdict, orphan, *rest = row
    language, retriever, metadata, named, judge_rate, selection, judge_selection = rest
    parts = stored_segments(language, retriever, metadata, named)
    for share in verdict_shares(verdict):
        values[share.name] = _counted_share(share)
    return StoredRequest(
        tuple(GroupKey(service or "", workflow or "", segment) for segment in ("", *distinct.of(parts))),
        values,
        judge_rate,
        selection,
        judge_selection != "worst",
        _counts(status, verdict, question is not None, orphan, values),
    )


def _count_alike(same: Sequence[StoredRequest], homes: Sequence[Home], keep: Keep) -> Counter[str]:
    """Count requests of the same groups; many are counted once and then added to each group."""
    once: Home = {}
    places = homes if len(same) < _MANY else [once]
    counted: Counter[str] = Counter()
    for request in same:
        for each, n in request.counts.items():
            counted[each] += n
        for name in request.values if keep.scores is None else keep.scores & request.values.keys():
            for home in places:
                _count_value(home, name, request)
    for home in homes:
        for place, cell in once.items():
            home.setdefault(place, Cell(cell.kind)).add(cell)
    return counted


def _parts(
    kinds: Mapping[int, Kind], kind_number: int | None, value: float | None, summary: str | None
) -> dict[str, _Value]:
    """Return the parts that an answer's groundedness lacks, as values of the same formula; empty if unknown."""
    kind = None if kind_number is None else kinds.get(kind_number)
    if kind is None:
        return {}
    found = parts_of(summary, value)
    kinds_of_parts = {
        name: kind._replace(name=name, direction="lower", lowest=0.0, highest=1.0) for name in found
    }
    return {name: _Value(found[name], "ok", part, part.measurement) for name, part in kinds_of_parts.items()}


def _count_value(home: Home, name: str, request: StoredRequest) -> None:
    value = request.values[name]
    place = name, value.measurement
    cell = home.get(place)
    if cell is None:
        cell = home[place] = Cell(value.kind)
    elif cell.kind is None and value.kind is not None:
        cell.add(Cell(value.kind))
    cell.statuses[value.status] += 1
    if value.value is not None:
        cell.bins[min(BINS - 1, int(value.value * BINS))] += 1
    if request.selection != "worst":
        _measure(cell, name, request)


def _value(kinds: Mapping[int, Kind], unmeasured: Mapping[str, Kind], name: str, *row: Any) -> _Value:
    status, kind_number, turned, lower, upper, *usage, cost, asked_with = row
    kind = kinds.get(kind_number)
    if kind is None and status in ("skipped", "missing_input"):
        # A score that was not tried is reported by name only: its kind is known from other requests, its
        # judge is not.
        kind = unmeasured.get(name)
    value = turned
    if turned is not None and kind is not None and kind.direction == "lower":
        value = 1.0 - turned
    low = None if kind is None or lower is None else kind.place(lower)
    high = None if kind is None or upper is None else kind.place(upper)
    return _Value(value, status, kind, measurement(kind), low, high, usage, cost, asked_with)


@cache
def _counted_share(share: CountedShare) -> _Value:
    kind = SHARE_KINDS[share.name]
    return _Value(share.value, "ok", kind, kind.measurement)


def _counts(
    status: str | None, verdict: str | None, asked: bool, orphan: int, values: Mapping[str, _Value]
) -> dict[str, int]:
    counts = {"requests": 1, f"status:{status or 'unknown'}": 1, f"verdict:{verdict or 'none'}": 1}
    if not asked:
        counts["without_text"] = 1
    if orphan:
        counts["orphans"] = 1
    empty = values.get("empty_retrieval")
    if empty is not None and empty.value == 1.0:
        counts["nothing_retrieved"] = 1
    judged = [one for one in values.values() if one.kind is not None and one.kind.judged]
    tried = [one for one in judged if one.status not in ("skipped", "missing_input")]
    if tried:
        counts["judge:requests"] = 1
        if any(one.status in FAILED for one in tried):
            counts["judge:failed"] = 1
    asking = [one.usage for one in values.values() if any(one.usage)]
    for place, name in enumerate(("calls", "input_tokens", "output_tokens", "cache_hits")):
        used = sum(usage[place] for usage in asking)
        if used:
            counts[f"judge:{name}"] = used
    costs = [one.cost for one in values.values() if one.cost is not None]
    if costs:
        counts["judge:priced"] = 1
        counts["judge:cost"] = round(sum(costs) * COST_UNITS)
    return counts


def _measure(cell: Cell, name: str, request: StoredRequest) -> None:
    if not cell.is_quality:
        return
    value = request.values[name]
    sums, status = cell.moments, value.status
    if isinstance(sums, FreeMoments):
        if status not in ("missing_input", "skipped"):
            sums.add_value(value.value, undefined=status == "undefined")
        return
    if status == "missing_input":
        return
    # `proxy_value` reads only the values of the scores.
    x = proxy_value(name, cast("Mapping[str, Score]", request.values))
    # Scores that a cascade spared count, too: free scores of all requests correct the judged ones of some.
    sums.add_request(x)
    if status != "skipped":
        sums.judged(
            x,
            request.rate_of(value),
            value.value,
            lower=0.0 if value.lower is None else value.lower,
            upper=1.0 if value.upper is None else value.upper,
            undefined=status == "undefined",
            # Requests that a cascade judged because they were undecided are no random sample.
            by_chance=request.by_chance and value.asked_with is None,
        )
