"""Counters of received requests, and periods in which some were refused. Thread-safe."""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

_APART_MS = 60_000
"""Milliseconds without a refusal that separate two overloads."""
_MOST_TIMES = 100
_MOST_REASONS = 8


@dataclass(slots=True, kw_only=True)
class Overload:
    """A period in which senders were asked to retry later, because there was no room."""

    from_ms: int
    """Time of the first refusal, milliseconds since the epoch."""
    until_ms: int
    """Time of the last refusal so far."""
    refused: int = 0
    """Number of refused export requests. Senders repeat them, so one may be refused several times."""
    why: dict[str, int] = field(default_factory=dict)
    """Number of them by the reason that senders got."""


class Counts:
    """Counters of received requests, by outcome.

    Args:
        clock: Seconds since the epoch.
    """

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._counted: dict[str, Counter[str]] = {
            kind: Counter() for kind in ("exports", "spans", "connections")
        }
        self.open_connections = 0
        """Number of open HTTP connections; written by the event loop's thread only."""
        self._overloads: deque[Overload] = deque(maxlen=_MOST_TIMES)

    def export(self, outcome: str) -> None:
        """Count one export request by its outcome: ``accepted``, or the reason of its refusal."""
        with self._lock:
            self._counted["exports"][outcome] += 1

    def connection(self, why: str) -> None:
        """Count one connection closed by the server, by the reason."""
        with self._lock:
            self._counted["connections"][why] += 1

    def busy(self, why: str) -> None:
        """Count one export request refused for want of room, and record the time."""
        now = int(self._clock() * 1000)
        with self._lock:
            self._counted["exports"]["busy"] += 1
            if not self._overloads or now - self._overloads[-1].until_ms > _APART_MS:
                self._overloads.append(Overload(from_ms=now, until_ms=now))
            time_of_it = self._overloads[-1]
            time_of_it.until_ms = max(now, time_of_it.until_ms)
            time_of_it.refused += 1
            if why in time_of_it.why or len(time_of_it.why) < _MOST_REASONS:
                time_of_it.why[why] = time_of_it.why.get(why, 0) + 1

    def spans(self, outcome: str, count: int) -> None:
        """Count spans that were refused on receipt."""
        if count:
            with self._lock:
                self._counted["spans"][outcome] += count

    def totals(self, kind: str) -> Mapping[str, int]:
        """Return the number of ``exports`` by outcome, or of refused ``spans`` or ``connections`` by reason."""
        with self._lock:
            return dict(self._counted[kind])

    def overloads(self) -> Sequence[Overload]:
        """Return the periods of refusals for want of room since the server began, the last 100."""
        with self._lock:
            return [replace(one, why=dict(one.why)) for one in self._overloads]
