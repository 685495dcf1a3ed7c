"""Outages of the judge: their periods, models, errors and numbers of requests.

Failures are counted by five minutes, so that a day without a judge is few rows; slots close together are one
outage.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from ._counting import FAILED
from ._database import Database
from ._lists import where_of
from ._rows import SLOT_MS
from .views import Filters, JudgeOutage

MOST = 50
"""Most listed outages, the latest ones."""
_APART_MS = 15 * 60_000
"""Milliseconds without a failure that separate two outages."""
_STATUSES = ", ".join(f"'{status}'" for status in sorted(FAILED))
_FAILED = (
    f"FROM request r JOIN score s ON s.request = r.id AND s.status IN ({_STATUSES}) "
    "JOIN kind k ON k.id = s.kind AND k.judged = 1 WHERE "
)


def outages(database: Database, filters: Filters, bounds: tuple[int, int]) -> tuple[JudgeOutage, ...]:
    """Return the periods in which judged scores failed, in order of time."""
    where, given = where_of(filters, bounds, database)
    slot = f"r.at / {SLOT_MS}"
    found: list[list[Any]] = []
    for _, from_ms, until_ms, requests in database.execute(
        f"SELECT {slot}, min(r.at), max(r.at), count(DISTINCT r.id) {_FAILED} {where} GROUP BY 1 ORDER BY 1",
        given,
    ):
        if found and from_ms - found[-1][1] < _APART_MS:
            found[-1][1] = until_ms
            found[-1][2] += requests
        else:
            found.append([from_ms, until_ms, requests])
    found = found[-MOST:]
    models: list[set[str]] = [set() for _ in found]
    errors: list[Counter[str]] = [Counter() for _ in found]
    for from_ms, judge, error, requests in database.execute(
        f"SELECT min(r.at), k.judge, coalesce(s.error_type, s.status), count(DISTINCT r.id) "
        f"{_FAILED} {where} GROUP BY {slot}, 2, 3",
        given,
    ):
        place = _place(found, from_ms)
        if place is not None:
            models[place] |= {judge} - {""}
            errors[place][error] += requests
    return tuple(
        JudgeOutage(
            from_ms=from_ms,
            until_ms=until_ms,
            requests=requests,
            models=tuple(sorted(models[place])),
            errors=dict(sorted(errors[place].items(), key=lambda one: (-one[1], one[0]))),
        )
        for place, (from_ms, until_ms, requests) in enumerate(found)
    )


def _place(found: Sequence[Sequence[int]], at_ms: int) -> int | None:
    return next((i for i, one in enumerate(found) if one[0] <= at_ms <= one[1]), None)
