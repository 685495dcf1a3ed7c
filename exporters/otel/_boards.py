"""Publish the current values of several meters as observable instruments.

OpenTelemetry has one callback per instrument and meter provider and silently ignores a second registration,
so two meters of one process would hide each other. `StatsBoard` is therefore between them: one per provider,
which adds up the snapshots of every meter that reports to it and holds the boards of other values. Counters
never fall: the counts of a meter remain when it shuts down, and its last read counts when it is dropped
without a shutdown. A board reads its meters through `WeakSources`, and keeps none alive.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import chain
from types import MethodType
from typing import Any, Generic, TypeVar
from weakref import WeakMethod

from opentelemetry import metrics
from opentelemetry.metrics import CallbackOptions, Meter, MeterProvider, Observation
from opentelemetry.util.types import AttributeValue

from ragmeter.exporters import semconv
from ragmeter.exporters._foreign import ByIdentity
from ragmeter.exporters._format import clean
from ragmeter.exporters.changes import ChangeEvidence, JudgeDrift, RetrieverDifference
from ragmeter.exporters.protocol import ListPoint, MeterStats, QualitySums
from ragmeter.exporters.semconv import Instrument
from ragmeter.metrics._process import fork

from ._events import attributes_of_change
from ._metrics import Attributes, SeriesBound

T = TypeVar("T")
Reading = Iterable[tuple[float, dict[str, AttributeValue]]]
"""The current values of an instrument, each with the attributes of its series."""


_CREATE = {
    "observable_counter": "create_observable_counter",
    "observable_updowncounter": "create_observable_up_down_counter",
    "observable_gauge": "create_observable_gauge",
}


def register(meter: Meter, instruments: Iterable[Instrument], read: Callable[[Instrument], Reading]) -> None:
    """Register the observable ones among some instruments."""
    for instrument in instruments:
        if instrument.kind in _CREATE:
            create: Any = getattr(meter, _CREATE[instrument.kind])
            call = partial(_observe, read, instrument)
            create(str(instrument.name), [call], instrument.unit, instrument.description)


def _observe(
    read: Callable[[Instrument], Reading], instrument: Instrument, _: CallbackOptions
) -> Iterable[Observation]:
    for value, attributes in read(instrument):
        yield Observation(value, attributes)


class _Source(Generic[T]):
    """A function of a meter, held weakly: telemetry keeps no meter alive."""

    def __init__(self, ask: Callable[[], T]) -> None:
        self.ask: Callable[[], Callable[[], T] | None] = (
            WeakMethod(ask) if isinstance(ask, MethodType) else lambda: ask
        )
        self.last: T | None = None

    def read(self) -> T | None:
        """Return its current value, or the last one."""
        if (ask := self.ask()) is not None:
            self.last = ask()
        return self.last


class WeakSources(Generic[T]):
    """Functions that return current values. Thread-safe."""

    def __init__(self) -> None:
        self._lock = fork.reentrant_lock()
        self._sources: dict[int, _Source[T]] = {}

    def join(self, source: Callable[[], T]) -> None:
        """Read `source` from now on; a method is held weakly."""
        with self._lock:
            self._sources[id(source)] = _Source(source)

    def leave(self, source: Callable[[], T]) -> None:
        """Read it a last time, and remove it."""
        last = source()
        with self._lock:
            if self._sources.pop(id(source), None) is not None:
                self.keep(last)

    def keep(self, last: T) -> None:
        """Store the last value of a dropped source; here it is discarded."""

    def read(self) -> list[T]:
        """Return the values of all sources."""
        with self._lock:
            for key, source in list(self._sources.items()):
                if source.ask() is None:
                    del self._sources[key]
                    if source.last is not None:
                        self.keep(source.last)
            sources = list(self._sources.values())
        return [value for one in sources if (value := one.read()) is not None]


_BOUND_AS = str(semconv.QUALITY_SUMS["n"].name)
"""All sums share the room of one instrument, as they have the same series."""
_Attributes = tuple[tuple[str, AttributeValue], ...]


class _Moment:
    """The sums of all meters at one moment, and the instruments that have read it."""

    def __init__(self) -> None:
        self.sums: dict[_Attributes, dict[str, float]] = {}
        self.effects: dict[_Attributes, float] = {}
        self.budgets: dict[_Attributes, float] = {}
        self.published: set[str] = set()

    def add(
        self,
        attributes: _Attributes,
        sums: Mapping[str, float],
        design_effect: float = 1.0,
        budget: float | None = None,
    ) -> None:
        """Add sums to those with equal attributes."""
        known = self.sums.setdefault(attributes, {})
        for name, value in sums.items():
            known[name] = known.get(name, 0.0) + value
        self.effects[attributes] = max(self.effects.get(attributes, 1.0), design_effect)
        if budget is not None:
            self.budgets[attributes] = min(self.budgets.get(attributes, 1.0), budget)


class QualityBoard(WeakSources[Sequence[QualitySums]]):
    """Adds up the sums of all meters that publish to one meter provider."""

    def __init__(self, bound: SeriesBound) -> None:
        super().__init__()
        self._bound = bound
        self._affected: set[_Attributes] = set()
        self._fresh()
        fork.forget(self._fresh)

    def _fresh(self) -> None:
        # In a forked child: the parent exports the counts of its meters.
        self._gone = _Moment()
        self._now = _Moment()
        for source in self._sources.values():
            source.last = ()

    def keep(self, last: Sequence[QualitySums]) -> None:
        """Freeze a meter's sums at their last values."""
        self._add(last, self._gone)

    def totals(self, instrument: Instrument) -> Reading:
        """Return the sums of an instrument, or its other values, by series."""
        moment = self._moment(instrument.name)
        if instrument is semconv.DESIGN_EFFECT:
            for attributes, effect in moment.effects.items():
                # A value published once is reset, not omitted: a backend would continue to show it.
                if effect > 1.0 or attributes in self._affected:
                    self._affected.add(attributes)
                    yield effect, dict(attributes)
            return
        if instrument is semconv.QUALITY_BUDGET:
            for attributes, budget in moment.budgets.items():
                yield budget, dict(attributes)
            return
        name = instrument.name.rpartition(".")[2]
        for attributes, sums in moment.sums.items():
            # Without conversations of several requests there are no pairs: four series less.
            if name in sums and (sums[name] or name not in semconv.PAIR_SUMS):
                yield sums[name], dict(attributes)

    def _moment(self, name: str) -> _Moment:
        """Return the sums of the current collection; a second read by one instrument begins a new one."""
        with self._lock:
            if name in self._now.published or not self._now.published:
                found = self.read()
                self._now = _Moment()
                for attributes, sums in self._gone.sums.items():
                    self._now.add(attributes, sums)
                for some in found:
                    self._add(some, self._now)
            self._now.published.add(name)
            return self._now

    def _add(self, found: Iterable[QualitySums], to: _Moment) -> None:
        for one in found:
            attributes = {
                semconv.GEN_AI_EVALUATION_NAME: one.score,
                semconv.GEN_AI_WORKFLOW_NAME: one.workflow,
                semconv.SEGMENT: one.segment,
                semconv.SCORE_DIRECTION: one.direction,
                semconv.JUDGE: one.judge,
            }
            named: Attributes = {str(key): clean(value, 256) for key, value in attributes.items() if value}
            fit = self._bound.fit_part if one.segment else self._bound.fit
            fitted = fit(_BOUND_AS, named)
            if fitted is not None:
                to.add(tuple(fitted.items()), one.sums, one.design_effect, one.budget)


class ChangeBoard(WeakSources[Sequence[ChangeEvidence]]):
    """Publishes the evidence of all meters that publish to one meter provider."""

    def __init__(self, bound: SeriesBound) -> None:
        super().__init__()
        self._bound = bound

    def values(self, instrument: Instrument) -> Reading:
        """Return the evidence for each change, the highest of all meters."""
        found: dict[tuple[tuple[str, AttributeValue], ...], float] = {}
        for one in chain.from_iterable(self.read()):
            named = attributes_of_change(one.score, one.workflow, one.segment, one.kind)
            key = tuple(self._bound.fit(instrument.name, named).items())
            found[key] = max(found.get(key, 0.0), one.evidence)
        for key, value in found.items():
            yield value, dict(key)


class DifferenceBoard(WeakSources[Sequence[JudgeDrift | RetrieverDifference]]):
    """Publishes mean differences with their intervals, for all meters: drift of judges, or other retrievers."""

    def __init__(self, bound: SeriesBound, instruments: Sequence[Instrument]) -> None:
        super().__init__()
        self._bound = bound
        self._fields = dict(zip(instruments, ("mean", "lower", "upper"), strict=True))

    def values(self, instrument: Instrument) -> Reading:
        """Return the mean or an end of the interval for each score."""
        for one in chain.from_iterable(self.read()):
            named: Attributes = {str(semconv.GEN_AI_EVALUATION_NAME): clean(one.score, 256)}
            if isinstance(one, RetrieverDifference):
                named[str(semconv.SHADOW)] = clean(one.name, 256)
            yield getattr(one, self._fields[instrument]), self._bound.fit(instrument.name, named)


LEAST_S = 10.0
"""Least seconds between two readings, and `_PAUSE` times the duration of the last one: a third of a percent
of the time."""
_PAUSE = 300.0


class ListBoard(WeakSources[Sequence[ListPoint]]):
    """Publishes the lengths of lists; if several meters count the same, those of the last meter.

    Args:
        clock: Monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._latest: Sequence[ListPoint] = ()
        self._next = 0.0

    def join(self, source: Callable[[], Sequence[ListPoint]]) -> None:
        super().join(source)
        self._next = 0.0

    def values(self, instrument: Instrument) -> Reading:
        """Return the values of an instrument."""
        began = self._clock()
        if began >= self._next:
            self._next = began + LEAST_S
            self._latest = list(chain.from_iterable(self.read()))
            self._next += _PAUSE * (self._clock() - began)
        for one, value, named in self._latest:
            if one is instrument:
                yield value, {str(name): clean(text, 256) for name, text in named.items() if text}


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
    """Sums the snapshots of all meters that publish to one meter provider."""

    def __init__(self, bound: SeriesBound) -> None:
        super().__init__()
        self.quality = QualityBoard(bound)
        self.changes = ChangeBoard(bound)
        self.drift = DifferenceBoard(bound, semconv.DRIFT_INSTRUMENTS)
        self.shadows = DifferenceBoard(bound, semconv.SHADOW_INSTRUMENTS)
        self.lists = ListBoard()
        self._gone: dict[str, Counter[str]] = {}
        self._known: dict[str, set[str]] = {}

    @staticmethod
    def of(provider: MeterProvider, meter: Callable[[], Meter]) -> StatsBoard:
        """Return the provider's board; the first call registers its instruments.

        The global provider has one board, whether the application has set it already or the API's proxy still
        represents it.

        Args:
            provider: The meter provider, perhaps the API's proxy.
            meter: Makes the meter that registers the instruments.
        """
        with _lock:
            board = _boards.get(provider)
            if board is None and provider is metrics.get_meter_provider():
                # The API's proxy has no public name; it is the only provider that the API itself defines.
                own = "opentelemetry.metrics._internal"
                board = next((b for p, b in _boards.items() if type(p).__module__.startswith(own)), None)
            if board is None:
                board = StatsBoard(SeriesBound.of(provider))
                made = meter()
                register(made, semconv.INSTRUMENTS, board.totals)
                register(made, semconv.QUALITY_INSTRUMENTS, board.quality.totals)
                register(made, (semconv.CHANGE_EVIDENCE,), board.changes.values)
                register(made, semconv.DRIFT_INSTRUMENTS, board.drift.values)
                register(made, semconv.SHADOW_INSTRUMENTS, board.shadows.values)
                register(made, semconv.LIST_INSTRUMENTS, board.lists.values)
            _boards.put(provider, board)
            return board

    def keep(self, last: MeterStats) -> None:
        """Freeze a meter's counters at their last values; its queue is gone."""
        counts = _tables(last)
        for instrument in semconv.INSTRUMENTS:
            if instrument.kind == "observable_counter":
                gone = self._gone.setdefault(instrument.name, Counter())
                gone.update(counts.get(instrument.name, {}))

    def totals(self, instrument: Instrument) -> Reading:
        """Return the sums of an instrument, by the value of its attribute."""
        name = instrument.name
        snapshots = self.read()
        total = Counter(self._gone.get(name, {}))
        for snapshot in snapshots:
            total.update(_tables(snapshot).get(name, {}))
        # A value published once becomes 0, not absent: a backend would continue to show the last value.
        known = self._known.setdefault(name, set())
        known.update(total)
        for value in sorted(known):
            yield total[value], {str(key): value for key in instrument.attributes if value}
