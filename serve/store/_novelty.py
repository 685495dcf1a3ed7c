"""What is new since a change: versions, parts of the requests, judges and formulas that no request had before.

Nothing says that it is the cause.  It is looked for in the sums that the store keeps, so it costs what an
overview costs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from ragmeter.quality.segments import OTHER, UNKNOWN
from ragmeter.watch.change import NewSince

from ._cells import Cells
from ._database import Database
from ._lists import where_of
from ._parts import UNTOLD
from ._sums import Sums
from .views import Filters

__all__ = ["MOST", "SLACK_MS", "Part", "last_deployment", "new_in"]

MOST = 5
"""Values that are told, the commonest."""
_BACK_MS = 7 * 86_400_000
"""Milliseconds that a deployment is looked for before a request."""
_VERSIONS = ("service.version", "index_version", "prompt_version")
SLACK_MS = 10 * 60_000
"""When a change began is an estimate: what came so long before it is new since then, too."""


class Part(NamedTuple):
    """What was counted in a stretch of time."""

    began_ms: int
    cells: Cells


class _Value(NamedTuple):
    name: str
    value: str


def new_in(
    before: Iterable[Cells],
    after: Iterable[Part],
    *,
    service: str,
    workflow: str,
    told_apart: Mapping[str, frozenset[str]],
) -> tuple[NewSince, ...]:
    """Return what is in `after` and not in `before`, the commonest first.

    Args:
        before: What was counted before.
        after: What was counted since, in order of time.
        service: Of this service; empty: of all.
        workflow: Of this workflow; empty: of requests without one.
        told_apart: The values of segments that are told apart.
    """

    def values(cells: Cells) -> Iterator[tuple[_Value, int]]:
        return _values(cells, service, workflow, told_apart)

    known: set[_Value] = set()
    for cells in before:
        known.update(value for value, _ in values(cells))
    # Of what nothing was known before, nothing can be called new.
    names = {value.name for value in known}
    first: dict[_Value, int] = {}
    counts: dict[_Value, int] = {}
    for part in after:
        for value, n in values(part.cells):
            if value not in known and value.name in names:
                first.setdefault(value, part.began_ms)
                counts[value] = counts.get(value, 0) + n
    found = [
        NewSince(
            name=value.name.removeprefix("metadata."),
            value=value.value,
            at=first[value] / 1000,
            requests=n,
        )
        for value, n in counts.items()
    ]
    return tuple(sorted(found, key=lambda one: (-one.requests, one.name, one.value))[:MOST])


def _values(
    cells: Cells, service: str, workflow: str, told_apart: Mapping[str, frozenset[str]]
) -> Iterator[tuple[_Value, int]]:
    for group, counts in cells.groups.items():
        if group.workflow != workflow or service not in ("", group.service):
            continue
        name, _, value = group.segment.partition(":")
        if not name:
            # That there was a request, whatever is said of it: a first version is new where none was.
            for each in told_apart:
                yield _Value(each, ""), 0
        elif value in told_apart.get(name, ()) and value not in (OTHER, UNKNOWN):
            yield _Value(name, value), counts["requests"]
    for key, cell in cells.scores.items():
        kind = cell.kind
        if (
            kind is None
            or key.segment
            or key.workflow != workflow
            or service not in ("", key.service)
        ):
            continue
        if kind.definition == UNTOLD:
            continue
        n = sum(cell.statuses.values())
        yield _Value(f"definition of {key.score}", kind.definition), n
        if kind.judge:
            yield _Value("judge", kind.judge), n


def last_deployment(
    database: Database, sums: Sums, service: str, at_ms: int
) -> tuple[str, int] | None:
    """Return the version or index that came last to a service before a moment, and when; None: none is known.

    What there was from the beginning of the time that is looked through is no deployment.
    """
    known: dict[str, set[str]] = {}
    found: tuple[str, str, int, int] | None = None
    for began, ended, cells in sums.parts(database, max(0, at_ms - _BACK_MS), at_ms + 1):
        fresh: list[tuple[str, str]] = []
        for group in cells.groups:
            name, _, value = group.segment.partition(":")
            is_fresh = name in known and value not in {OTHER, UNKNOWN, *known[name]}
            if group.service == service and is_fresh:
                fresh.append((name, value))
        for group in cells.groups:
            name, _, value = group.segment.partition(":")
            if group.service == service and _is_version(name):
                known.setdefault(name, set()).add(value)
        # The service's own version names a deployment that changed more than that.
        for name, value in sorted(fresh, key=lambda one: "service.version" in one[0]):
            found = (name, value, began, ended)
    if found is None:
        return None
    name, value, began, ended = found
    where, given = where_of(
        Filters(service=service, segment=f"{name}:{value}"), (began, ended), database.has_word
    )
    (first,) = database.execute(f"SELECT min(r.at) FROM request r WHERE {where}", given).fetchone()
    return value, began if first is None else int(first)


def _is_version(name: str) -> bool:
    short = name.removeprefix("metadata.")
    return short in _VERSIONS or (
        short.startswith("deployment.") and not short.startswith("deployment.environment")
    )
