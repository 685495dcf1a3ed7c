"""Publishes the sums behind the means of quality as observable counters.

`QualityBoard` adds up the sums of every meter that reports to one meter provider; `StatsBoard` holds it
and says why there is one per provider.  All sums of one collection are of one moment: a mean
is a ratio of them, and a request that is in one and not in the other would bend it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MethodType
from weakref import WeakMethod

from opentelemetry.metrics import CallbackOptions, Meter, Observation
from opentelemetry.util.types import AttributeValue

from ragmeter.exporters import semconv
from ragmeter.exporters._format import clean
from ragmeter.exporters.protocol import QualitySums
from ragmeter.metrics._process import fork

from ._series import Attributes, SeriesBound

__all__ = ["QualityBoard"]

Sums = Callable[[], Sequence[QualitySums]]
_BOUND_AS = str(semconv.QUALITY_SUMS["n"].name)
"""All sums share the room of one instrument: each has the same series."""
_Attributes = tuple[tuple[str, AttributeValue], ...]


class _SumsSource:
    """A meter's sums, held weakly: telemetry keeps no meter alive."""

    def __init__(self, sums: Sums) -> None:
        self.sums: Callable[[], Sums | None] = (
            WeakMethod(sums) if isinstance(sums, MethodType) else lambda: sums
        )
        self.last: Sequence[QualitySums] = ()

    def read(self) -> Sequence[QualitySums]:
        """Return the sums as of now, or as they were last read."""
        sums = self.sums()
        if sums is not None:
            self.last = sums()
        return self.last


class _Moment:
    """The sums of all meters at one moment, and which instruments know of it."""

    def __init__(self) -> None:
        self.sums: dict[_Attributes, dict[str, float]] = {}
        self.effects: dict[_Attributes, float] = {}
        self.budgets: dict[_Attributes, float] = {}
        self.told: set[str] = set()

    def add(
        self,
        attributes: _Attributes,
        sums: Mapping[str, float],
        design_effect: float = 1.0,
        budget: float | None = None,
    ) -> None:
        """Add sums to those with the same attributes."""
        known = self.sums.setdefault(attributes, {})
        for name, value in sums.items():
            known[name] = known.get(name, 0.0) + value
        self.effects[attributes] = max(self.effects.get(attributes, 1.0), design_effect)
        if budget is not None:
            self.budgets[attributes] = min(self.budgets.get(attributes, 1.0), budget)


class QualityBoard:
    """Adds up the sums of all meters that publish to one meter provider. Thread-safe.

    Args:
        bound: Keeps the number of series below the SDK's limit.
    """

    def __init__(self, bound: SeriesBound) -> None:
        self._bound = bound
        self._lock = fork.lock()
        self._sources: dict[int, _SumsSource] = {}
        self._gone = _Moment()
        self._now = _Moment()
        self._affected: set[_Attributes] = set()
        fork.forget(self._fresh)

    def _fresh(self) -> None:
        # In a forked child: what meters of the parent counted, the parent exports.
        self._gone = _Moment()
        self._now = _Moment()
        for source in self._sources.values():
            source.last = ()

    def join(self, sums: Sums) -> None:
        """Add a meter's sums from now on."""
        with self._lock:
            self._sources[id(sums)] = _SumsSource(sums)

    def leave(self, sums: Sums) -> None:
        """Freeze a meter's sums at what they are."""
        last = sums()
        with self._lock:
            if self._sources.pop(id(sums), None) is not None:
                self._add(last, self._gone)

    def register(self, meter: Meter) -> None:
        """Register the instruments."""
        for name, instrument in semconv.QUALITY_SUMS.items():
            meter.create_observable_counter(
                str(instrument.name),
                [self._callback(name)],
                instrument.unit,
                instrument.description,
            )
        effect = semconv.DESIGN_EFFECT
        meter.create_observable_gauge(
            str(effect.name), [self._observe_effects], effect.unit, effect.description
        )
        budget = semconv.QUALITY_BUDGET
        meter.create_observable_gauge(
            str(budget.name), [self._observe_budgets], budget.unit, budget.description
        )

    def _callback(self, name: str) -> Callable[[CallbackOptions], Iterable[Observation]]:
        def observe(_options: CallbackOptions) -> Iterable[Observation]:
            for attributes, sums in self._moment(name).sums.items():
                # Where no request goes on with another one, nothing is known of pairs: four series less.
                if name in sums and (sums[name] or name not in semconv.PAIR_SUMS):
                    yield Observation(sums[name], dict(attributes))

        return observe

    def _observe_effects(self, _options: CallbackOptions) -> Iterable[Observation]:
        for attributes, effect in self._moment(semconv.DESIGN_EFFECT.name).effects.items():
            # What was said once is taken back, not left out: a backend would go on showing it.
            if effect > 1.0 or attributes in self._affected:
                self._affected.add(attributes)
                yield Observation(effect, dict(attributes))

    def _observe_budgets(self, _options: CallbackOptions) -> Iterable[Observation]:
        for attributes, budget in self._moment(semconv.QUALITY_BUDGET.name).budgets.items():
            yield Observation(budget, dict(attributes))

    def _moment(self, name: str) -> _Moment:
        """Return the sums of the present collection: a new one begins when an instrument asks again."""
        with self._lock:
            if name in self._now.told or not self._now.told:
                self._now = self._read()
            self._now.told.add(name)
            return self._now

    def _read(self) -> _Moment:
        for key, source in list(self._sources.items()):
            if source.sums() is None:
                del self._sources[key]
                self._add(source.last, self._gone)
        now = _Moment()
        for attributes, sums in self._gone.sums.items():
            now.add(attributes, sums)
        for source in self._sources.values():
            self._add(source.read(), now)
        return now

    def _add(self, found: Iterable[QualitySums], to: _Moment) -> None:
        for one in found:
            attributes = {
                semconv.GEN_AI_EVALUATION_NAME: one.score,
                semconv.GEN_AI_WORKFLOW_NAME: one.workflow,
                semconv.SEGMENT: one.segment,
                semconv.SCORE_DIRECTION: one.direction,
                semconv.JUDGE: one.judge,
            }
            named: Attributes = {
                str(key): clean(value, 256) for key, value in attributes.items() if value
            }
            fit = self._bound.fit_part if one.segment else self._bound.fit
            fitted = fit(_BOUND_AS, named)
            if fitted is not None:
                to.add(tuple(fitted.items()), one.sums, one.design_effect, one.budget)
