"""The effect of a deployment: requests before and after it, compared, and the segments that are bad."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from ragmeter.quality.moments import Clustering, FreeMoments
from ragmeter.watch.version_comparison import LEAST_VALUES, ComparedValue, compare_versions, error_share
from ragmeter.watch.version_watch import MOST_COMPARED, OVERLAP_S, SUPPORT

from ._database import Database
from ._lists import where_of
from ._tallies import ALIKE, Alike, alike_of
from .health_views import BadShare, ComparisonView, DeploymentView, PartView, VersionStep, bad_share
from .views import Filters

MOST_READ = 5_000
"""Most requests to read row by row, the newest."""
MOST_PARTS = 8
MOST_VALUES_APART = 48
_BEFORE_MS = 14 * 86_400_000
"""Requests older than this before a deployment are not compared with it."""
_OVERLAP_MS = int(OVERLAP_S * 1000)
_ENOUGH = 500
"""Requests since a deployment from which on its comparison is repeated only every few seconds."""
_AGAIN_S = 10.0
_KEPT_S = 86_400.0
_LEAST_PART = 5
"""Requests of a segment from which on it may be named as the bad one."""
_LATEST = 2**62


class DeploymentEffect(NamedTuple):
    """The computed effect of a deployment, and the moment of the computation."""

    revision: int
    at_s: float
    whole: DeploymentView
    parts: tuple[PartView, ...]

    @property
    def is_settled(self) -> bool:
        """Whether the deployment has so many requests that new ones change the result little."""
        bad = self.whole.bad_after
        return bad is not None and bad.requests >= _ENOUGH


class DeploymentEffects:
    """The effects of deployments. Thread-safe: its cache is replaced as a whole."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._known: Mapping[tuple[str, int], DeploymentEffect] = {}

    def compare(self, database: Database, deployments: Sequence[DeploymentView]) -> list[DeploymentEffect]:
        """Return the effects of deployments, with the segments that are bad since.

        Of the settled ones, at most one is recomputed in a call.
        """
        (revision,) = database.execute("SELECT number FROM revision").fetchone()
        now = self._clock()
        kept = {key: each for key, each in self._known.items() if abs(now - each.at_s) < _KEPT_S}
        known = {key: kept[key] for one in deployments if (key := _key(one)) in kept}
        stale = [
            each
            for each in known.values()
            if each.is_settled and each.revision != revision and abs(now - each.at_s) >= _AGAIN_S
        ]
        oldest = min(stale, key=lambda each: each.at_s, default=None)
        found = []
        for one in deployments:
            each = known.get(_key(one))
            if (
                each is None
                or each is oldest
                or each.whole.values != one.values
                or not (each.is_settled or each.revision == revision)
            ):
                each = self._effect_of(database, one, int(revision), now)
            found.append(each)
        self._known = kept | {_key(each.whole): each for each in found}
        return found

    def _effect_of(
        self, database: Database, one: DeploymentView, revision: int, now: float
    ) -> DeploymentEffect:
        new, at = one.values[0], one.at_ms
        mine = Filters(service=one.service)
        part = replace(mine, segment=f"metadata.{new.name}:{new.value}")
        before = [
            row
            for row in newest(database, mine, (at - _BEFORE_MS, at + _OVERLAP_MS))
            if _is_before(row, new, at)
        ][-MOST_COMPARED:]
        after = newest(database, part, (at, _LATEST), first=True)
        said = None
        for score in SUPPORT:
            old, fresh = (_values(database, side, score) for side in (before, after[:MOST_COMPARED]))
            found = compare_versions(old, fresh, error_share(one.number))
            if found is not None:
                said = ComparisonView(score=score, effect=found.effect, **found._asdict())
                break
        alike = clustering_of(after)
        whole = replace(
            one,
            comparison=said,
            bad_before=bad_share(
                sum(row.alike.verdict == "bad" for row in before),
                sum(bool(row.alike.verdict) for row in before),
                clustering_of(before),
            ),
            bad_after=bad_in(database, part, (at, _LATEST), alike),
        )
        parts = parts_of(_counts(after), _counts(before), alike)
        return DeploymentEffect(revision, now, whole, parts)


def _key(one: DeploymentView) -> tuple[str, int]:
    return one.service, one.number


class StoredRow(NamedTuple):
    """A request in the form in which it is compared."""

    number: int
    at: int
    conversation: str | None
    alike: Alike
    """Shared with other requests that are alike."""


def newest(
    database: Database, filters: Filters, bounds: tuple[int, int], *, first: bool = False
) -> list[StoredRow]:
    """Return the newest requests, or the oldest, at most `MOST_READ`, in order of time."""
    where, given = where_of(filters, bounds, database)
    way = "ASC" if first else "DESC"
    found = [
        StoredRow(number, at, conversation, alike_of(columns))
        for number, at, conversation, columns in database.execute(
            f"SELECT r.id, r.at, r.conversation_id, {database.as_json.format(columns=ALIKE)} FROM request r "
            f"WHERE {where} ORDER BY r.at {way}, r.id {way} LIMIT {MOST_READ}",
            given,
        )
    ]
    return found if first else found[::-1]


def _is_before(row: StoredRow, new: VersionStep, at_ms: int) -> bool:
    """Return whether a request ran with the previous version."""
    if new.name == "tenant":  # a new tenant is compared with all other ones
        return row.at < at_ms and row.alike.value(new.name) not in ("", new.value)
    return row.alike.value(new.name) == new.before


def _values(database: Database, rows: Sequence[StoredRow], score: str) -> list[ComparedValue]:
    known = {
        request: (kind, turned)
        for request, kind, turned in database.among(
            f"SELECT request, kind, turned FROM score WHERE name = '{score}' AND turned IS NOT NULL "
            "AND request IN (these)",
            [row.number for row in rows],
        )
    }
    return [
        ComparedValue(
            # Values of one formula are compared with each other, and with no other's.
            (row.alike.value("language"), row.alike.workflow, known[row.number][0]),
            row.conversation or row.number,
            known[row.number][1],
        )
        for row in rows
        if row.number in known
    ]


def clustering_of(rows: Iterable[StoredRow]) -> Clustering | None:
    """Return the similarity of verdicts within conversations; None: no conversation has two requests."""
    sums = FreeMoments()
    earlier: dict[str, tuple[int, int]] = {}
    for row in rows:
        if row.alike.verdict:
            bad = int(row.alike.verdict == "bad")
            sums.add_value(bad)
            if row.conversation:
                n, n_bad = earlier.get(row.conversation, (0, 0))
                if n:
                    sums.follow(1.0, bad, n, n_bad)
                earlier[row.conversation] = n + 1, n_bad + bad
    return sums.clustering()


def bad_in(
    database: Database, filters: Filters, bounds: tuple[int, int], alike: Clustering | None = None
) -> BadShare:
    where, given = where_of(replace(filters, since_ms=None), bounds, database)
    bad, requests = database.execute(
        "SELECT count(CASE r.verdict WHEN 'bad' THEN 1 END), "
        "count(CASE WHEN r.verdict IN ('bad', 'suspect', 'good') THEN 1 END) "
        f"FROM request r WHERE {where}",
        given,
    ).fetchone()
    return bad_share(int(bad), int(requests), alike)


def _counts(rows: Sequence[StoredRow]) -> Iterator[tuple[Alike, int]]:
    alike = {id(row.alike): row.alike for row in rows}
    for place, n in Counter(id(row.alike) for row in rows).items():
        yield alike[place], n


def parts_of(
    after: Iterable[tuple[Alike, int]],
    before: Iterable[tuple[Alike, int]] = (),
    alike: Clustering | None = None,
) -> tuple[PartView, ...]:
    """Return the values of the segment that separates the bad requests best, or () if none does.

    `after` and `before` are requests that are alike and their number, since a deployment, or in the whole
    period, and before it; `alike` the similarity within conversations of `after`, taken for that of each part.
    """
    sides: tuple[dict[str, dict[str, Counter[bool]]], ...] = ({}, {})
    for side, counted in zip(sides, (after, before), strict=True):
        for one, n in counted:
            for name, value in (("workflow", one.workflow), *one.parts.items()) if one.verdict else ():
                if value:
                    side.setdefault(name, {}).setdefault(value, Counter())[one.verdict == "bad"] += n
    best: tuple[float, str] = (0.0, "")
    for name, values in sides[0].items():
        shares = [bad_share(n[True], n.total(), alike) for n in values.values() if n.total() >= _LEAST_PART]
        if 2 <= len(shares) <= MOST_VALUES_APART:
            apart = max(one.lower for one in shares) - min(one.upper for one in shares)
            best = max(best, (apart, name))
    name = best[1]
    if not name:
        return ()
    found = [
        PartView(
            segment=f"{name}:{value}",
            now=bad_share(n[True], n.total(), alike),
            before=None
            if (was := sides[1].get(name, {}).get(value)) is None
            else bad_share(was[True], was.total(), alike),
        )
        for value, n in sides[0][name].items()
        if n.total() >= _LEAST_PART
    ]
    found.sort(key=lambda one: (-one.now.lower, one.segment))
    return tuple(found[:MOST_PARTS])


def effect(one: DeploymentView) -> str:
    """Return the effect of a deployment; ``none``: no known difference beyond chance."""
    return "none" if one.comparison is None else one.comparison.effect


def had_enough_before(one: DeploymentView) -> bool:
    """Return whether a comparison may ever be made: the values that a service began with are no deployment."""
    before = one.bad_before
    return one.comparison is not None or (before is not None and before.requests >= LEAST_VALUES)


def worst_first(one: DeploymentView) -> tuple[bool, float, int]:
    """Return a sort key that puts the worst deployments first."""
    said = one.comparison
    return (
        said is None or said.effect != "worse",
        0.0 if said is None else said.after - said.before,
        -one.at_ms,
    )
