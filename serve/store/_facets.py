"""The facets of a list: values to filter by, each with its number of requests, and a histogram over time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator

from ragmeter.quality.segments import OTHER

from ._database import Database
from ._lists import list_where, without_facets
from ._names import distinct_segments
from ._tallies import WORDS, Alike, Tallies, VerdictBins
from .views import Facet, FacetPage, FacetValue, Filters

BINS = 60
_STEPS_S = (10, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400, 604800)
MOST_VALUES = 12
"""Most listed values of a facet, the most frequent; chosen values are always listed."""


def facets(
    database: Database,
    tallies: Tallies,
    filters: Filters,
    bounds: tuple[int, int],
    now_ms: int,
    members: Collection[str],
) -> FacetPage:
    """Return the facets of a list; see `Reader.facets`. Requests later than `now_ms` are in the last bin."""
    distinct = distinct_segments(database)
    end = max(bounds[0] + 1, min(bounds[1], now_ms))
    length = end - bounds[0]
    step = next((s * 1000 for s in _STEPS_S if length <= s * 1000 * BINS), -(-length // BINS))
    bins = VerdictBins(-(-length // step))
    where, given = list_where(without_facets(filters), bounds, database, members)
    chosen = dict(_chosen(filters))
    others = [name for name, wanted in chosen.items() if OTHER in wanted and name in distinct.named]
    counts: dict[str, Counter[str]] = {}
    total = 0
    for one, over_time in tallies.read(database, where, given, bounds[0], step):
        n = over_time.total()
        values = _values(one)
        for name in others:
            if not distinct.get(name, frozenset()).issuperset(values.get(name, ())):
                values[name] = (OTHER,)
        lacking = [name for name, wanted in chosen.items() if not wanted <= {*values.get(name, ())}]
        if not lacking:
            total += n
            for at, of_bin in over_time.items():
                bins.add(at, one.verdict, of_bin)
        for name in values if not lacking else lacking[:1] if len(lacking) == 1 else ():
            for value in values.get(name, ()):
                counts.setdefault(name, Counter())[value] += n
    fixed = ("verdict", "reason", "service", "workflow")
    names = [*fixed, *sorted(name for name in counts if name not in fixed and name in distinct)]
    names += [name for name in chosen if name not in names]
    found = (_facet(name, counts.get(name, Counter()), chosen.get(name, set())) for name in names)
    return FacetPage(
        total=total,
        facets=tuple(one for one in found if len(one.values) > 1 or one.name in chosen),
        from_ms=bounds[0],
        step_ms=step,
        bins=bins.view(),
    )


def _chosen(filters: Filters) -> Iterator[tuple[str, set[str]]]:
    for name, value in (
        ("verdict", filters.verdict),
        ("reason", filters.reason),
        ("service", filters.service),
        ("workflow", filters.workflow),
    ):
        if value is not None:
            yield name, {value}
    parts: dict[str, set[str]] = {}
    for part in (filters.segment, *filters.segments):
        name, _, value = (part or "").partition(":")
        if name:
            parts.setdefault(name, set()).add(value)
    yield from parts.items()


def _values(one: Alike) -> dict[str, Collection[str]]:
    values: dict[str, Collection[str]] = {name: (value,) for name, value in one.parts.items()}
    # A segment can also be named without its prefix.
    for name, value in one.parts.items():
        values.setdefault(name.removeprefix("metadata."), (value,))
    return values | {
        "verdict": (one.verdict,),
        "reason": dict.fromkeys(one.codes),
        "service": (one.service,),
        "workflow": (one.workflow,),
    }


def _facet(name: str, counts: Counter[str], wanted: set[str]) -> Facet:
    if name == "verdict":
        order = [word for word in WORDS if counts[word] or word in wanted]
    else:
        order = sorted(counts, key=lambda value: (-counts[value], value))[:MOST_VALUES]
        order += sorted(wanted - set(order))
    return Facet(name=name, values=tuple(FacetValue(value=value, requests=counts[value]) for value in order))
