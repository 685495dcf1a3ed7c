"""What is new since a change: versions, segment values, judges and formulas that no earlier request had.

A new value need not be the cause. The comparison uses the store's sums, so it costs as much as an overview.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from ragmeter.exporters.changes import NewSince
from ragmeter.quality.segments import OTHER, UNKNOWN
from ragmeter.watch.change import Change

from ._cells import Cells
from ._parts import UNKNOWN_DEFINITION
from ._sums import Part

MOST = 5
"""Most reported values, the most frequent."""
SLACK_MS = 10 * 60_000
"""The start of a change is an estimate: values seen up to this long before it count as new, too."""


def new_in(
    change: Change, before: Iterable[Part], after: Iterable[Part], distinct: Mapping[str, frozenset[str]]
) -> tuple[NewSince, ...]:
    """Return the values that are in `after` and not in `before`, the most frequent first.

    Both are sums in order of time. A change without a service is of all services, one without a workflow of
    requests without one.
    """
    known = {value for _, _, cells in before for value, _ in _values(cells, change, distinct)}
    # Without earlier values of a name, no value of it can be called new.
    names = {name for name, _ in known}
    first: dict[tuple[str, str], int] = {}
    counts = Counter[tuple[str, str]]()
    for began, _, cells in after:
        for value, n in _values(cells, change, distinct):
            if value not in known and value[0] in names:
                first.setdefault(value, began)
                counts[value] += n
    found = [
        NewSince(name=name.removeprefix("metadata."), value=value, at=first[name, value] / 1000, requests=n)
        for (name, value), n in counts.items()
    ]
    return tuple(sorted(found, key=lambda one: (-one.requests, one.name, one.value))[:MOST])


def _values(
    cells: Cells, change: Change, distinct: Mapping[str, frozenset[str]]
) -> Iterator[tuple[tuple[str, str], int]]:
    """Yield names with values, and their number of requests."""
    for group, counts in cells.groups.items():
        if group.workflow != change.workflow or change.service not in ("", group.service):
            continue
        name, _, value = group.segment.partition(":")
        if not name:
            # Even a request without values counts: a first version is new where there was none.
            for each in distinct:
                yield (each, ""), 0
        elif value in distinct.get(name, ()) and value not in (OTHER, UNKNOWN):
            yield (name, value), counts["requests"]
    for key, cell in cells.scores.items():
        kind = cell.kind
        if key.segment or key.workflow != change.workflow or change.service not in ("", key.service):
            continue
        if kind is None or kind.definition == UNKNOWN_DEFINITION:
            continue
        n = sum(cell.statuses.values())
        yield (f"definition of {key.score}", kind.definition), n
        if kind.judge:
            yield ("judge", kind.judge), n
