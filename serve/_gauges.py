"""Gauges of what the store holds: means of quality, knowledge gaps, chunks and conversations that went badly.

For users without Prometheus to compute them from the sums, or with another kind of backend, they are here,
and also those of scores that applications sent: the same numbers as the page and the API show of the last hour.
They leave under the server's own name, and an attribute says whose they are.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from functools import partial

from opentelemetry.metrics import CallbackOptions, MeterProvider, Observation

from ragmeter.exporters import semconv
from ragmeter.exporters._format import clean
from ragmeter.quality.corpus.view import ChunkReport

from .store import (
    GAPS_RANGE_S,
    CellKey,
    ConversationPage,
    Filters,
    GapPage,
    Mean,
    Reader,
    UnreadableStoreError,
)

__all__ = [
    "LISTS_EVERY_S",
    "MAX_SERIES",
    "ListGauges",
    "QualityGauges",
    "conversation_points",
    "corpus_points",
    "gap_points",
    "publish_gauges",
]

MAX_SERIES = 1_500
"""Scores by service, workflow and segment; of what is beyond there is no gauge. The SDK keeps 2,000 apart."""

LISTS_EVERY_S = 600.0
"""Seconds between two readings of a list: that of chunks takes some seconds."""

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
        self._observed: set[str] = set()

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
            # Nothing is known, so nothing is reported: an interval from 0 to 1 would look like a measurement.
            if value is not None and mean.estimate.method != "none":
                yield Observation(value, _attributes(key, mean))

    def _moment(self, name: str) -> Mapping[CellKey, Mean]:
        """Return the estimates of the present collection: a new one begins when an instrument asks again."""
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
                return {}  # it is away just now, as the server says elsewhere
        means: dict[CellKey, Mean] = {}
        for key, each in found.items():
            # Who has one keeps it: gauges that come and go would be none.
            if key in self._known or len(self._known) < MAX_SERIES:
                self._known.add(key)
                means[key] = each
        return means


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


Point = tuple[semconv.Instrument, float, Mapping[semconv.Term, str]]


class ListGauges:
    """Publishes what a list counts, which is read every `LISTS_EVERY_S`.

    Args:
        instruments: Those of the list.
        points: Reads the list; returns values and attributes.
        guard: Contains our own errors.
        clock: Seconds that never go back.
    """

    def __init__(
        self,
        instruments: Sequence[semconv.Instrument],
        points: Callable[[], Iterable[Point]],
        guard: AbstractContextManager[object],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._instruments, self._points = instruments, points
        self._guard, self._clock = guard, clock
        self._latest: Sequence[Point] = ()
        self._next = clock()

    def publish(self, provider: MeterProvider) -> None:
        """Register the instruments with a provider."""
        for one in self._instruments:
            provider.get_meter(semconv.SCOPE).create_observable_gauge(
                str(one.name), [partial(self._observe, one)], one.unit, one.description
            )

    def _observe(
        self, instrument: semconv.Instrument, _options: CallbackOptions
    ) -> Iterable[Observation]:
        if self._clock() >= self._next:
            self._next, self._latest = self._clock() + LISTS_EVERY_S, ()
            with self._guard, suppress(UnreadableStoreError):
                self._latest = list(self._points())
        for one, value, named in self._latest:
            if one is instrument:
                known = {str(name): clean(text, 256) for name, text in named.items() if text}
                yield Observation(value, known)


def gap_points(page: GapPage) -> Iterable[Point]:
    """Yield the size of each gap that is open; a list has ten at most."""
    for one in page.gaps:
        if one.state == "open":
            named = {
                semconv.GAP: one.id,
                semconv.DIAGNOSIS: one.diagnosis,
                semconv.LANGUAGE: one.language or "",
                semconv.SERVICE: one.service,
            }
            yield semconv.GAP_REQUESTS, one.n_bad, named


def corpus_points(report: ChunkReport) -> Iterable[Point]:
    """Yield the length of each list of chunks; of what nothing is known there is none."""
    known = {
        "bad": report.n_requests > 0,
        "unused": report.n_chunks > 0,
        "conflicts": report.n_compared > 0,
        # Without a date or a hash a store cannot say that nothing is stale.
        "stale": bool(report.stale) or min(report.undated or 0, report.unverified or 0) < 1,
    }
    for name, is_known in known.items():
        if is_known and report.n_chunks:
            yield semconv.CORPUS_CHUNKS, len(getattr(report, name)), {semconv.CORPUS_LIST: name}


def conversation_points(page: ConversationPage) -> Iterable[Point]:
    """Yield the share of conversations with a bad turn and its interval, where one has a verdict."""
    values = (page.share, page.lower, page.upper)
    for instrument, value in zip(semconv.CONVERSATION_INSTRUMENTS, values, strict=True):
        if value is not None:
            yield instrument, value, {}


def publish_gauges(
    provider: MeterProvider, reader: Reader, guard: AbstractContextManager[object]
) -> None:
    """Register what a store holds with a provider."""
    QualityGauges(reader.estimates, guard).publish(provider)
    weeks, day = Filters(range_s=GAPS_RANGE_S), Filters(range_s=86_400.0)
    for instruments, points in (
        ((semconv.GAP_REQUESTS,), lambda: gap_points(reader.gaps(weeks))),
        ((semconv.CORPUS_CHUNKS,), lambda: corpus_points(reader.chunks(weeks))),
        (
            semconv.CONVERSATION_INSTRUMENTS,
            lambda: conversation_points(reader.conversations(day, limit=1)),
        ),
    ):
        ListGauges(instruments, points, guard).publish(provider)
