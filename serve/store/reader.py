"""`Reader`: queries for pages and the API, while the writer continues to write.

Each result is of one moment.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

from ragmeter.metrics import RagmeterError
from ragmeter.quality.corpus.view import ChunkReport
from ragmeter.quality.objectives import Objectives
from ragmeter.quality.segments import OTHER
from ragmeter.watch.change import Change

from ._cells import ALL, CellKey, Cells, Keep
from ._chunk_list import chunks
from ._conversation_list import conversations
from ._database import Database, Home
from ._facets import facets
from ._gap_list import GAPS_RANGE_S, GapMembers, gaps, with_states
from ._lists import LATEST_MS, LONGEST_RANGE_S, Lists, where_of
from ._measured import MeasuredScore, in_order
from ._names import BOUNDS, distinct_segments
from ._novelty import SLACK_MS, new_in
from ._outages import outages
from ._overview import Known, Mean, Selection, judge_use, summaries, trends, with_prefix
from ._request_detail import as_stored, one_request
from ._rows import HOUR_MS, SLOT_MS
from ._search import with_part
from ._service_health import ServiceHealth
from ._shadows import ShadowBoard, ShadowView
from ._slots import ReceivedSlot, next_slot
from ._sums import Sums
from ._tallies import Tallies
from .health_views import HealthView
from .views import (
    ConversationPage,
    FacetPage,
    Filters,
    GapPage,
    GapView,
    InvalidQueryError,
    JudgeOutage,
    Overview,
    RequestPage,
    RequestView,
    ScoreSummary,
    TrendPoint,
)

__all__ = ["LATEST_MS", "LONGEST_RANGE_S", "Reader", "UnreadableStoreError"]

T = TypeVar("T")

_AHEAD_MS = 3_600_000
"""Milliseconds by which a sender's clock may be ahead; requests up to that are included."""
_DAY_MS = 86_400_000
_SLOW_S = 60.0
"""Seconds for which the results of slow queries are cached."""
_STALE_S = 600.0
"""Seconds for which an older result of a large store is still shown while the query runs again."""
_ASIDE_S = 1.0
"""Seconds by which a slow query is delayed, unless a caller waits for it, so that the page comes first."""
_SMALL = 500
"""Requests from which on a store is large."""
_LAST_HOUR = Filters()
_OF_GAPS = Filters(range_s=GAPS_RANGE_S)
_NO_GAPS: tuple[GapPage, GapMembers] = (
    GapPage(gaps=(), n_bad=0, n_requests=0, without_topic=0, why_empty="", complete=False),
    {},
)
_STEPS = 24
"""Fewest distinct start times within the length of a period: a day's start is rounded to the hour."""
_ORPHAN_MS = 60_000
"""Milliseconds after which a score whose request has not arrived is called an orphan."""


class _SlowReading(NamedTuple):
    """A slow query in progress or finished."""

    at: float
    """Start of the query, seconds since the epoch."""
    reading: Future[Any]
    hurry: threading.Event
    """Set when a caller waits."""
    before: Any
    """The previous result, or None."""


class UnreadableStoreError(RagmeterError):
    """The store cannot be read at the moment: it is busy or unreachable."""


class Reader:
    """Queries of a store. Thread-safe. Every query may raise `UnreadableStoreError`.

    Args:
        home: The storage.
        clock: Seconds since the epoch.
        texts: Whether texts are stored.
        shadows: The comparisons with other retrievers.
    """

    def __init__(
        self, home: Home, clock: Callable[[], float], *, texts: bool = True, shadows: ShadowBoard | None = None
    ) -> None:
        self._shadows = shadows or ShadowBoard()
        self._texts = texts
        self._objectives: Known = tuple
        self._home = home
        self._clock = clock
        self._sums = Sums()
        self._slow: dict[tuple[str, Filters], _SlowReading] = {}
        self._slow_thread = ThreadPoolExecutor(1, thread_name_prefix="ragmeter-slow-reading")
        self._tallies = Tallies()
        self._health = ServiceHealth(self._sums, self._tallies, clock)
        self._slow_turn = threading.Lock()

    def know_objectives(self, objectives: Known) -> None:
        """Set the source of objectives; `objectives` is called in each query that needs them."""
        self._objectives = objectives

    def shadows(self, service: str | None = None) -> Sequence[ShadowView]:
        """Return the comparisons with other retrievers, as last reported by applications."""
        return self._shadows.shadows(service)

    def estimates(self, range_s: float = 3600.0) -> Mapping[CellKey, Mean]:
        """Return the means over the last `range_s` seconds.

        The key is service, workflow, segment, score and measurement; whole workflows first, and the largest
        first.
        """
        filters = Filters(range_s=range_s)
        with self._reading(filters) as database:
            cells = self._sums.between(database, *self.bounds(filters))
            chosen = Selection(cells, filters, Objectives(self._objectives()))
            return chosen.estimates(distinct_segments(database))

    def overview(self, filters: Filters = _LAST_HOUR, *, scores: bool = True, groups: bool = True) -> Overview:
        """Return the overview of a period.

        Args:
            filters: The requests to count.
            scores: Whether to return `Overview.scores` and `Overview.others`.
            groups: Whether to return `Overview.groups`; only with scores.
        """
        from_ms, until_ms = self.bounds(filters)
        with self._reading(filters) as database:
            distinct = distinct_segments(database)
            keep = Keep(frozenset({filters.segment or ""}))
            together, parts = with_part(
                database,
                self._sums.between(database, from_ms, until_ms, ALL if groups else keep),
                list(self._sums.parts(database, from_ms, until_ms, keep)) if scores or filters.segment else (),
                filters,
                distinct,
            )
            objectives = Objectives(self._objectives())
            whole = Selection(together, filters, objectives)
            counts, services = whole.counts(), whole.by_name("service")
            order: dict[str, dict[str, tuple[str, ...]]] = {}
            found: list[ScoreSummary] = []
            if scores:
                # The usual values before the period; without requests before, those of the period.
                before = Selection(self._sums.day_before(database, from_ms, keep), filters)
                chosen = [
                    (began, ended, Selection(cells, filters).by_service()) for began, ended, cells in parts
                ]
                measured = whole.by_service()
                order = {one: in_order(of_all.get(one, {}) for _, _, of_all in chosen) for one in measured}
                found += summaries(
                    {one: measured[one] for one in services if one in measured},
                    before.by_service(),
                    chosen,
                    order,
                    lambda score: objectives.of(score, filters.workflow),
                )
            first = {(one.service, one.name): one for one in reversed(found)}
            ahead = 0
            if filters.until_ms is None:
                (ahead,) = database.execute(
                    "SELECT count(*) FROM request WHERE at >= ?", (until_ms,)
                ).fetchone()
                # Until now, or slightly later if a sender's clock is ahead.
                (last,) = database.execute("SELECT max(at) FROM request WHERE at < ?", (until_ms,)).fetchone()
                until_ms = max(from_ms, self._now_ms(), (last or 0) + 1)
            return Overview(
                from_ms=from_ms,
                until_ms=until_ms,
                requests=counts["requests"],
                statuses=with_prefix(counts, "status:"),
                verdicts=with_prefix(counts, "verdict:"),
                orphans=self._orphans(database, from_ms, until_ms),
                nothing_retrieved=counts["nothing_retrieved"],
                without_text=counts["without_text"],
                scores=tuple(reversed(first.values())),
                others=tuple(one for one in found if one is not first[one.service, one.name]),
                groups=whole.groups(distinct, order) if groups else (),
                judge=judge_use(counts),
                dropped=_drop_counts(database, from_ms, until_ms, filters.service),
                services=services,
                workflows=whole.by_name("workflow"),
                segments=whole.segments(distinct),
                last_ms=_last_ms(database),
                ahead=ahead,
            )

    def services(self, filters: Filters) -> Mapping[str, int]:
        """Return the services of a period with their numbers of requests."""
        bounds = self.bounds(filters)
        found: Counter[str] = Counter()
        with self._reading() as database:
            where, given = where_of(Filters(), bounds, database)
            for one, over_time in self._tallies.read(database, where, given, bounds[0], SLOT_MS):
                found[one.service] += over_time.total()
        return dict(sorted(found.items(), key=lambda each: (-each[1], each[0])))

    def health(self, filters: Filters = _LAST_HOUR, *, by: str = "") -> HealthView:
        """Return the health of services in a period.

        Args:
            filters: The requests to count.
            by: The kind of lanes: ``service``, ``workflow``, or a segment; empty: services, or the workflows
                of a single service.
        """
        with self._reading(filters) as database:
            return self._health.read(database, filters, self.bounds(filters), by)

    def now(self) -> float:
        """Return the time of the store's clock, seconds since the epoch."""
        return self._clock()

    def explained(self, change: Change) -> Change:
        """Return a change with `Change.new` filled in: the values that are new since then.

        The comparison is with the day before. Values first seen up to ten minutes before the change are new,
        too, as its start is an estimate.
        """
        since = max(0, int(change.since * 1000) - SLACK_MS)
        with self._reading() as database:
            distinct = distinct_segments(database)
            earlier = self._sums.parts(database, max(0, since - _DAY_MS), since)
            later = self._sums.parts(database, since, max(since, self._now_ms() + SLOT_MS))
            return replace(change, new=new_in(change, earlier, later, distinct))

    def trends(self, filters: Filters = _LAST_HOUR) -> Mapping[MeasuredScore, Sequence[TrendPoint]]:
        """Return only `ScoreSummary.trend`, of one service, by score and measurement."""
        with self._reading(filters) as database:
            keep = Keep(frozenset({filters.segment or ""}))
            added = list(self._sums.parts(database, *self.bounds(filters), keep))
            distinct = distinct_segments(database)
            _, parts = with_part(database, Cells(), added, filters, distinct)
            return trends((began, ended, Selection(cells, filters).scores()) for began, ended, cells in parts)

    def requests(
        self,
        filters: Filters = _LAST_HOUR,
        *,
        sort: str = "worst",
        limit: int = 50,
        cursor: str | None = None,
        grouped: bool = False,
    ) -> RequestPage:
        """Return a page of a list.

        Args:
            filters: The requests to list.
            sort: ``worst``: by verdict, then by how much worse than usual their scores are; ``question``: a
                line for each question of a service, those surely bad most often first; ``newest``; or the
                name of a score, its worst first.
            limit: Requests on a page, 1 to 500.
            cursor: `RequestPage.next` of the previous page; None: the first page.
            grouped: Whether the requests of one question are a single line, for the worst of them.

        Raises:
            InvalidQueryError: The cursor is of another list, or the limit is out of bounds.
        """
        members = self._members(filters)
        with self._reading(filters) as database:
            return Lists(database, self._sums, members).page(
                filters, self.bounds(filters), sort=sort, limit=limit, cursor=cursor, grouped=grouped
            )

    def facets(self, filters: Filters = _LAST_HOUR) -> FacetPage:
        """Return the facets of a list, each value counted under all other filters.

        Raises:
            InvalidQueryError: As `requests`.
        """
        members = self._members(filters)
        with self._reading(filters) as database:
            return facets(database, self._tallies, filters, self.bounds(filters), self._now_ms(), members)

    def _members(self, filters: Filters) -> Collection[str]:
        """Return the ids of a gap's requests. Raises InvalidQueryError: a search without stored texts."""
        if filters.search and not self._texts:
            raise InvalidQueryError("q searches in texts, and this server keeps none: it runs with --no-text")
        if filters.gap is None:
            return ()
        return self._gap_list(_OF_GAPS)[1].get(filters.gap, frozenset())

    def chunks(self, filters: Filters) -> ChunkReport:
        """Return statistics of the chunks of a period's newest 5,000 requests.

        It takes some seconds; the result is cached for a minute.
        """

        def read(database: Database) -> ChunkReport:
            return chunks(database, filters, self.bounds(filters), self._clock())

        return self._remember("chunks", filters, read)

    def gaps(self, filters: Filters) -> GapPage:
        """Return the knowledge gaps of a period. It takes some seconds; the result is cached for a minute."""
        page = self._gap_list(filters)[0]
        with self._reading() as database:
            return with_states(database, page)

    def known_gaps(self, service: str | None) -> Sequence[GapView]:
        """Return a service's open gaps as last computed; for a large store, () until the first are computed."""
        page, _ = self._gap_list(_OF_GAPS, _NO_GAPS)
        with self._reading() as database:
            gaps = with_states(database, page).gaps
        return [one for one in gaps if one.state == "open" and service in (None, one.service)]

    def _gap_list(
        self, filters: Filters, meanwhile: tuple[GapPage, GapMembers] | None = None
    ) -> tuple[GapPage, GapMembers]:
        """Return the gaps, and the ids of each one's requests that went badly; `meanwhile` as `_remember`."""

        def read(database: Database) -> tuple[GapPage, GapMembers]:
            return gaps(database, filters, self.bounds(filters), self._now_ms())

        return self._remember("gaps", filters, read, meanwhile)

    def _remember(
        self, name: str, filters: Filters, read: Callable[[Database], T], meanwhile: T | None = None
    ) -> T:
        """Return the result of `read`, or its result of the last minute.

        For a large store, a result of the last ten minutes is returned, while the query runs again in the
        background.

        Args:
            name: Name of the query.
            filters: Its filters.
            read: Runs the query, one at a time.
            meanwhile: The result while a large store has none yet; None: wait for it.
        """
        key, now = (name, filters), self._clock()
        with self._slow_turn:
            self._slow = {
                each: one
                for each, one in self._slow.items()
                if abs(now - one.at) < _STALE_S or not one.reading.done()
            }
            known = self._slow.get(key)
            if known is None or (abs(now - known.at) >= _SLOW_S and known.reading.done()):
                before = None
                if known is not None:
                    failed = known.reading.exception() is not None
                    before = known.before if failed else known.reading.result()
                hurry = threading.Event()
                reading = self._slow_thread.submit(self._read, read, filters, hurry)
                known = self._slow[key] = _SlowReading(now, reading, hurry, before)
        if not known.reading.done() and not self._is_small():
            earlier: T | None = meanwhile if known.before is None else known.before
            if earlier is not None:
                return earlier
        known.hurry.set()
        try:
            found: T = known.reading.result()
        except BaseException:
            with self._slow_turn:
                self._slow.pop(key, None)
            raise
        return found

    def _read(self, read: Callable[[Database], T], filters: Filters, hurry: threading.Event) -> T:
        hurry.wait(_ASIDE_S)
        with self._reading(filters) as database:
            return read(database)

    def _is_small(self) -> bool:
        """Return whether the store is so small that slow queries are fast."""
        with self._reading() as database:
            (n,) = database.execute(
                f"SELECT count(*) FROM (SELECT 1 FROM request LIMIT {_SMALL}) AS newest"
            ).fetchone()
        return int(n) < _SMALL

    def conversations(
        self,
        filters: Filters = _LAST_HOUR,
        *,
        limit: int = 50,
        conversation_id: str | None = None,
        asked_again: bool = False,
    ) -> ConversationPage:
        """Return conversations, the worst first.

        Args:
            filters: The requests to include.
            limit: Most conversations, 1 to 500.
            conversation_id: Only this conversation; None: all.
            asked_again: Whether to look for turns that repeat the previous question, by their phrases.

        Raises:
            InvalidQueryError: The limit is out of bounds.
        """
        with self._reading(filters) as database:
            bounds = self.bounds(filters)
            return conversations(
                database, filters, bounds, limit=limit, conversation_id=conversation_id, asked_again=asked_again
            )

    def request(self, key: str, span_id: str | None = None) -> RequestView | None:
        """Return one request, or None if it is not stored (yet).

        Args:
            key: Its trace id, 32 hex digits, or its own id.
            span_id: Span id of the request, if a trace has several; None: the first.
        """
        with self._reading() as database:
            return one_request(database, self._sums, key, span_id, self._gap_of)

    def as_stored(self, key: str, span_id: str | None = None) -> RequestView | None:
        """Return one request as it was stored, for less work: without what is compared, marked and advised."""
        with self._reading() as database:
            return as_stored(database, key, span_id)

    def _gap_of(self, run_id: str) -> GapView | None:
        page, members = self._gap_list(_OF_GAPS, _NO_GAPS)
        return next((gap for gap in page.gaps if run_id in members[gap.id]), None)

    def outages(self, filters: Filters = _LAST_HOUR) -> tuple[JudgeOutage, ...]:
        """Return the periods in which the judge failed, in order of time; the last fifty."""
        with self._reading(filters) as database:
            return outages(database, filters, self.bounds(filters))

    def received(self, since: float, until: float) -> Iterator[ReceivedSlot]:
        """Yield requests scored by ragmeter elsewhere, by the five minutes of their arrival.

        Args:
            since: Earliest start of the five minutes, unix seconds.
            until: Latest end of the five minutes, unix seconds.
        """
        at = since
        while True:
            # A new snapshot for each slot: a long one would keep SQLite from truncating the WAL.
            with self._reading() as database:
                found = next_slot(database, at, until)
            if found is None:
                return
            yield found
            at = found.at + SLOT_MS / 1000

    def last_ms(self) -> int | None:
        """Return the arrival of the latest request, by this server's clock, in milliseconds, or None."""
        with self._reading() as database:
            return _last_ms(database)

    def revision(self) -> int:
        """Return a number that grows with every write."""
        with self._reading() as database:
            return int(database.execute("SELECT number FROM revision").fetchone()[0])

    def bounds(self, filters: Filters) -> tuple[int, int]:
        """Return the period of the filters, in milliseconds; it may be empty."""
        now = self._now_ms()
        end = now if filters.until_ms is None else filters.until_ms
        since = filters.since_ms
        if since is None:
            # Queries at about the same time get the same period, and so share cached sums.
            long = int(filters.range_s * 1000)
            step = SLOT_MS if long < _DAY_MS else HOUR_MS
            step = 1 if filters.until_ms is not None else max(1, min(step, long // _STEPS))
            since = (end - long) // step * step
        until = max(0, since, now + _AHEAD_MS if filters.until_ms is None else end)
        return max(0, since, until - int(LONGEST_RANGE_S * 1000)), until

    def _now_ms(self) -> int:
        return int(self._clock() * 1000)

    def _orphans(self, database: Database, from_ms: int, until_ms: int) -> int:
        settled = self._now_ms() - _ORPHAN_MS
        (count,) = database.execute(
            "SELECT count(*) FROM request WHERE at >= ? AND at < ? AND started_ns IS NULL AND stored < ?",
            (from_ms, until_ms, settled),
        ).fetchone()
        return int(count)

    @contextmanager
    def _reading(self, filters: Filters = _LAST_HOUR) -> Iterator[Database]:
        try:
            with self._home.moment() as database:
                _check_names(database, filters)
                yield database
        except self._home.errors as error:
            raise UnreadableStoreError(f"the store cannot be read just now: {self._home.why(error)}") from error


def _check_names(database: Database, filters: Filters) -> None:
    """Raise InvalidQueryError for a name that is counted as `OTHER`, of which nothing is known by itself."""
    for sort, name in (("service", filters.service), ("workflow", filters.workflow)):
        if not name or name == OTHER:
            continue
        n, known = database.execute(
            "SELECT count(*), count(CASE WHEN name = ? THEN 1 END) FROM name WHERE sort = ?", (name, sort)
        ).fetchone()
        if not known and n >= BOUNDS[sort]:
            raise InvalidQueryError(
                f"{sort} is not one of the first {n}, which are counted singly; "
                f"the rest is under {sort}={OTHER}"
            )


def _last_ms(database: Database) -> int | None:
    found = database.execute("SELECT stored FROM request ORDER BY id DESC LIMIT 1").fetchone()
    return None if found is None else int(found[0])


def _drop_counts(database: Database, from_ms: int, until_ms: int, service: str | None) -> Mapping[str, int]:
    """Return the counts of meters' dropped requests within a period; each meter counts from its own start."""
    found: dict[str, float] = {}
    rows = database.execute(
        "SELECT reason, max(value) - coalesce((SELECT max(value) FROM dropped e WHERE e.series = d.series AND "
        "e.slot < ?), CASE WHEN began >= ? THEN 0 ELSE min(value) END) FROM dropped d "
        "WHERE slot >= ? AND slot <= ? AND (CAST(? AS TEXT) IS NULL OR service = ?) "
        "GROUP BY series, reason, began",
        (
            from_ms // SLOT_MS, from_ms, from_ms // SLOT_MS, until_ms // SLOT_MS, service, service,
        ),
    )  # fmt: skip
    for reason, count in rows:
        found[reason] = found.get(reason, 0.0) + max(0.0, count)
    return {reason: round(count) for reason, count in sorted(found.items()) if round(count)}
