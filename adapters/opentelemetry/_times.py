"""Times of requests: a span within the time of one, below the same outermost span, is a part of it."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Mapping

from ._found import FoundRequest
from .record import SpanRecord


class RequestTimes:
    """The periods of requests, joined and in order; one without its own span may have run at any time."""

    def __init__(self, found: Iterable[FoundRequest], tops: Mapping[str, str | None]) -> None:
        times: dict[str | None, list[tuple[float, float]]] = {}
        for one in found:
            first = one.span or one.members[0]
            begun = min(first.started_ns, one.members[0].started_ns)
            time = (begun, first.ended_ns) if one.span else (-math.inf, math.inf)
            times.setdefault(tops.get(first.span_id), []).append(time)
        self._tops = tops
        self._times = {top: _join(each) for top, each in times.items()}

    def hold(self, span: SpanRecord) -> bool:
        """Return whether a span began while a request below the same outermost span ran."""
        own = self._times.get(self._tops.get(span.span_id), [])
        place = bisect_right(own, (span.started_ns, math.inf)) - 1
        return place >= 0 and span.started_ns <= own[place][1]


def _join(times: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return periods in order, adjoining ones merged."""
    joined: list[tuple[float, float]] = []
    for begun, ended in sorted(times):
        if joined and begun <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], ended))
        else:
            joined.append((begun, ended))
    return joined
