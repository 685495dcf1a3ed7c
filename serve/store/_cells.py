"""Sums over requests: their number, outcomes and scores, by workflow and segment.

The `Cells` of two periods add up to those of both, so the overview of a day is assembled from hours that were
summed once. Values of two judges, or of two formulas, are in two cells, as `Kind.measurement` distinguishes
them: they have no common mean. The sums are those of `ragmeter.quality.moments`, computed as a meter computes
them. Requests kept only for being bad are in no mean, as they are no random sample; a judged score is
weighted by the inverse of its probability of being judged.
"""

from __future__ import annotations

import json
import math
import zlib
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, lru_cache
from operator import itemgetter
from types import MappingProxyType
from typing import Any, NamedTuple, cast

from ragmeter.metrics import Score
from ragmeter.metrics._ungrounded import GROUNDEDNESS
from ragmeter.quality.manner import parts_of
from ragmeter.quality.measurement import measurement_of
from ragmeter.quality.moments import FreeMoments, JudgedMoments
from ragmeter.quality.population import proxy_value
from ragmeter.quality.verdict_shares import CountedShare, verdict_shares

from ._conversations import Turns, earlier
from ._database import Database
from ._forgetting import Known
from ._names import DistinctSegments
from ._parts import SHARE_KINDS, Kind
from ._rows import kinds_of, stored_segments

BINS = 20
"""Number of equal parts of a score's range in which values are counted, for percentiles."""
_MANY = 4
"""Requests of the same groups from which on it is cheaper to count once and add to each group."""
COST_UNITS = 10**9
"""Units of one currency unit: costs are whole numbers of these, so that they add up in any order."""
FAILED = frozenset({"judge_error", "timeout", "metric_error"})
"""Statuses of a judged score that was tried and failed."""


class GroupKey(NamedTuple):
    """The key of requests that are counted together."""

    service: str
    workflow: str
    segment: str
    """``name:value``; empty: all requests of the workflow."""


class CellKey(NamedTuple):
    """The key of scores that are counted together."""

    service: str
    workflow: str
    segment: str
    score: str
    measurement: str = ""
    """Identifies formula and judge, as `Kind.measurement`; empty: not measured."""


class Keep(NamedTuple):
    """A choice of scores. Counts of requests are kept for all segments."""

    segments: frozenset[str] | None = None
    """The chosen segments, the empty one being the whole; None: all."""
    scores: frozenset[str] | None = None
    """The chosen scores by name; None: all."""
    named: str = ""
    """Name of a segment all of whose values are chosen, too."""
    service: str | None = None
    """The only service to choose, also for the counts of requests; None: all. `Sums` caches without this
    choice."""

    def has(self, segment: str, score: str) -> bool:
        """Return whether a score is chosen."""
        return (self.scores is None or score in self.scores) and self.has_part(segment)

    def has_part(self, segment: str) -> bool:
        """Return whether the scores of a segment are chosen."""
        if self.segments is None or segment in self.segments:
            return True
        return bool(self.named) and segment.startswith(f"{self.named}:")

    @property
    def shared(self) -> Keep:
        """The wider choice under which results are cached, to serve other choices of the same segments."""
        segments = None if self.segments is None else self.segments | {""}
        return Keep(segments, named=self.named)


ALL = Keep()
"""Chooses every score."""
WHOLE = Keep(frozenset({""}))
"""Chooses the scores of whole services and workflows."""


class Cell:
    """One score of one group of requests, as one judge or formula measured it."""

    __slots__ = ("bins", "kind", "moments", "statuses")

    def __init__(self, kind: Kind | None) -> None:
        self.kind = kind
        self.statuses: Counter[str] = Counter()
        self.bins = [0] * BINS
        self.moments: FreeMoments | JudgedMoments = (
            JudgedMoments() if kind is not None and kind.judged else FreeMoments()
        )

    @property
    def is_quality(self) -> bool:
        """Whether the score has a direction and a bounded range, so that one value is better than another."""
        kind = self.kind
        return (
            kind is not None
            and kind.direction != "none"
            and kind.lowest is not None
            and kind.highest is not None
        )

    def add(self, other: Cell) -> None:
        """Add the counts of another cell."""
        if self.kind is None and other.kind is not None:
            fresh = Cell(other.kind)
            fresh.statuses = self.statuses
            self.kind, self.moments = fresh.kind, fresh.moments
        _add_counts(self.statuses, other.statuses)
        self.bins = [one + two for one, two in zip(self.bins, other.bins, strict=True)]
        if type(self.moments) is type(other.moments):
            self.moments.add(other.moments.values())


def _add_counts(to: Counter[str], more: Mapping[str, int]) -> None:
    # Many times faster than `Counter.update`, which a page would call tens of thousands of times.
    for name, n in more.items():
        to[name] = to.get(name, 0) + n


Home = dict[tuple[str, str], Cell]
"""Cells by score and measurement."""


class _Value(NamedTuple):
    """A score of one request, as counted."""

    value: float | None
    """Scaled to 0 … 1, in the score's own direction: low stays low."""
    status: str
    kind: Kind | None
    lower: float | None
    upper: float | None
    usage: tuple[int, int, int, int]
    cost: float | None
    asked_with: float | None
    """In a cascade: the probability of asking for this score, given that the request was judged."""
    measurement: str


class Cells:
    """Counts of requests, and cells of scores, by group."""

    def __init__(self) -> None:
        self.groups: dict[GroupKey, Counter[str]] = {}
        self.scores: dict[CellKey, Cell] = {}

    def add(self, other: Cells, keep: Keep = ALL) -> None:
        """Add other cells, of their scores only the chosen ones."""
        everyone, service = keep.service is None, keep.service
        for group, counts in other.groups.items():
            if everyone or group.service == service:
                _add_counts(self.groups.setdefault(group, Counter()), counts)
        for key, cell in other.scores.items():
            if not (everyone or key.service == service) or not keep.has(key.segment, key.score):
                continue
            mine = self.scores.get(key)
            if mine is None:
                mine = self.scores[key] = Cell(cell.kind)
            mine.add(cell)

    def known(self, known: Known) -> Cells:
        """Return a copy with undistinguished names as `OTHER`, and without scores of undistinguished names."""
        cells = Cells()
        places = {group: known.place(*group) for group in self.groups}
        for group, counts in self.groups.items():
            place = places[group]
            if place is not None:
                cells.groups.setdefault(GroupKey(*place), Counter()).update(counts)
        for key, cell in self.scores.items():
            place = places[GroupKey(*key[:3])]
            if place is not None and key.score in known.scores:
                kind = known.kind(cell.kind)
                where = CellKey(*place, key.score, _measurement(kind))
                cells.scores.setdefault(where, Cell(kind)).add(cell)
        return cells

    def pack(self) -> bytes:
        """Serialise the cells."""
        # The measurement in a key follows from the kind.
        scores = [
            [*key[:4], cell.kind, dict(cell.statuses), cell.bins, _moments_by_name(cell.moments)]
            for key, cell in self.scores.items()
        ]
        groups = [[*key, counts] for key, counts in self.groups.items()]
        return zlib.compress(json.dumps([groups, scores]).encode())

    @classmethod
    def unpack(cls, data: bytes, keep: Keep = ALL) -> Cells:
        """Deserialise the result of `pack`, of its scores only the chosen ones."""
        cells = cls()
        groups, scores = json.loads(zlib.decompress(data))
        for service, workflow, segment, counts in groups:
            cells.groups[GroupKey(service, workflow, segment)] = Counter(counts)
        for service, workflow, segment, name, kind, statuses, bins, sums in scores:
            if not keep.has(segment, name):
                continue
            cell = Cell(None if kind is None else Kind(*kind))
            key = CellKey(service, workflow, segment, name, _measurement(cell.kind))
            cell.statuses.update(statuses)
            cell.bins = bins
            # A sum that an earlier version did not have is 0.
            cell.moments.add([sums.get(each, 0.0) for each in cell.moments.names])
            cells.scores[key] = cell
        return cells

    @classmethod
    def between(
        cls, database: Database, moments: Sequence[int], distinct: DistinctSegments, keep: Keep = ALL
    ) -> list[Cells]:
        """Count the requests of each interval between two successive moments."""
        bounds = (moments[0], moments[-1])
        return _count(
            database,
            database.execute(f"{_REQUESTS} WHERE r.at >= ? AND r.at < ?", bounds),
            _by_request(database.execute(f"{_SCORES} WHERE r.at >= ? AND r.at < ?", bounds)),
            distinct,
            ends=moments[1:],
            keep=keep,
        )

    @classmethod
    def of(
        cls, database: Database, numbers: Iterable[int], distinct: DistinctSegments, *, with_parts: bool = False
    ) -> Cells:
        """Count requests by their row numbers; `with_parts`: including the parts of their groundedness."""
        chosen = list(numbers)
        (cells,) = _count(
            database,
            database.among(f"{_REQUESTS} WHERE r.id IN (these)", chosen),
            _by_request(database.among(f"{_SCORES} WHERE r.id IN (these)", chosen)),
            distinct,
            _by_request(database.among(_UNGROUNDED, chosen)) if with_parts else {},
        )
        return cells


def _count(
    database: Database,
    requests: Iterable[tuple[Any, ...]],
    scores: dict[int, list[tuple[Any, ...]]],
    distinct: DistinctSegments,
    ungrounded: Mapping[int, list[tuple[Any, ...]]] = MappingProxyType({}),
    *,
    ends: Sequence[float] = (math.inf,),
    keep: Keep = ALL,
) -> list[Cells]:
    """Count requests in intervals: before the first of `ends`, from there to the second, and so on."""
    kinds = kinds_of(database)
    unmeasured = {kind.name: kind.unmeasured() for kind in kinds.values()}
    present = sorted(requests, key=itemgetter(1, 0))
    paired = ", ".join(["-1", *(str(n) for n, kind in kinds.items() if Cell(kind).is_quality)])
    of_pairs = f"{_SCORES} WHERE s.turned IS NOT NULL AND s.kind IN ({paired})"
    rows, known = earlier(database, present, _REQUESTS, of_pairs)
    by_number, turns = _by_request(known), Turns()
    for row in rows:
        turns.add(row, _read(row, by_number, kinds, unmeasured, distinct), None)
    homes_of: list[dict[GroupKey, Home]] = [{} for _ in ends]
    alike: list[dict[tuple[GroupKey, ...], list[StoredRequest]]] = [{} for _ in ends]
    for row in present:
        request = _read(row, scores, kinds, unmeasured, distinct)
        if (known_parts := ungrounded.get(row[0])) is not None:
            request = request._replace(values={**request.values, **_parts(kinds, *known_parts[0][1:])})
        place = bisect_right(ends, row[1])
        turns.add(row, request, homes_of[place])
        alike[place].setdefault(request.groups, []).append(request)
    found = [Cells() for _ in ends]
    for cells, homes, some in zip(found, homes_of, alike, strict=True):
        for groups, same in some.items():
            counted = _count_alike(
                same, [homes.setdefault(group, {}) for group in groups if keep.has_part(group.segment)], keep
            )
            for group in groups:
                cells.groups.setdefault(group, Counter()).update(counted)
    turns.count_pairs(keep)
    for cells, homes in zip(found, homes_of, strict=True):
        cells.scores = {
            CellKey(*group, *measured): cell for group, home in homes.items() for measured, cell in home.items()
        }
    return found


class StoredRequest(NamedTuple):
    """A request in the form in which it is counted."""

    groups: tuple[GroupKey, ...]
    values: Mapping[str, _Value]
    judge_rate: float | None
    selection: str | None
    by_chance: bool
    """Whether the request would have been judged by chance alone."""
    counts: Mapping[str, int]


def _read(
    row: tuple[Any, ...],
    scores: dict[int, list[tuple[Any, ...]]],
    kinds: Mapping[int, Kind],
    unmeasured: Mapping[str, Kind],
    distinct: DistinctSegments,
) -> StoredRequest:
    """Return a request with its scores; their rows are dropped, which take as much memory."""
    number, _, _, question, service, workflow, status, verdict, orphan, *rest = row
    language, retriever, metadata, named, judge_rate, selection, judge_selection = rest
    parts = stored_segments(language, retriever, metadata, named)
    values = {name: _value(kinds, unmeasured, name, *one) for _, name, *one in scores.pop(number, ())}
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


_REQUESTS = (
    "SELECT r.id, r.at, r.conversation_id, r.question, r.service, r.workflow, r.status, r.verdict, "
    "r.started_ns IS NULL, r.language, r.retriever, r.metadata, r.segments, r.judge_sample_rate, r.selection, "
    "r.judge_selection FROM request r"
)
_SCORES = (
    "SELECT s.request, s.name, s.value, s.status, s.kind, s.turned, s.lower, s.upper, s.judge_calls, "
    "s.input_tokens, s.output_tokens, s.cache_hits, s.cost, s.asked_with "
    "FROM request r JOIN score s ON s.request = r.id"
)
_UNGROUNDED = (
    "SELECT s.request, s.kind, s.turned, e.summary FROM score s "
    "JOIN evidence e ON e.request = s.request AND e.name = s.name "
    f"WHERE s.name = '{GROUNDEDNESS}' AND s.request IN (these)"
)


def _parts(
    kinds: Mapping[int, Kind], kind_number: int | None, value: float | None, summary: str | None
) -> dict[str, _Value]:
    """Return the parts that an answer's groundedness lacks, as values of the same formula; empty if unknown."""
    kind = None if kind_number is None else kinds.get(kind_number)
    if kind is None:
        return {}
    return {
        name: _Value(
            share,
            "ok",
            kind._replace(name=name, direction="lower", lowest=0.0, highest=1.0),
            None,
            None,
            (0, 0, 0, 0),
            None,
            None,
            measurement_of(name, kind.definition),
        )
        for name, share in parts_of(summary, value).items()
    }


@lru_cache(maxsize=1024)
def _measurement(kind: Kind | None) -> str:
    return "" if kind is None else kind.measurement


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
        _measure(cell, name, value, request.values, request.judge_rate, by_chance=request.by_chance)


def _by_request(rows: Iterable[tuple[Any, ...]]) -> dict[int, list[tuple[Any, ...]]]:
    found: dict[int, list[tuple[Any, ...]]] = {}
    for row in rows:
        found.setdefault(row[0], []).append(row)
    return found


def _value(kinds: Mapping[int, Kind], unmeasured: Mapping[str, Kind], name: str, *row: Any) -> _Value:
    _, status, kind_number, turned, lower, upper, *usage, cost, asked_with = row
    kind = kinds.get(kind_number)
    if kind is None and status in ("skipped", "missing_input"):
        # A score that was not tried is reported by name only: its kind is known from other requests, its
        # judge is not.
        kind = unmeasured.get(name)
    value = turned
    if turned is not None and kind is not None and kind.direction == "lower":
        value = 1.0 - turned
    calls, sent, written, hits = usage
    used = (calls or 0, sent or 0, written or 0, hits or 0)
    place = _place(kind, lower), _place(kind, upper)
    return _Value(value, status or "ok", kind, *place, used, cost, asked_with, _measurement(kind))


@cache
def _counted_share(share: CountedShare) -> _Value:
    kind, unused = SHARE_KINDS[share.name], (0, 0, 0, 0)
    return _Value(share.value, "ok", kind, None, None, unused, None, None, kind.measurement)


def _place(kind: Kind | None, value: float | None) -> float | None:
    if kind is None or value is None:
        return None
    turned = kind.turned(value)
    return 1.0 - turned if turned is not None and kind.direction == "lower" else turned


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
    tried = [one for one in values.values() if _is_tried(one)]
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


def _is_tried(one: _Value) -> bool:
    return one.kind is not None and one.kind.judged and one.status not in ("skipped", "missing_input")


def _measure(
    cell: Cell,
    name: str,
    value: _Value,
    values: Mapping[str, _Value],
    judge_rate: float | None,
    *,
    by_chance: bool,
) -> None:
    if not cell.is_quality:
        return
    sums, status = cell.moments, value.status
    if isinstance(sums, FreeMoments):
        if status not in ("missing_input", "skipped"):
            sums.add_value(value.value, undefined=status == "undefined")
        return
    if status == "missing_input":
        return
    # `proxy_value` reads only the values of the scores.
    x = proxy_value(name, cast("Mapping[str, Score]", values))
    asked_with = value.asked_with
    # Scores that a cascade spared count, too: free scores of all requests correct the judged ones of some.
    sums.add_request(x)
    if status != "skipped":
        sums.judged(
            x,
            (judge_rate or 1.0) * (asked_with or 1.0),
            value.value,
            lower=0.0 if value.lower is None else value.lower,
            upper=1.0 if value.upper is None else value.upper,
            undefined=status == "undefined",
            # Requests that a cascade judged because they were undecided are no random sample.
            by_chance=by_chance and asked_with is None,
        )


def _moments_by_name(moments: FreeMoments | JudgedMoments) -> dict[str, float]:
    return {name: value for name, value in zip(moments.names, moments.values(), strict=True) if value}
