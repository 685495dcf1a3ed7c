"""Comparisons with other retrievers on the same requests, the latest of each that applications export.

Held in memory: a meter exports its gauges every minute, so a new server soon has them again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from ragmeter.adapters.opentelemetry.otlp import attributes_of
from ragmeter.exporters import semconv
from ragmeter.metrics._process import fork
from ragmeter.quality.retriever_comparison import Word, word_of

from ._received import MAX_NAME, points_of

MOST_SHADOWS = 100
"""Most results to hold; the one with the oldest report is dropped first."""
_FIELDS = {
    str(one.name): field
    for one, field in zip(semconv.SHADOW_INSTRUMENTS, ("difference", "lower", "upper"), strict=True)
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ShadowView:
    """Another retriever compared on the same requests, by the latest report of one process."""

    service: str
    """The service that runs both; empty: unknown."""
    instance: str
    """The process, by its ``service.instance.id``; empty: unknown."""
    name: str
    """Name of the other retriever."""
    score: str
    """The compared score: ``lexical_context_relevance``, or with a judge ``judged_ndcg``."""
    difference: float
    """Mean of the other retriever's score minus that of the one in use."""
    lower: float
    """Lower end of its 95 % interval, which is valid for any number of looks."""
    upper: float
    """Upper end of that interval."""
    word: Word
    """``worse`` or ``nothing seen``; ``better`` takes a judge."""
    at_ms: int
    """Time of the report, milliseconds since the epoch."""


class ShadowBoard:
    """The latest results, at most `MOST_SHADOWS`. Thread-safe."""

    def __init__(self) -> None:
        self._latest: dict[tuple[str, ...], ShadowView] = {}
        self._lock = fork.lock()

    def take(self, request: ExportMetricsServiceRequest) -> None:
        """Store the results of an export; incomplete ones, without mean or interval, are ignored."""
        found: defaultdict[tuple[str, ...], dict[str, Any]] = defaultdict(dict)
        for resource, metric, point, value in points_of(request, _FIELDS):
            process, named = attributes_of(resource.attributes), attributes_of(point.attributes)
            names = (
                process.get("service.name", ""),
                process.get("service.instance.id", ""),
                named.get(semconv.SHADOW),
                named.get(semconv.GEN_AI_EVALUATION_NAME),
            )
            if -1 <= value <= 1 and all(isinstance(one, str) for one in names):
                one = found[tuple(str(one)[:MAX_NAME] for one in names)]
                one[_FIELDS[metric]] = value
                one["at_ms"] = point.time_unix_nano // 1_000_000
        with self._lock:
            for key, values in found.items():
                if len(values) <= len(_FIELDS):
                    continue
                service, instance, name, score = key
                self._latest.pop(key, None)
                self._latest[key] = ShadowView(
                    service=service, instance=instance, name=name, score=score,
                    word=word_of(score, values["lower"], values["upper"]), **values,
                )  # fmt: skip
                if len(self._latest) > MOST_SHADOWS:
                    del self._latest[next(iter(self._latest))]

    def shadows(self, service: str | None) -> Sequence[ShadowView]:
        """Return the results of a service, or of all, by service and name."""
        with self._lock:
            every = list(self._latest.values())
        wanted = [one for one in every if service in (None, one.service)]
        return sorted(wanted, key=lambda one: (one.service, one.name, one.instance, one.score))
