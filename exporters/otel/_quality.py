"""Publishes the sums behind the means of quality as observable counters.

`QualityBoard` adds up the sums of every meter that reports to one meter provider; `StatsBoard` holds it
and says why there is one per provider.  All sums of one collection are of one moment: a mean
is a ratio of them, and a request that is in one and not in the other would bend it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from opentelemetry.util.types import AttributeValue

from ragmeter.exporters import semconv
from ragmeter.exporters._format import clean
from ragmeter.exporters.protocol import QualitySums
from ragmeter.metrics._process import fork

from ._series import Attributes, SeriesBound
from ._sources import Reading, WeakSources

_BOUND_AS = str(semconv.QUALITY_SUMS["n"].name)
"""All sums share the room of one instrument: each has the same series."""
_Attributes = tuple[tuple[str, AttributeValue], ...]


class _Moment:
    """The sums of all meters at one moment, and which instruments know of it."""

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
    """Adds up the sums of all meters that publish to one meter provider.

    Args:
        bound: Keeps the number of series below the SDK's limit.
    """

    def __init__(self, bound: SeriesBound) -> None:
        super().__init__()
        self._bound = bound
        self._affected: set[_Attributes] = set()
        self._fresh()
        fork.forget(self._fresh)

    def _fresh(self) -> None:
        # In a forked child: what meters of the parent counted, the parent exports.
        self._gone = _Moment()
        self._now = _Moment()
        for source in self._sources.values():
            source.last = ()

    def keep(self, last: Sequence[QualitySums]) -> None:
        """Freeze a meter's sums at their last values."""
        self._add(last, self._gone)

    def totals(self, instrument: semconv.Instrument) -> Reading:
        """Return the sums of an instrument, or its other values, by series."""
        moment = self._moment(instrument.name)
        if instrument is semconv.DESIGN_EFFECT:
            for attributes, effect in moment.effects.items():
                # A value published once is reset, not omitted: a backend would go on showing it.
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
            # Where no request goes on with another one, nothing is known of pairs: four series less.
            if name in sums and (sums[name] or name not in semconv.PAIR_SUMS):
                yield sums[name], dict(attributes)

    def _moment(self, name: str) -> _Moment:
        """Return the sums of the present collection: a new one begins when an instrument asks again."""
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
            named: Attributes = {
                str(key): clean(value, 256) for key, value in attributes.items() if value
            }
            fit = self._bound.fit_part if one.segment else self._bound.fit
            fitted = fit(_BOUND_AS, named)
            if fitted is not None:
                to.add(tuple(fitted.items()), one.sums, one.design_effect, one.budget)
