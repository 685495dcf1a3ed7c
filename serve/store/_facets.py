"""What a list can be narrowed to, with how many requests each would leave, and how its requests lie in time."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from ._database import Database
from ._lists import list_where, without_facets
from ._names import distinct_segments
from ._rows import segments_of
from .views import Facet, FacetPage, FacetValue, Filters

BINS = 60
_STEPS_S = (10, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400, 604800)
MOST_VALUES = 12
"""Values of a facet that are listed, the commonest; those that are chosen are among them."""
_VERDICTS = ("bad", "suspect", "good", "")


class _Alike(NamedTuple):
    """Requests that have no value of this facet."""

    n: int
    values: Mapping[str, Collection[str]]


def facets(
    database: Database,
    filters: Filters,
    bounds: tuple[int, int],
    now_ms: int,
    members: Collection[str],
) -> FacetPage:
    """Return the facets of a list; see `Reader.facets`. What is ahead of `now_ms` counts as of then."""
    distinct = distinct_segments(database)
    end = max(bounds[0] + 1, min(bounds[1], now_ms))
    length = end - bounds[0]
    step = next((s * 1000 for s in _STEPS_S if length <= s * 1000 * BINS), -(-length // BINS))
    bins = [[0, 0, 0, 0] for _ in range(-(-length // step))]
    where, given = list_where(without_facets(filters), bounds, database, members)
    alike: dict[tuple[Any, ...], dict[int, int]] = {}
    for at, *what, n in database.execute(
        "SELECT (r.at - ?) / ?, coalesce(verdict, ''), coalesce(codes, '[]'), coalesce(service, ''), "
        "coalesce(workflow, ''), language, retriever, coalesce(segments, '{}'), coalesce(metadata, '{}'), "
        f"count(*) FROM request r WHERE {where} GROUP BY 1, 2, 3, 4, 5, 6, 7, 8, 9",
        (bounds[0], step, *given),
    ):
        alike.setdefault(tuple(what), {})[min(int(at), len(bins) - 1)] = int(n)
    chosen = dict(_chosen(filters))
    counts: dict[str, Counter[str]] = {}
    total = 0
    for row, over_time in alike.items():
        one = _alike(row, sum(over_time.values()))
        lacking = [
            name for name, wanted in chosen.items() if not wanted <= set(one.values.get(name, ()))
        ]
        if not lacking:
            total += one.n
            for at, n in over_time.items():
                bins[at][_VERDICTS.index(row[0])] += n
        for name, values in one.values.items():
            if not lacking or lacking == [name]:
                for value in values:
                    counts.setdefault(name, Counter())[value] += one.n
    fixed = ("verdict", "reason", "service", "workflow")
    names = [*fixed, *sorted(name for name in counts if name not in fixed and name in distinct)]
    names += [name for name in chosen if name not in names]
    found = (_facet(name, counts.get(name, Counter()), chosen.get(name, set())) for name in names)
    return FacetPage(
        total=total,
        facets=tuple(one for one in found if len(one.values) > 1 or one.name in chosen),
        from_ms=bounds[0],
        step_ms=step,
        bins=tuple((bad, suspect, good, none) for bad, suspect, good, none in bins),
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


@lru_cache(maxsize=4096)
def _read(text: str) -> Any:
    return json.loads(text)


def _alike(row: tuple[Any, ...], n: int) -> _Alike:
    verdict, codes, service, workflow, language, retriever, named, metadata = row
    parts = segments_of(language, retriever, _read(metadata), _read(named))
    values: dict[str, Collection[str]] = {name: (value,) for name, value in parts.items()}
    # A part can be asked for by its short name, too.
    for name, value in parts.items():
        values.setdefault(name.removeprefix("metadata."), (value,))
    values |= {
        "verdict": (verdict,),
        "reason": dict.fromkeys(_read(codes)),
        "service": (service,),
        "workflow": (workflow,),
    }
    return _Alike(n, values)


def _facet(name: str, counts: Counter[str], wanted: set[str]) -> Facet:
    if name == "verdict":
        order = [word for word in _VERDICTS if counts[word] or word in wanted]
    else:
        order = sorted(counts, key=lambda value: (-counts[value], value))[:MOST_VALUES]
        order += sorted(wanted - set(order))
    return Facet(
        name=name, values=tuple(FacetValue(value=value, requests=counts[value]) for value in order)
    )
