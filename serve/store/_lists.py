"""Lists of requests, page by page, in an order that stays the same while more requests arrive."""

from __future__ import annotations

import json
import math
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from heapq import nlargest
from typing import Any

from ragmeter.quality.segments import OTHER

from ._cells import WHOLE, Cells
from ._database import Database
from ._measured import MeasuredScore
from ._names import OWN_SEGMENTS, distinct_segments
from ._overview import Selection, estimate_of
from ._rows import kinds_of, stored_segments
from ._sums import Sums
from ._tallies import OF_PERIOD
from ._text_search import holding, patterns
from .health_views import bad_share
from .views import Filters, InvalidQueryError, RequestPage, RequestRow, ScoreValue

MAX_LIMIT = 500
LONGEST_RANGE_S = 366 * 86_400.0
"""Longest period of a list."""
_LONGEST_MS = int(LONGEST_RANGE_S * 1000)
LATEST_MS = 253_370_764_800_000
"""Latest time to ask for: the year 9999, which every calendar supports."""
ROW = (
    "SELECT r.id, r.run_id, r.trace_id, r.span_id, r.at, r.started_ns, r.ended_ns, r.service, r.workflow, "
    "r.framework, r.status, r.language, r.retriever, r.metadata, r.segments, q.body, r.verdict, r.codes "
    "FROM request r LEFT JOIN text q ON q.id = r.question"
)
"""The columns of a line of a list."""
_RANK = "CASE r.verdict WHEN 'bad' THEN 2 WHEN 'suspect' THEN 1 ELSE 0 END"
MOST_HITS = 5_000
"""Most requests that a search finds, the newest."""
_SAME = "coalesce(r.question, -r.id)"
_LINE = f"{_SAME} || ' ' || coalesce(r.service, '')"
_ZERO = "CAST(0 AS DOUBLE PRECISION)"
_RANKED = 2**56
"""Greater than any request id, so that a rank added in multiples of it sorts first."""
_EXCESS = (
    "coalesce((SELECT sum(CASE WHEN u.mean > s.turned THEN u.mean - s.turned ELSE 0.0 END) FROM score s "
    "JOIN usual u ON u.kind = s.kind AND u.workflow = coalesce(r.workflow, '') "
    "AND u.service = coalesce(r.service, '') "
    "WHERE s.request = r.id AND s.turned IS NOT NULL), 0.0)"
)


class Lists:
    """Reads lists, within one snapshot of the store; `members` are the ids of the requests of `Filters.gap`."""

    def __init__(self, database: Database, sums: Sums, members: Collection[str] = ()) -> None:
        self._database = database
        self._sums = sums
        self._members = members

    def page(
        self,
        filters: Filters,
        bounds: tuple[int, int],
        *,
        sort: str,
        limit: int,
        cursor: str | None,
        grouped: bool,
    ) -> RequestPage:
        """Return a page; see `Reader.requests`."""
        if not 1 <= limit <= MAX_LIMIT:
            raise InvalidQueryError(f"limit is {limit}; allowed are 1 to {MAX_LIMIT}")
        self._check(sort)
        after: Sequence[Any] | None = None
        list_name = [sort, grouped]
        before = 0
        if cursor is not None:
            said_name, bounds, after, before = _read_cursor(cursor)
            if said_name != list_name:
                raise InvalidQueryError("the cursor is of a list in another order")
        if sort == "question":
            return self._by_question(filters, bounds, limit, after, before)
        one, two, joined, arguments = "0", _ZERO, "", list[Any]()
        if sort == "worst":
            one = _RANK
        elif sort != "newest":
            joined = "JOIN score x ON x.request = r.id AND x.name = ? AND x.value IS NOT NULL"
            # A score without a direction: the smallest values first.
            one, two = "coalesce(-x.turned, 0)", "-x.value"
            arguments.append(sort)
        where, given = list_where(filters, bounds, self._database, self._members)
        arguments += given
        total, *of_ranks = self._database.execute(
            f"SELECT {', '.join(_line_count(rank, grouped=grouped) for rank in (None, 2, 1))} "
            f"FROM request r {joined} WHERE {where}",
            arguments,
        ).fetchone()
        if sort == "worst":
            n_bad, n_suspect = of_ranks
            first, last = _reached(n_bad, n_suspect, after, limit, grouped=grouped)
            two = f"CASE WHEN {_RANK} BETWEEN {last} AND {first} THEN {_EXCESS} ELSE {_ZERO} END"
            where = where if grouped else f"{_RANK} BETWEEN {last} AND {first} AND {where}"
            self._note_usual(bounds)
        found = (
            f"SELECT r.id AS id, r.at AS at, {one} AS one, {two} AS two, {_LINE} AS same "
            f"FROM request r {joined} WHERE {where}"
        )
        lines = (
            f"SELECT found.*, count(*) OVER (PARTITION BY same) AS times, row_number() OVER (PARTITION BY "
            f"same ORDER BY one DESC, two DESC, at DESC, id DESC) AS place FROM ({found}) AS found"
            if grouped
            else found.replace(_LINE, "1 AS times, 1 AS place, 0")
        )
        further = "" if after is None else "AND (one, two, at, id) < (?, ?, ?, ?)"
        chosen = self._database.execute(
            f"SELECT id, one, two, at, times FROM ({lines}) AS lines WHERE place = 1 {further} "
            "ORDER BY one DESC, two DESC, at DESC, id DESC LIMIT ?",
            (*arguments, *(after or ()), limit + 1),
        ).fetchall()
        shown = chosen[:limit]
        following: str | None = None
        if len(chosen) > limit:
            number, one, two, at = shown[-1][:4]
            following = _cursor(list_name, bounds, (one, two, at, number), before + limit)
        rows = rows_of(
            self._database,
            [row[0] for row in shown],
            {number: (two if sort == "worst" else None, times) for number, _, two, _, times in shown},
        )
        return RequestPage(
            requests=tuple(rows), next=following, previous_count=before, total=int(total),
            complete=self._is_complete(filters),
        )  # fmt: skip

    def _is_complete(self, filters: Filters) -> bool:
        """Return whether the search has found all matching requests."""
        if not filters.search:
            return True
        (n,) = self._database.execute("SELECT count(*) FROM hit").fetchone()
        return int(n) < MOST_HITS

    def _check(self, sort: str) -> None:
        if sort in ("worst", "newest", "question"):
            return
        names = {name for (name,) in self._database.execute("SELECT name FROM name WHERE sort = 'score'")}
        if sort not in names:
            choices = ", ".join(sorted(names)) or "none is known yet"
            raise InvalidQueryError(f"sort is worst, question, newest, or the name of a score: {choices}")

    def _by_question(
        self, filters: Filters, bounds: tuple[int, int], limit: int, after: Sequence[Any] | None, before: int
    ) -> RequestPage:
        """Return a page of questions, those surely bad most often first, each by its worst request.

        Filters for bad requests do not change a question's share of bad ones, which is over all its requests.
        """
        whole = replace(filters, verdict=None, reason=None, scores=())
        where, given = list_where(whole, bounds, self._database, self._members)
        worst, chosen = f"{_RANK} * {_RANKED} + r.id", list[Any]()
        if filters != whole:
            condition, chosen = _narrowed(filters, bounds, self._database)
            scored, of_scores = _scores_where(filters)
            worst = f"CASE WHEN {' AND '.join([condition, *scored])} THEN {worst} END"
            chosen += of_scores
        share = cache(bad_share)  # few distinct arguments: most questions are rare
        found = [
            (int(last) % _RANKED, share(int(bad), int(n)))
            for _, _, n, bad, last in self._database.execute(
                f"SELECT {_SAME}, coalesce(r.service, ''), count(r.verdict), "
                f"sum(CASE r.verdict WHEN 'bad' THEN 1 ELSE 0 END), max({worst}) "
                f"FROM request r WHERE {where} GROUP BY 1, 2",
                (*chosen, *given),
            )
            if last is not None
        ]
        order = ((one.lower, one.bad, one.requests, number) for number, one in found)
        if after is not None:
            order = (key for key in order if key < tuple(after))
        reached = nlargest(limit + 1, order)
        shown = reached[:limit]
        following = (
            _cursor(["question", False], bounds, shown[-1], before + limit) if len(reached) > limit else None
        )
        numbers = [key[-1] for key in shown]
        shares = {number: share(bad, n) for _, bad, n, number in shown}
        rows = rows_of(self._database, numbers, {one: (None, shares[one].requests) for one in numbers})
        return RequestPage(
            requests=tuple(replace(row, bad=shares[number]) for number, row in zip(numbers, rows, strict=True)),
            next=following,
            previous_count=before,
            total=len(found),
            complete=self._is_complete(filters),
        )

    def _note_usual(self, bounds: tuple[int, int]) -> None:
        self._database.execute(
            "CREATE TEMP TABLE usual (service TEXT, workflow TEXT, kind INTEGER, mean DOUBLE PRECISION, "
            "PRIMARY KEY (kind, workflow, service, mean))"
        )
        self._database.executemany(
            "INSERT INTO usual VALUES (?, ?, ?, ?)", means_before(self._database, self._sums, *bounds)
        )


def _line_count(rank: int | None, *, grouped: bool) -> str:
    """Return the SQL expression that counts the lines of a rank; None: of all ranks."""
    line = _LINE if grouped else "r.id"
    one = line if rank is None else f"CASE {_RANK} WHEN {rank} THEN {line} END"
    return f"count(DISTINCT {one})" if grouped else f"count({one})"


def _reached(
    n_bad: int, n_suspect: int, after: Sequence[Any] | None, limit: int, *, grouped: bool
) -> tuple[int, int]:
    """Return the first and the last rank that a page can reach; the order within others is not computed."""
    first = 2 if after is None else min(2, max(0, int(after[0])))
    # The questions of suspect requests may also be among those of bad ones.
    lines = {2: n_bad, 1: max(0, n_suspect - n_bad) if grouped else n_suspect, 0: 0}
    # The number of remaining lines of the previous page's last rank is unknown.
    surely, last = lines[first] if after is None else 0, first
    while last and surely <= limit:
        last -= 1
        surely += lines[last]
    return first, last


def means_before(
    database: Database, sums: Sums, from_ms: int, until_ms: int, place: tuple[str, str] | None = None
) -> list[tuple[str, str, int, float]]:
    """Return the mean scores by service and workflow, turned so that 1 is best.

    They are means of the day before, or of the period itself where that day has none. Each is of one judge or
    formula, under the number of the score's kind, so that a value is compared with the mean of the same
    measurement. With a `place` only its means are returned; if the day before has them, the period itself is
    not read.
    """
    numbers: dict[MeasuredScore, list[int]] = {}
    for number, kind in kinds_of(database).items():
        numbers.setdefault(MeasuredScore(kind.name, kind.measurement), []).append(number)
    found: dict[tuple[str, str, int], float] = {}
    before = sums.day_before(database, from_ms, WHOLE)
    known = [before]
    if all(key[:2] != place for key in before.scores):
        hours = sums.settled_hours(database, from_ms, until_ms) or (from_ms, until_ms)
        keep = WHOLE if place is None else WHOLE._replace(service=place[0])
        known.insert(0, sums.between(database, *hours, keep))
    for cells in known:
        cells_of: dict[tuple[str, str], Cells] = {}
        for key, cell in cells.scores.items():
            if place in (None, key[:2]):
                cells_of.setdefault(key[:2], Cells()).scores[key] = cell
        for (service, workflow), chosen in cells_of.items():
            for name, cell in Selection(chosen, Filters(service=service, workflow=workflow)).scores().items():
                mean = estimate_of(cell)
                if mean is not None and mean.mean is not None and cell.kind is not None:
                    lower = cell.kind.direction == "lower"
                    for number in numbers.get(name, ()):
                        value = 1.0 - mean.mean if lower else mean.mean
                        found[service, workflow, number] = value
    return [(*each, mean) for each, mean in found.items()]


def where_of(filters: Filters, bounds: tuple[int, int], database: Database) -> tuple[str, list[Any]]:
    """Return the SQL condition on requests ``r`` for filters and bounds, and its arguments."""
    conditions = [OF_PERIOD]
    given: list[Any] = [*bounds]
    for column, wanted in (
        ("r.service", filters.service),
        ("r.workflow", filters.workflow),
        ("r.verdict", filters.verdict),
    ):
        if wanted is not None:
            conditions.append(f"coalesce({column}, '') = ?")
            given.append(wanted)
    if filters.question is not None:
        # By the first half of its hash, which has an index.
        first = bytes.fromhex(filters.question)
        conditions.append("r.question IN (SELECT id FROM text WHERE hash >= ? AND hash < ?)")
        given += [first, first + b"\xff" * 8]
    if filters.segment:
        name, _, value = filters.segment.partition(":")
        if name in OWN_SEGMENTS:
            found = f"r.{name} = ?"
            given.append(value)
        else:
            found = " OR ".join(database.has_word.format(column=one) for one in ("r.segments", "r.metadata"))
            given += [name, value, name.removeprefix("metadata."), value]
        if value == OTHER:
            # What is counted as `OTHER` is stored as it came.
            column = f"r.{name}" if name in OWN_SEGMENTS else database.value_in.format(column="r.segments")
            found += f" OR {column} NOT IN (SELECT s.value FROM segment s WHERE s.name = ?)"
            given += [name] if name in OWN_SEGMENTS else [name, name]
        conditions.append(f"({found})")
    return " AND ".join(conditions), given


def without_facets(filters: Filters) -> Filters:
    """Return the filters without those that facets count."""
    return replace(filters, service=None, workflow=None, segment=None, segments=(), verdict=None, reason=None)


def list_where(
    filters: Filters, bounds: tuple[int, int], database: Database, members: Collection[str] = ()
) -> tuple[str, list[Any]]:
    """Return the SQL condition on requests ``r`` for all filters of a list, and its arguments.

    Slow conditions are evaluated once, into a temporary table: of a search, the newest `MOST_HITS` requests.
    """
    if filters.gap is not None:
        database.execute("CREATE TEMP TABLE IF NOT EXISTS gap_request (run_id TEXT)")
        database.execute("DELETE FROM gap_request")
        database.executemany("INSERT INTO gap_request VALUES (?)", [(one,) for one in members])
    condition, given = _narrowed(filters, bounds, database)
    if not (filters.scores or filters.search):
        return condition, given
    whole, of_whole = _narrowed(without_facets(filters), bounds, database)
    scored, of_scores = _scores_where(filters)
    database.execute("CREATE TEMP TABLE hit (id BIGINT PRIMARY KEY)")
    database.execute(
        "INSERT INTO hit SELECT r.id FROM request r WHERE "
        f"{' AND '.join([whole, *scored, *holding(database, filters.search or '')])} "
        "ORDER BY r.at DESC, r.id DESC LIMIT ?",
        (*of_whole, *of_scores, MOST_HITS if filters.search else 2**62),
    )
    return f"{condition} AND r.id IN (SELECT id FROM hit)", given


def _narrowed(filters: Filters, bounds: tuple[int, int], database: Database) -> tuple[str, list[Any]]:
    """Return the SQL condition for all filters but scores and search."""
    condition, given = where_of(filters, bounds, database)
    conditions = [condition]
    for part in filters.segments:
        one, more = where_of(Filters(segment=part), bounds, database)
        conditions.append(one)
        given += more
    if filters.reason:
        (pattern,) = patterns(f'"{filters.reason}"')[:1]
        conditions.append("r.codes LIKE ? ESCAPE '\\'")
        given.append(pattern)
    if filters.conversation_id is not None:
        conditions.append("r.conversation_id = ?")
        given.append(filters.conversation_id)
    if filters.gap is not None:
        conditions.append("r.run_id IN (SELECT run_id FROM gap_request)")
    return " AND ".join(conditions), given


def _scores_where(filters: Filters) -> tuple[list[str], list[Any]]:
    """Return the SQL conditions on requests ``r`` for bounds of scores, and their arguments."""
    conditions, given = list[str](), list[Any]()
    for name in dict.fromkeys(one[0] for one in filters.scores):
        bounds_of = [(sign, value) for score, sign, value in filters.scores if score == name]
        signs = " ".join(f"AND b.value {sign} ?" for sign, _ in bounds_of)
        conditions.append(f"EXISTS (SELECT 1 FROM score b WHERE b.request = r.id AND b.name = ? {signs})")
        given += [name, *(value for _, value in bounds_of)]
    return conditions, given


def rows_of(
    database: Database, numbers: Sequence[int], more: Mapping[int, tuple[float | None, int]]
) -> list[RequestRow]:
    """Return requests by the ids of their rows, as lines in this order.

    `more`: by id, the excess over the usual scores, and the number of requests with the question.
    """
    scores: dict[int, dict[str, ScoreValue]] = {}
    rows = database.among(
        "SELECT request, name, value, coalesce(status, 'ok'), label, lower, upper FROM score "
        "WHERE request IN (these)",
        numbers,
    )
    for number, name, *score in sorted(rows, key=lambda row: str(row[1])):
        value, status, label, lower, upper = score
        scores.setdefault(number, {})[name] = ScoreValue(
            value=value, status=status, label=label, lower=lower, upper=upper
        )
    distinct = distinct_segments(database)
    found = {
        row[0]: _row(row, scores.get(row[0], {}), more.get(row[0], (None, 1)), distinct)
        for row in database.among(f"{ROW} WHERE r.id IN (these)", numbers)
    }
    return [found[number] for number in numbers if number in found]


def _row(
    row: tuple[Any, ...],
    scores: Mapping[str, ScoreValue],
    more: tuple[float | None, int],
    distinct: Iterable[str],
) -> RequestRow:
    (_, run_id, trace_id, span_id, at, started, ended, service, workflow, framework, status, language,
     retriever, metadata, named, question, verdict, codes) = row  # fmt: skip
    parts = stored_segments(language, retriever, metadata, named)
    known = frozenset(distinct)
    return RequestRow(
        run_id=run_id,
        trace_id=trace_id and trace_id.hex(),
        span_id=span_id and span_id.hex(),
        at_ms=at,
        duration_ms=None if started is None or ended is None else (ended - started) / 1e6,
        service=service or "",
        workflow=workflow or "",
        framework=framework,
        status=status,
        segments={name: value for name, value in sorted(parts.items()) if name in known},
        question=question,
        verdict=verdict,
        verdict_codes=tuple(json.loads(codes or "[]")),
        scores=scores,
        excess=more[0],
        times=more[1],
        orphan=started is None,
    )


def _cursor(name: list[Any], bounds: tuple[int, int], after: Sequence[Any], before: int) -> str:
    said = json.dumps([name, bounds, after, before], separators=(",", ":"))
    return urlsafe_b64encode(said.encode()).decode().rstrip("=")


def _read_cursor(cursor: str) -> tuple[list[Any], tuple[int, int], list[Any], int]:
    try:
        said = json.loads(urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
        name, (from_ms, until_ms), after, before = said
        one, two, at, number = (float(each) for each in after)
        bounds = int(from_ms), int(until_ms)
        if not all(map(math.isfinite, (one, two, at, number))):
            raise ValueError("no place in a list")  # noqa: TRY301 -- as all that it cannot be
        place = list(name), bounds, [one, two, at, number], min(abs(int(before)), LATEST_MS)
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        raise InvalidQueryError("the cursor was not issued by this server") from error
    if not 0 <= bounds[0] <= bounds[1] <= min(LATEST_MS, bounds[0] + _LONGEST_MS):
        raise InvalidQueryError("the cursor was not issued by this server")
    return place
