"""The health of services: lanes over time, effects of deployments, and the questions that go badly.

Counts come from the requests themselves, so that each equals the list behind its link; means come from the
overview's sums.
"""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache

from ragmeter.quality.estimates import Estimate
from ragmeter.quality.moments import Clustering
from ragmeter.quality.verdict_shares import VERDICT_BAD
from ragmeter.watch.version_comparison import detectable_fall
from ragmeter.watch.version_watch import SUPPORT

from ._appearances import deployments_in
from ._cells import Cells, Keep
from ._database import Database
from ._deployment_effects import DeploymentEffects, bad_in, effect, had_enough_before, parts_of, worst_first
from ._lists import where_of
from ._names import OWN_SEGMENTS, distinct_segments
from ._overview import Selection, estimate_of
from ._sums import Sums
from ._tallies import Alike, Tallies, VerdictBins
from .health_views import DeploymentView, HealthView, LaneView, QuestionView, SignalView, bad_share
from .views import Filters

SIGNALS = (
    ("support", SUPPORT),
    ("relevance", ("lexical_context_relevance",)),
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
            ValueError: There is no segment `by`.
        """
        by = by or ("service" if filters.service is None else "workflow")
        if by not in (known := {"service", "workflow", *OWN_SEGMENTS, *distinct_segments(database)}):
            raise ValueError(f"by is one of {', '.join(sorted(known))}")
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

        @cache
        def between(since: int, until: int, service: str | None = None) -> Cells:
            return self._sums.between(database, since, until, keep._replace(service=service))

        cells = between(*bounds)
        everyone = replace(filters, service=None, workflow=None)
        where, given = where_of(everyone, bounds, database.has_word)
        alike = [
            (one, over_time)
            for one, over_time in self._tallies.read(database, where, given, start, step * 1000)
            if filters.service in (None, one.service) and filters.workflow in (None, one.workflow)
        ]
        counts = _counts(alike, by, n_bins)
        deployed: dict[str, list[int]] = defaultdict(list)
        for one in compared:
            deployed[one.whole.service].append(one.whole.at_ms)
        versions = _versions(database)
        lanes = [
            self._lane(database, between, place, bins, filters, bounds, by, cells, deployed, versions)
            for place, bins in counts.items()
        ]
        lanes.sort(key=lambda lane: (-lane.bad.lower, -lane.requests, lane.name, lane.service))
        about = filters
        if lead is not None:
            about = replace(filters, service=lead.whole.service, since_ms=lead.whole.at_ms)
        since = (from_ms if lead is None else lead.whole.at_ms, bounds[1])
        whose = filters.service
        if whose is None and lanes:
            whose = lanes[0].service if lead is None else lead.whole.service
        of_one = replace(filters, service=whose)
        support = self._estimate(Selection(cells, of_one), SUPPORT)
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
                alike=_clustering(Selection(cells, of_one)),
            ),
            questions=tuple(_questions(database, about, since)),
            signals=self._signals(between, of_one, bounds, lead and lead.whole, cells),
            about=whose,
            detectable=_detectable(support),
        )

    def _lane(
        self,
        database: Database,
        between: Callable[..., Cells],
        place: tuple[str, str],
        bins: tuple[tuple[int, int, int, int], ...],
        filters: Filters,
        bounds: tuple[int, int],
        by: str,
        cells: Cells,
        deployed: Mapping[str, Sequence[int]],
        versions: Mapping[str, str],
    ) -> LaneView:
        service, name = place
        about = replace(filters, service=service)
        if by == "workflow":
            about = replace(about, workflow=name)
        elif by != "service":
            about = replace(about, segment=f"{by}:{name}")
        marks = sorted(deployed.get(service, ())) if by in ("service", "workflow", "language") else []
        totals = [sum(each) for each in zip(*bins, strict=True)]
        whole = bad_share(totals[0], sum(totals[:3]), _clustering(Selection(cells, about)))
        now, before = whole, None
        cells_now, cells_before = cells, None
        if marks:
            since = (marks[-1], bounds[1])
            new = bad_in(database, about, since)
            if 0 < new.requests < whole.requests:
                cells_now = between(*since, about.service)
                cells_before = between(bounds[0], marks[-1], about.service)
                now = bad_share(new.bad, new.requests, _clustering(Selection(cells_now, about)))
                before = bad_share(
                    whole.bad - new.bad,
                    whole.requests - new.requests,
                    _clustering(Selection(cells_before, about)),
                )

        def mean(of: Cells | None, scores: Sequence[str]) -> Estimate | None:
            return None if of is None else self._estimate(Selection(of, about), scores)

        relevance = SIGNALS[1][1]
        return LaneView(
            name=name,
            service=service,
            version=versions.get(name, "") if by == "service" else "",
            requests=sum(totals),
            bad=now,
            bad_before=before,
            support=mean(cells_now, SUPPORT),
            support_before=mean(cells_before, SUPPORT),
            relevance=mean(cells_now, relevance),
            relevance_before=mean(cells_before, relevance),
            bins=bins,
            deployments=tuple(marks),
        )

    def _estimate(self, chosen: Selection, scores: Sequence[str]) -> Estimate | None:
        found = chosen.scores()
        for score in scores:
            for name, cell in found.items():
                mean = estimate_of(cell) if name.score == score else None
                if mean is not None and mean.mean is not None:
                    return mean
        return None

    def _signals(
        self,
        between: Callable[..., Cells],
        filters: Filters,
        bounds: tuple[int, int],
        lead: DeploymentView | None,
        cells: Cells,
    ) -> tuple[SignalView, ...]:
        about, now, before = filters, cells, None
        if lead is not None:
            about = replace(filters, service=lead.service)
            now = between(lead.at_ms, bounds[1], lead.service)
            before = between(bounds[0], lead.at_ms, lead.service)
        found: list[SignalView] = []
        for name, scores in SIGNALS:
            score = next((one for one in scores if self._estimate(Selection(now, about), [one])), "")
            mean = self._estimate(Selection(now, about), [score])
            was = None if before is None else self._estimate(Selection(before, about), [score])
            if mean is None or mean.mean is None:
                continue
            is_share = name in ("refusals", "nothing_found")
            if is_share and max(mean.mean, (was and was.mean) or 0.0) < NEGLIGIBLE:
                continue
            off = was is not None and (mean.lower > was.upper if is_share else mean.upper < was.lower)
            found.append(SignalView(name=name, score=score, now=mean, before=was, is_off=off))
        return tuple(found)


def _clustering(chosen: Selection) -> Clustering | None:
    """Return the similarity of verdicts within conversations; None: no conversation has two requests."""
    return next(
        (cell.moments.clustering() for name, cell in chosen.scores().items() if name.score == VERDICT_BAD), None
    )


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
    where, given = where_of(replace(filters, since_ms=None), bounds, database.has_word)
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
    """Return the newest version of each service."""
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
