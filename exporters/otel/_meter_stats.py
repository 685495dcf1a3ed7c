"""Publishes the meters' own counters as observable instruments.

OpenTelemetry keeps one callback per instrument and meter provider and silently
ignores a second registration, so two meters of one process would hide each other.
`StatsBoard` therefore stands between them: one board per provider, which adds up the
snapshots of every meter that reports to it.  Counters never fall: what a meter had
counted stays when it shuts down, and what was last read of it when it is dropped without.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from types import MethodType
from typing import Any
from weakref import WeakMethod

from opentelemetry import metrics
from opentelemetry.metrics import CallbackOptions, Meter, MeterProvider, Observation

from ragmeter.exporters import semconv
from ragmeter.exporters._foreign import ByIdentity
from ragmeter.exporters.protocol import MeterStats
from ragmeter.metrics._process import fork

from ._changes import ChangeBoard
from ._drift import DriftBoard
from ._quality import QualityBoard
from ._series import SeriesBound

__all__ = ["StatsBoard"]

Stats = Callable[[], MeterStats]

_lock = fork.lock()
_boards: ByIdentity[StatsBoard] = ByIdentity()


def _tables(stats: MeterStats) -> dict[str, Mapping[str, int]]:
    """Return what is counted, by instrument and attribute value; "" for instruments without one."""
    return {
        semconv.CAPTURED.name: {"": stats.captured},
        semconv.DROPPED.name: stats.dropped,
        semconv.JUDGE_SKIPPED.name: stats.judge_skipped,
        semconv.JUDGE_BUDGET_LOCAL.name: {"": stats.judge_budget_local},
        semconv.INTERNAL_ERRORS.name: stats.internal_errors,
        semconv.EXPORT_ERRORS.name: stats.export_errors,
        semconv.AMENDMENTS.name: stats.amendments,
        semconv.IN_FLIGHT.name: {"": stats.in_flight},
        semconv.QUEUE_SIZE.name: {"": stats.queue_size},
        semconv.QUEUE_BYTES.name: {"": stats.queue_bytes},
        semconv.EXPORT_BACKLOG.name: stats.export_backlog,
    }


class _Source:
    """A meter's counters, held weakly: telemetry keeps no meter alive."""

    def __init__(self, stats: Stats) -> None:
        self.stats: Callable[[], Stats | None] = (
            WeakMethod(stats) if isinstance(stats, MethodType) else lambda: stats
        )
        self.last: dict[str, Mapping[str, int]] = {}

    def read(self) -> dict[str, Mapping[str, int]]:
        """Return the counters as of now, or as they were last read."""
        stats = self.stats()
        if stats is not None:
            self.last = _tables(stats())
        return self.last


class StatsBoard:
    """Sums the snapshots of all meters that publish to one meter provider. Thread-safe.

    Args:
        quality: The same for the sums behind their means of quality.
        changes: The same for the evidence for changes of these.
        drift: The same for how judges have moved.
    """

    def __init__(self, quality: QualityBoard, changes: ChangeBoard, drift: DriftBoard) -> None:
        self.quality = quality
        self.changes = changes
        self.drift = drift
        self._lock = fork.lock()
        self._sources: dict[int, _Source] = {}
        self._gone: dict[str, Counter[str]] = {}
        self._known: dict[str, set[str]] = {}

    @staticmethod
    def of(provider: MeterProvider, meter: Callable[[], Meter]) -> StatsBoard:
        """Return the provider's board; the first call registers its instruments.

        The global provider has one board, whether the application has set it already or the
        API's proxy still stands in for it.

        Args:
            provider: The meter provider, perhaps the API's proxy.
            meter: Makes the meter that the instruments are registered with.
        """
        with _lock:
            board = _boards.get(provider)
            if board is None and provider is metrics.get_meter_provider():
                board = next((b for p, b in _boards.items() if _stands_in_for(p, provider)), None)
            if board is None:
                bound = SeriesBound.of(provider)
                board = StatsBoard(QualityBoard(bound), ChangeBoard(bound), DriftBoard(bound))
                made = meter()
                board._register(made)
                board.quality.register(made)
                board.changes.register(made)
                board.drift.register(made)
            _boards.put(provider, board)
            return board

    def join(self, stats: Stats) -> None:
        """Add a meter's counters from now on."""
        with self._lock:
            self._sources[id(stats)] = _Source(stats)

    def leave(self, stats: Stats) -> None:
        """Freeze a meter's counters at what they are; its queue is gone."""
        last = _tables(stats())
        with self._lock:
            if self._sources.pop(id(stats), None) is not None:
                self._keep(last)

    def _observe(self, name: str) -> dict[str, int]:
        with self._lock:
            for key, source in list(self._sources.items()):
                if source.stats() is None:
                    del self._sources[key]
                    self._keep(source.last)
            sources = list(self._sources.values())
            total: Counter[str] = Counter(self._gone.get(name, {}))
        for source in sources:
            total.update(source.read().get(name, {}))
        # What was there once is 0 now, not gone: a backend would go on showing the last value.
        known = self._known.setdefault(name, set())
        known.update(total)
        return {value: total[value] for value in sorted(known)}

    def _keep(self, last: dict[str, Mapping[str, int]]) -> None:
        for instrument in semconv.INSTRUMENTS:
            if instrument.kind == "observable_counter":
                counts = self._gone.setdefault(instrument.name, Counter())
                counts.update(last.get(instrument.name, {}))

    def _register(self, meter: Meter) -> None:
        for instrument in semconv.INSTRUMENTS:
            create: Any = {
                "observable_counter": meter.create_observable_counter,
                "observable_updowncounter": meter.create_observable_up_down_counter,
            }.get(instrument.kind)
            if create is not None:
                create(
                    str(instrument.name),
                    [self._callback(instrument)],
                    instrument.unit,
                    instrument.description,
                )

    def _callback(
        self, instrument: semconv.Instrument
    ) -> Callable[[CallbackOptions], Iterable[Observation]]:
        def observe(_options: CallbackOptions) -> Iterable[Observation]:
            for value, count in self._observe(instrument.name).items():
                attributes = {str(key): value for key in instrument.attributes if value}
                yield Observation(count, attributes)

        return observe


def _stands_in_for(old: object, new: MeterProvider) -> bool:
    # The API gives its proxy no public name; it is the one provider that belongs to the API itself.
    return old is not new and type(old).__module__.startswith("opentelemetry.metrics._internal")
