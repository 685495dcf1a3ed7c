"""The health of services: lanes over time, effects of deployments, and the questions that go badly.

Counts come from the requests themselves, so that each equals the list behind its link; means come from the
overview's sums.
"""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache

from ragmeter.quality.estimates import Estimate
from ragmeter.quality.verdict_shares import VERDICT_BAD
from ragmeter.watch.version_comparison import detectable_fall
from ragmeter.watch.version_watch import SUPPORT

from ._appearances import deployments_in
from ._cells import Cells, Keep
from ._database import Database
from ._deployment_effects import DeploymentEffects, bad_in, effect, had_enough_before, parts_of, worst_first
from ._lists import LATEST_MS, where_of
from ._names import OWN_SEGMENTS, distinct_segments
from ._overview import Selection
from ._sums import Sums
from ._tallies import Alike, Tallies, VerdictBins
from .health_views import DeploymentView, HealthView, LaneView, QuestionView, SignalView, bad_share
from .views import Filters, InvalidQueryError

_RELEVANCE = ("lexical_context_relevance",)
SIGNALS = (
    ("support", SUPPORT),
    ("relevance", _RELEVANCE),
    ("refusals", ("refusal",)),
    ("nothing_found", ("empty_retrieval",)),
)
_SHOWN = frozenset({VERDICT_BAD, *(score for _, scores in SIGNALS for score in scores)})
NEGLIGIBLE = 0.005
"""A share below this, now and before, is not shown as a signal."""
MOST_BINS = 48
MOST_COMPARISONS = 12
"""Most deployments of a period to compare, the newest."""
MOST_QUESTIONS = 8
_STEPS_S = (60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 21_600, 43_200, 86_400)


class ServiceHealth:
    """The health of services. Thread-safe."""

    def __init__(self, sums: Sums, tallies: Tallies, clock: Callable[[], float]) -> None:
        self._sums = sums
        self._tallies = tallies
        self._clock = clock
        self._effects = DeploymentEffects(clock)

    def read(self, database: Database, filters: Filters, bounds: tuple[int, int], by: str = "") -> HealthView:
        """Return the health of services in a period; see `Reader.health`.

        Raises:
            InvalidQueryError: There is no segment `by`.
        """
        by = by or ("service" if filters.service is None else "workflow")
        if by not in (known := {"service", "workflow", *OWN_SEGMENTS, *distinct_segments(database)}):
            raise InvalidQueryError(f"by is one of {', '.join(sorted(known))}")
        from_ms, until_ms = bounds
        if filters.until_ms is None:
            until_ms = max(from_ms + 1, min(until_ms, int(self._clock() * 1000)))
        compared = self._effects.compare(
            database,
            [
                one
                for one in deployments_in(database)
                if filters.service in (None, one.service) and from_ms <= one.at_ms < bounds[1]
            ][-MOST_COMPARISONS:],
        )
        compared = [one for one in compared if had_enough_before(one.whole)]
        compared.sort(key=lambda one: worst_first(one.whole))
        first = compared[0] if compared else None
        lead = first if first is not None and effect(first.whole) == "worse" else None
        step = next((s for s in _STEPS_S if (until_ms - from_ms) / 1000 / s <= MOST_BINS), _STEPS_S[-1])
        start = from_ms // (step * 1000) * step * 1000
        n_bins = max(1, math.ceil((until_ms - start) / (step * 1000)))
        named = "" if by in ("service", "workflow") else by
        keep = Keep(frozenset({"", filters.segment or ""}), _SHOWN, named)
        period = _Period(database, self._sums, bounds, keep)
        everyone = replace(filters, service=None, workflow=None)
        where, given = where_of(everyone, bounds, database)
        alike = [
            (one, over_time)
            for one, over_time in self._tallies.read(database, where, given, start, step * 1000)
            if filters.service in (None, one.service) and filters.workflow in (None, one.workflow)
        ]
        deployed: dict[str, list[int]] = defaultdict(list)
        if by in ("service", "workflow", "language"):
            for one in compared:
                deployed[one.whole.service].append(one.whole.at_ms)
        versions = _versions(database) if by == "service" else {}
        lanes = [
            _lane(
                database,
                period,
                _about_lane(filters, service, by, name),
                name,
                bins,
                sorted(deployed[service]),
                versions.get(name, ""),
            )
            for (service, name), bins in _counts(alike, by, n_bins).items()
        ]
        lanes.sort(key=lambda lane: (-lane.bad.lower, -lane.requests, lane.name, lane.service))
        whose = filters.service
        if whose is None and lanes:
            whose = lanes[0].service if lead is None else lead.whole.service
        since = from_ms if lead is None else lead.whole.at_ms
        about = filters if lead is None else replace(filters, service=lead.whole.service)
        of_one = replace(filters, service=whose)
        chosen = period.selection(of_one)
        return HealthView(
            by=by,
            bin_ms=step * 1000,
            bins_from_ms=start,
            lanes=tuple(lanes),
            deployments=tuple(one.whole for one in compared),
            lead=None if lead is None else lead.whole,
            parts=lead.parts
            if lead is not None
            else parts_of(
                ((one, over_time.total()) for one, over_time in alike if one.service == whose),
                alike=chosen.clustering(),
            ),
            questions=tuple(_questions(database, about, (since, bounds[1]))),
            signals=tuple(_signals(period, of_one, None if lead is None else lead.whole)),
            about=whose,
            detectable=_detectable(chosen.first_mean(SUPPORT)),
        )


class _Period:
    """The sums of a period, as a whole or before and since a moment in it."""

    def __init__(self, database: Database, sums: Sums, bounds: tuple[int, int], keep: Keep) -> None:
        @cache
        def between(since: int, until: int, service: str | None) -> Cells:
            return sums.between(database, since, until, keep._replace(service=service))

        self.bounds = bounds
        self._between = between

    def selection(self, about: Filters, since: int = 0, until: int = LATEST_MS) -> Selection:
        """Return the sums that match filters."""
        first, end = max(self.bounds[0], since), min(self.bounds[1], until)
        service = None if (first, end) == self.bounds else about.service
        return Selection(self._between(first, end, service), about)


def _about_lane(filters: Filters, service: str, by: str, name: str) -> Filters:
    about = replace(filters, service=service)
    if by == "service":
        return about
    return replace(about, workflow=name) if by == "workflow" else replace(about, segment=f"{by}:{name}")


def _lane(
    database: Database,
    period: _Period,
    about: Filters,
    name: str,
    bins: tuple[tuple[int, int, int, int], ...],
    deployed: Sequence[int],
    version: str,
) -> LaneView:
    totals = [sum(each) for each in zip(*bins, strict=True)]
    now, before = period.selection(about), None
    bad = whole = bad_share(totals[0], sum(totals[:3]), now.clustering())
    bad_before = None
    if deployed:
        new = bad_in(database, about, (deployed[-1], period.bounds[1]))
        if 0 < new.requests < whole.requests:
            now, before = (
                period.selection(about, since=deployed[-1]),
                period.selection(about, until=deployed[-1]),
            )
            bad = bad_share(new.bad, new.requests, now.clustering())
            bad_before = bad_share(whole.bad - new.bad, whole.requests - new.requests, before.clustering())
    return LaneView(
        name=name,
        service=about.service or "",
        version=version,
        requests=sum(totals),
        bad=bad,
        bad_before=bad_before,
        support=now.first_mean(SUPPORT),
        support_before=None if before is None else before.first_mean(SUPPORT),
        relevance=now.first_mean(_RELEVANCE),
        relevance_before=None if before is None else before.first_mean(_RELEVANCE),
        bins=bins,
        deployments=tuple(deployed),
    )


def _signals(period: _Period, filters: Filters, lead: DeploymentView | None) -> Iterator[SignalView]:
    now, before = period.selection(filters), None
    if lead is not None:
        about = replace(filters, service=lead.service)
        now, before = period.selection(about, since=lead.at_ms), period.selection(about, until=lead.at_ms)
    for name, scores in SIGNALS:
        score = next((one for one in scores if now.first_mean([one])), "")
        mean = now.first_mean([score])
        was = None if before is None else before.first_mean([score])
        if mean is None or mean.mean is None:
            continue
        is_share = name in ("refusals", "nothing_found")
        if is_share and max(mean.mean, (was and was.mean) or 0.0) < NEGLIGIBLE:
            continue
        off = was is not None and (mean.lower > was.upper if is_share else mean.upper < was.lower)
        yield SignalView(name=name, score=score, now=mean, before=was, is_off=off)


def _counts(
    alike: Iterable[tuple[Alike, Counter[int]]], by: str, n_bins: int
) -> dict[tuple[str, str], tuple[tuple[int, int, int, int], ...]]:
    """Return the number of requests by verdict in each bin, by service and lane."""
    found: dict[tuple[str, str], VerdictBins] = {}
    for one, over_time in alike:
        bins = found.setdefault((one.service, one.value(by)), VerdictBins(n_bins))
        for at, n in over_time.items():
            bins.add(at, one.verdict, n)
    return {place: bins.view() for place, bins in found.items()}


def _questions(database: Database, filters: Filters, bounds: tuple[int, int]) -> Iterable[QuestionView]:
    """Yield the questions that go badly, the surest and most frequent first."""
    where, given = where_of(replace(filters, since_ms=None), bounds, database)
    rows = database.execute(
        "SELECT r.question, sum(CASE WHEN r.verdict = 'bad' THEN 1 ELSE 0 END) AS bad, count(*), "
        "max(CASE WHEN r.verdict = 'bad' THEN r.id END) FROM request r "
        f"WHERE {where} AND r.question IS NOT NULL AND r.verdict IS NOT NULL "
        "GROUP BY r.question, coalesce(r.service, '') "
        "HAVING sum(CASE WHEN r.verdict = 'bad' THEN 1 ELSE 0 END) > 0",
        tuple(given),
    ).fetchall()
    share = cache(bad_share)
    shares = {last: share(int(bad), int(n)) for _, bad, n, last in rows}
    order = sorted(shares, key=lambda last: -shares[last].bad * shares[last].lower)
    chosen = order[:MOST_QUESTIONS]
    row_of = {
        row[0]: row
        for row in database.among(
            "SELECT r.id, q.body, q.hash, r.service, r.workflow, r.language, r.codes, r.at, r.trace_id, "
            "r.span_id, r.run_id FROM request r JOIN text q ON q.id = r.question WHERE r.id IN (these)",
            chosen,
        )
    }
    for last in chosen:
        if last not in row_of:
            continue
        _, body, key, service, workflow, language, codes, at, trace, span, run_id = row_of[last]
        yield QuestionView(
            question=body,
            key=key.hex()[:16],
            bad=shares[last],
            service=service or "",
            workflow=workflow or "",
            language=language,
            codes=tuple(json.loads(codes or "[]")),
            at_ms=at,
            trace_id=trace and trace.hex(),
            span_id=span and span.hex(),
            run_id=run_id,
        )


def _versions(database: Database) -> dict[str, str]:
    return dict(
        database.execute(
            "SELECT service, value FROM appearance WHERE name = 'service.version' ORDER BY at"
        ).fetchall()
    )


def _detectable(support: Estimate | None) -> float | None:
    if support is None or support.mean is None:
        return None
    n = support.n_judged
    variance = max(0.01, ((support.upper - support.lower) / 3.92) ** 2 * n)
    found = detectable_fall(n, variance)
    return None if found is None or found > 0.5 else found
