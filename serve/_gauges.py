"""Gauges of the store's contents: means of quality, knowledge gaps, chunks and conversations that went badly.

They are for users whose backend cannot compute them from the sums as Prometheus does, and include scores sent
by applications: the same numbers as on the page and in the API, over the last hour. They are exported under
the server's name, and an attribute has the service.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from functools import partial

from opentelemetry.metrics import MeterProvider
from opentelemetry.util.types import AttributeValue

from ragmeter.exporters import semconv
from ragmeter.exporters._format import clean
from ragmeter.exporters.otel._boards import Reading, register
from ragmeter.exporters.protocol import ListPoint
from ragmeter.quality.list_points import conversation_points, corpus_points, gap_points

from ._telemetry import Telemetry
from .store import GAPS_RANGE_S, CellKey, Mean, Reader, UnreadableStoreError
from .store.views import Filters

MAX_SERIES = 1_500
"""Most scores by service, workflow and segment with a gauge. The SDK distinguishes 2,000."""

Estimates = Callable[[], Mapping[CellKey, Mean]]


class QualityGauges:
    """Publishes estimates. Thread-safe."""

    def __init__(self, estimates: Estimates, guard: AbstractContextManager[object]) -> None:
        self._estimates = estimates
        self._guard = guard
        self._lock = threading.Lock()
        self._known: set[CellKey] = set()
        self._now: Mapping[CellKey, Mean] = {}
        self._observed: set[str] = set()

    def publish(self, provider: MeterProvider) -> None:
        """Register the instruments with a provider."""
        register(provider.get_meter(semconv.SCOPE), semconv.QUALITY_GAUGES.values(), self._values)

    def _values(self, instrument: semconv.Instrument) -> Reading:
        name = instrument.name.rpartition(".")[2]
        for key, mean in self._moment(name).items():
            value: float | None = getattr(mean.estimate, name)
            # Without knowledge nothing is reported: an interval from 0 to 1 would look like a measurement.
            if value is not None and mean.estimate.method != "none":
                yield value, _attributes(key, mean)

    def _moment(self, name: str) -> Mapping[CellKey, Mean]:
        """Return the estimates of this collection; a new one begins when an instrument reads again."""
        with self._lock:
            if name in self._observed or not self._observed:
                self._observed = set()
                self._now = self._read()
            self._observed.add(name)
            return self._now

    def _read(self) -> Mapping[CellKey, Mean]:
        found: Mapping[CellKey, Mean] = {}
        with self._guard:
            try:
                found = self._estimates()
            except UnreadableStoreError:
                return {}  # the store is unreachable now, which the server reports elsewhere
        means: dict[CellKey, Mean] = {}
        for key, each in found.items():
            # Existing series keep their gauges, which would otherwise appear and disappear.
            if key in self._known or len(self._known) < MAX_SERIES:
                self._known.add(key)
                means[key] = each
        return means


def _attributes(key: CellKey, mean: Mean) -> dict[str, AttributeValue]:
    named = {
        semconv.SERVICE: key.service,
        semconv.GEN_AI_WORKFLOW_NAME: key.workflow,
        semconv.GEN_AI_EVALUATION_NAME: key.score,
        semconv.SEGMENT: key.segment,
        semconv.SCORE_DIRECTION: mean.direction,
        # Two judges, or two versions of a formula, have two gauges.
        semconv.JUDGE: key.measurement if mean.judged else "",
        semconv.SCORE_JUDGE_MODEL: mean.judge,
        semconv.EVALUATOR_VERSION: mean.definition,
    }
    return {str(name): clean(value, 256) for name, value in named.items() if value}


def store_points(reader: Reader, guard: AbstractContextManager[object]) -> Sequence[ListPoint]:
    """Return the measurements of the store's lists, such as gaps and chunks."""
    weeks, day = Filters(range_s=GAPS_RANGE_S), Filters(range_s=86_400.0)
    found: list[ListPoint] = []
    with guard, suppress(UnreadableStoreError):
        found += gap_points(reader.gaps(weeks).gaps)
        found += corpus_points(reader.chunks(weeks))
        page = reader.conversations(day, limit=1)
        found += conversation_points(page.share, page.lower, page.upper)
    return found


def publish_gauges(telemetry: Telemetry, reader: Reader, guard: AbstractContextManager[object]) -> None:
    """Publish the store's measurements as gauges under the server's name."""
    QualityGauges(reader.estimates, guard).publish(telemetry.meter_provider)
    telemetry.own_exporter.observe_lists(partial(store_points, reader, guard))
