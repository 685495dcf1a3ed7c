"""How much otherwise judges judge by now, as three gauges: the difference and the ends of its interval.

`DriftBoard` reads every meter that reports to one meter provider; `StatsBoard` holds it and says why there is
one per provider.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from opentelemetry.metrics import CallbackOptions, Meter, Observation

from ragmeter.exporters import semconv
from ragmeter.exporters._format import clean
from ragmeter.exporters.changes import JudgeDrift

from ._series import Attributes, SeriesBound
from ._sources import WeakSources

__all__ = ["DriftBoard"]

_FIELDS = {
    semconv.JUDGE_DRIFT: "mean",
    semconv.JUDGE_DRIFT_LOWER: "lower",
    semconv.JUDGE_DRIFT_UPPER: "upper",
}


class DriftBoard(WeakSources[JudgeDrift]):
    """Publishes the drift of the judges of all meters that publish to one meter provider.

    Args:
        bound: Keeps the number of series below the SDK's limit.
    """

    def __init__(self, bound: SeriesBound) -> None:
        super().__init__()
        self._bound = bound

    def register(self, meter: Meter) -> None:
        """Register the instruments."""
        for gauge in _FIELDS:
            meter.create_observable_gauge(
                str(gauge.name), [partial(self._observe, gauge)], gauge.unit, gauge.description
            )

    def _observe(
        self, gauge: semconv.Instrument, _options: CallbackOptions
    ) -> Iterable[Observation]:
        for one in self.read():
            named: Attributes = {str(semconv.GEN_AI_EVALUATION_NAME): clean(one.score, 256)}
            value: float = getattr(one, _FIELDS[gauge])
            yield Observation(value, self._bound.fit(gauge.name, named))
