"""Gauges of what the store holds: means of quality with intervals and objectives, and knowledge gaps.

Whoever has no Prometheus to compute them from the sums, or looks at a backend of another kind, reads them here,
and also those of scores that applications sent: the same numbers as the page and the API show of the last hour.
They leave under the server's own name, and an attribute says whose they are.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, suppress
from functools import partial

from opentelemetry.metrics import CallbackOptions, MeterProvider, Observation

from ragmeter.exporters import semconv
from ragmeter.exporters._format import clean

from .store import (
    GAPS_RANGE_S,
    CellKey,
    Filters,
    GapPage,
    GapView,
    Mean,
    Reader,
    UnreadableStoreError,
)

__all__ = ["MAX_SERIES", "GapGauge", "QualityGauges", "publish_gauges"]

MAX_SERIES = 1_500
"""Scores by service, workflow and segment; of what is beyond there is no gauge. The SDK keeps 2,000 apart."""

GAPS_EVERY_S = 600.0
"""Seconds between two looks for gaps: one takes up to a second."""

Estimates = Callable[[], Mapping[CellKey, Mean]]


class QualityGauges:
    """Publishes estimates. Thread-safe.

    Args:
        estimates: Returns the means, the most important first.
        guard: Contains our own errors.
    """

    def __init__(self, estimates: Estimates, guard: AbstractContextManager[object]) -> None:
        self._estimates = estimates
        self._guard = guard
        self._lock = threading.Lock()
        self._known: set[CellKey] = set()
        self._now: Mapping[CellKey, Mean] = {}
        self._told: set[str] = set()

    def publish(self, provider: MeterProvider) -> None:
        """Register the instruments with a provider."""
        meter = provider.get_meter(semconv.SCOPE)
        for name, instrument in semconv.QUALITY_GAUGES.items():
            meter.create_observable_gauge(
                str(instrument.name),
                [partial(self._observe, name)],
                instrument.unit,
                instrument.description,
            )

    def _observe(self, name: str, _options: CallbackOptions) -> Iterable[Observation]:
        for key, mean in self._moment(name).items():
            value: float | None = getattr(mean.estimate, name)
            # Nothing is known, so nothing is told: an interval from 0 to 1 would look like a measurement.
            if value is not None and mean.estimate.method != "none":
                yield Observation(value, _attributes(key, mean))

    def _moment(self, name: str) -> Mapping[CellKey, Mean]:
        """Return the estimates of the present collection: a new one begins when an instrument asks again."""
        with self._lock:
            if name in self._told or not self._told:
                self._told = set()
                self._now = self._read()
            self._told.add(name)
            return self._now

    def _read(self) -> Mapping[CellKey, Mean]:
        found: Mapping[CellKey, Mean] = {}
        with self._guard:
            try:
                found = self._estimates()
            except UnreadableStoreError:
                return {}  # it is away just now, as the server says elsewhere
        told: dict[CellKey, Mean] = {}
        for key, each in found.items():
            # Who has one keeps it: gauges that come and go would be none.
            if key in self._known or len(self._known) < MAX_SERIES:
                self._known.add(key)
                told[key] = each
        return told


def _attributes(key: CellKey, mean: Mean) -> dict[str, str]:
    named = {
        semconv.SERVICE: key.service,
        semconv.GEN_AI_WORKFLOW_NAME: key.workflow,
        semconv.GEN_AI_EVALUATION_NAME: key.score,
        semconv.SEGMENT: key.segment,
        semconv.SCORE_DIRECTION: mean.direction,
        # Of two judges there are two gauges, and of two versions of a formula.
        semconv.JUDGE: key.measurement if mean.judged else "",
        semconv.SCORE_JUDGE_MODEL: mean.judge,
        semconv.EVALUATOR_VERSION: mean.definition,
    }
    return {str(name): clean(value, 256) for name, value in named.items() if value}


class GapGauge:
    """Publishes the size of each gap that is open; a list has ten at most.

    Args:
        gaps: Returns the gaps.
        guard: Contains our own errors.
        clock: Seconds that never go back.
    """

    def __init__(
        self,
        gaps: Callable[[Filters], GapPage],
        guard: AbstractContextManager[object],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._gaps, self._guard, self._clock = gaps, guard, clock
        self._latest: tuple[GapView, ...] = ()
        self._next = clock()

    def publish(self, provider: MeterProvider) -> None:
        """Register the instrument with a provider."""
        gauge = semconv.GAP_REQUESTS
        provider.get_meter(semconv.SCOPE).create_observable_gauge(
            str(gauge.name), [self._observe], gauge.unit, gauge.description
        )

    def _observe(self, _options: CallbackOptions) -> Iterable[Observation]:
        if self._clock() >= self._next:
            self._next, self._latest = self._clock() + GAPS_EVERY_S, ()
            with self._guard, suppress(UnreadableStoreError):
                self._latest = self._gaps(Filters(range_s=GAPS_RANGE_S)).gaps
        for one in self._latest:
            if one.state == "open":
                named = {
                    semconv.GAP: one.id,
                    semconv.DIAGNOSIS: one.diagnosis,
                    semconv.LANGUAGE: one.language or "",
                    semconv.SERVICE: one.service,
                }
                yield Observation(
                    one.n_bad,
                    {str(name): clean(value, 256) for name, value in named.items() if value},
                )


def publish_gauges(
    provider: MeterProvider, reader: Reader, guard: AbstractContextManager[object]
) -> None:
    """Register what a store holds with a provider."""
    QualityGauges(reader.estimates, guard).publish(provider)
    GapGauge(reader.gaps, guard).publish(provider)
