"""What is new since a change: versions, segment values, judges and formulas that no earlier request had.

A new value need not be the cause. The comparison uses the store's sums, so it costs as much as an overview.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from ragmeter.exporters.changes import NewSince
from ragmeter.quality.segments import OTHER, UNKNOWN

from ._cells import Cells
from ._parts import UNKNOWN_DEFINITION

MOST = 5
"""Most reported values, the most frequent."""
SLACK_MS = 10 * 60_000
"""The start of a change is an estimate: values seen up to this long before it count as new, too."""


class Part(NamedTuple):
    """The sums of a period."""

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
    """Return the values that are in `after` and not in `before`, the most frequent first.

    `after` is in order of time. An empty `service` is all services, an empty `workflow` requests without one.
    """

    def values(cells: Cells) -> Iterator[tuple[_Value, int]]:
        return _values(cells, service, workflow, distinct)

    known: set[_Value] = set()
    for cells in before:
        known.update(value for value, _ in values(cells))
    # Without earlier values of a name, no value of it can be called new.
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
            name=value.name.removeprefix("metadata."), value=value.value, at=first[value] / 1000, requests=n
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
            # Even a request without values counts: a first version is new where there was none.
            for each in distinct:
                yield _Value(each, ""), 0
        elif value in distinct.get(name, ()) and value not in (OTHER, UNKNOWN):
            yield _Value(name, value), counts["requests"]
    for key, cell in cells.scores.items():
        kind = cell.kind
        if kind is None or key.segment or key.workflow != workflow or service not in ("", key.service):
            continue
        if kind.definition == UNKNOWN_DEFINITION:
            continue
        n = sum(cell.statuses.values())
        yield _Value(f"definition of {key.score}", kind.definition), n
        if kind.judge:
            yield _Value("judge", kind.judge), n
