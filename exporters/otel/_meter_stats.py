"""Publishes the meters' own counters as observable instruments.

OpenTelemetry keeps one callback per instrument and meter provider and silently
ignores a second registration, so two meters of one process would hide each other.
`StatsBoard` therefore stands between them: one board per provider, which adds up the
snapshots of every meter that reports to it.  Counters never fall: what a meter had
counted stays when it shuts down, and what was last read of it when it is dropped without.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

from opentelemetry import metrics
from opentelemetry.metrics import Meter, MeterProvider

from ragmeter.exporters import semconv
from ragmeter.exporters._foreign import ByIdentity
from ragmeter.exporters.protocol import MeterStats
from ragmeter.metrics._process import fork

from ._changes import ChangeBoard, DriftBoard, ShadowBoard
from ._lists import ListBoard
from ._quality import QualityBoard
from ._series import SeriesBound
from ._sources import Reading, WeakSources, register

_lock = fork.lock()
_boards: ByIdentity[StatsBoard] = ByIdentity()


def _tables(stats: MeterStats) -> dict[str, Mapping[str, int]]:
    """Return the counts by instrument and attribute value; "" for instruments without one."""
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


class StatsBoard(WeakSources[MeterStats]):
    """Sums the snapshots of all meters that publish to one meter provider.

    Args:
        bound: Keeps the number of series below the SDK's limit.
    """

    def __init__(self, bound: SeriesBound) -> None:
        super().__init__()
        self.quality = QualityBoard(bound)
        self.changes = ChangeBoard(bound)
        self.drift = DriftBoard(bound)
        self.shadows = ShadowBoard(bound)
        self.lists = ListBoard()
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
                board = StatsBoard(SeriesBound.of(provider))
                made = meter()
                register(made, semconv.INSTRUMENTS, board.totals)
                register(made, semconv.QUALITY_INSTRUMENTS, board.quality.totals)
                register(made, (semconv.CHANGE_EVIDENCE,), board.changes.values)
                register(made, DriftBoard.fields, board.drift.values)
                register(made, ShadowBoard.fields, board.shadows.values)
                register(made, semconv.LIST_INSTRUMENTS, board.lists.values)
            _boards.put(provider, board)
            return board

    def keep(self, last: MeterStats) -> None:
        """Freeze a meter's counters at what they were last; its queue is gone."""
        counts = _tables(last)
        for instrument in semconv.INSTRUMENTS:
            if instrument.kind == "observable_counter":
                gone = self._gone.setdefault(instrument.name, Counter())
                gone.update(counts.get(instrument.name, {}))

    def totals(self, instrument: semconv.Instrument) -> Reading:
        """Return the sums of an instrument, by the value of its attribute."""
        name = instrument.name
        snapshots = self.read()
        total = Counter(self._gone.get(name, {}))
        for snapshot in snapshots:
            total.update(_tables(snapshot).get(name, {}))
        # What was there once is 0 now, not gone: a backend would go on showing the last value.
        known = self._known.setdefault(name, set())
        known.update(total)
        for value in sorted(known):
            yield total[value], {str(key): value for key in instrument.attributes if value}


def _stands_in_for(old: object, new: MeterProvider) -> bool:
    # The API gives its proxy no public name; it is the one provider that belongs to the API itself.
    return old is not new and type(old).__module__.startswith("opentelemetry.metrics._internal")
