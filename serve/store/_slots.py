"""Requests scored by ragmeter elsewhere, as sums of five minutes: the input of the change detectors.

A request counts in the five minutes of its first arrival, so that none is missed, however late it arrives,
and none counts twice: arrival times only increase. A slot is read only some time after its end, when the rest
of its requests has arrived, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from operator import itemgetter
from typing import NamedTuple, cast

from ragmeter.exporters.protocol import QualitySums
from ragmeter.metrics import ScoreDirection
from ragmeter.quality.sums import SlotSums

from ._cells import Cells
from ._counting import count_requests
from ._database import Database
from ._measured import only_measurements, settle
from ._names import distinct_segments
from ._rows import SLOT_MS, kinds_of


class ReceivedSlot(NamedTuple):
    """The requests that arrived in five minutes."""

    at: float
    """Start of the slot, unix seconds."""
    sums: tuple[SlotSums, ...]
    """The sums of its requests, by service, workflow, score and segment."""
    self_reporting: tuple[tuple[str, str], ...]
    """Service and environment of applications that send alerts themselves."""


def next_slot(database: Database, since: float, until: float) -> ReceivedSlot | None:
    """Return the first five minutes with arrivals between two unix times, or None if there are none."""
    at = -(-int(since * 1000) // SLOT_MS) * SLOT_MS
    (first,) = database.execute(
        "SELECT min(stored) FROM request WHERE received = 1 AND stored >= ?", (at,)
    ).fetchone()
    if first is None:
        return None
    began = int(first) // SLOT_MS * SLOT_MS
    return None if began + SLOT_MS > until * 1000 else _slot(database, began)


def _slot(database: Database, began_ms: int) -> ReceivedSlot:
    came: dict[str, list[int]] = {}
    self_reporting: set[tuple[str, str]] = set()
    for number, service, environment, alarms in database.execute(
        "SELECT id, coalesce(service, ''), coalesce(environment, ''), alarms FROM request "
        "WHERE received = 1 AND stored >= ? AND stored < ?",
        (began_ms, began_ms + SLOT_MS),
    ):
        came.setdefault(environment, []).append(number)
        if alarms:
            self_reporting.add((service, environment))
    at = began_ms / 1000
    only = only_measurements((kind.name, kind.measurement) for kind in kinds_of(database).values())
    distinct = distinct_segments(database).only_named()
    return ReceivedSlot(
        at,
        tuple(
            SlotSums(at, counted)
            for environment, numbers in sorted(came.items())
            for counted in _sums(
                count_requests(database, numbers, distinct, with_parts=True), environment, only
            )
        ),
        tuple(sorted(self_reporting)),
    )


def resource_of(service: str, environment: str) -> dict[str, str]:
    """Return the resource attributes that identify a service."""
    found = {"service.name": service, "deployment.environment.name": environment}
    return {name: value for name, value in found.items() if value}


def _sums(cells: Cells, environment: str, only: Mapping[str, str]) -> Iterator[QualitySums]:
    """Yield the sums of each measurement; unmeasured requests count if their judge is known."""
    for key, cell in sorted(settle(cells.scores.items()), key=itemgetter(0)):
        kind = cell.kind
        measurement = key.measurement or only.get(key.score, "")
        if kind is None or not measurement or not cell.is_quality:
            continue
        yield QualitySums(
            score=key.score,
            workflow=key.workflow,
            segment=key.segment,
            judge=measurement if kind.judged else "",
            measurement=measurement,
            direction=cast("ScoreDirection", kind.direction),
            resource=resource_of(key.service, environment),
            # The count beyond an objective is computed where the objective is known.
            sums={
                name: value
                for name, value in zip(cell.moments.names, cell.moments.values(), strict=True)
                if name != "low"
            },
        )
