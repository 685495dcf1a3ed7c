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
from ._parts import UNKNOWN_DEFINITION

MOST = 5
"""Values that are named, the commonest."""
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
    distinct: Mapping[str, frozenset[str]],
) -> tuple[NewSince, ...]:
    """Return what is in `after` and not in `before`, the commonest first.

    Args:
        before: What was counted before.
        after: What was counted since, in order of time.
        service: Of this service; empty: of all.
        workflow: Of this workflow; empty: of requests without one.
        distinct: The values of segments that are distinguished.
    """

    def values(cells: Cells) -> Iterator[tuple[_Value, int]]:
        return _values(cells, service, workflow, distinct)

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
    cells: Cells, service: str, workflow: str, distinct: Mapping[str, frozenset[str]]
) -> Iterator[tuple[_Value, int]]:
    for group, counts in cells.groups.items():
        if group.workflow != workflow or service not in ("", group.service):
            continue
        name, _, value = group.segment.partition(":")
        if not name:
            # That there was a request, whatever is known of it: a first version is new where none was.
            for each in distinct:
                yield _Value(each, ""), 0
        elif value in distinct.get(name, ()) and value not in (OTHER, UNKNOWN):
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
        if kind.definition == UNKNOWN_DEFINITION:
            continue
        n = sum(cell.statuses.values())
        yield _Value(f"definition of {key.score}", kind.definition), n
        if kind.judge:
            yield _Value("judge", kind.judge), n
