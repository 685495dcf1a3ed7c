"""Finds the tracer, the logger and the meter: injected or global, and as late as possible.

An application may build its meter before it sets up its SDK, so nothing is decided at construction: the
tracer and the logger are looked up again whenever the provider has changed; instruments are made once, as the
API's proxies forward them to the SDK. Nothing is cached per module, so two exporters can serve two providers.
If the process has no SDK, `way_to` makes a private provider that sends spans to a backend: nothing is
registered, so other libraries of the process neither see nor use it.

The spans' ids are a function of their content, so that sending one twice is harmless: backends store the
first of an id. The SDK gets ids from the tracer's public ``id_generator``; the tracer of ragmeter's scope
gets one that returns a pinned id if one is set (`PinnedIds`) and otherwise calls the application's generator.
Tracers without such an attribute, or with a read-only one, keep their own ids.
"""

from __future__ import annotations

import math
import os
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from opentelemetry import _logs, metrics, trace
from opentelemetry.trace import Tracer

from ragmeter.exporters import semconv
from ragmeter.exporters._foreign import attribute_of, set_attribute_of
from ragmeter.exporters._http import DeliveryError
from ragmeter.exporters._otlp import otlp_exporter
from ragmeter.exporters._span_targets import SpansAddress
from ragmeter.metrics.errors import DISTRIBUTION

_API = ("opentelemetry.trace", "opentelemetry.metrics", "opentelemetry._logs")
_TREE = (
    "provider _active_span_processor _span_processors _measurement_consumer _reader_storages "
    "_multi_log_record_processor _log_record_processors processor _batch_processor"
).split()
"""Non-public names under which the SDK's providers, and vendors' around them, hold processors and readers."""
_MOST_PARTS = 100


class Providers:
    """The three providers of one exporter.

    Args:
        tracer_provider: Destination of spans; None: the global provider.
        meter_provider: Destination of metrics, likewise.
        logger_provider: Destination of events, likewise.
    """

    def __init__(
        self,
        tracer_provider: trace.TracerProvider | None,
        meter_provider: metrics.MeterProvider | None,
        logger_provider: _logs.LoggerProvider | None,
    ) -> None:
        self._straight: StraightWay | None = None
        named = ("traces", tracer_provider), ("metrics", meter_provider), ("logs", logger_provider)
        # Compared with None, as a provider may be falsy, as a proxy or a container.
        self.given: dict[str, Any] = {signal: provider for signal, provider in named if provider is not None}
        self._version = version(DISTRIBUTION)
        self._tracer: tuple[trace.TracerProvider, trace.Tracer] | None = None
        self._logger: tuple[_logs.LoggerProvider, _logs.Logger] | None = None

    def tracer(self) -> trace.Tracer:
        """Return the tracer of the current provider."""
        provider = self.tracer_provider()
        if self._tracer is None or self._tracer[0] is not provider:
            tracer = provider.get_tracer(semconv.SCOPE, self._version)
            PinnedIds.install(tracer)
            self._tracer = (provider, tracer)
        return self._tracer[1]

    def send_straight(self, addresses: Sequence[SpansAddress]) -> None:
        """Send spans to `addresses` as long as the process has no SDK; do nothing if it has one."""
        if is_of_the_api(self.tracer_provider()):
            # Not only when spans are due: while an interpreter ends, neither threads nor imports can start.
            self._straight = way_to(addresses)

    def send(self) -> None:
        """Send the spans that no processor of the application sends.

        Raises:
            DeliveryError: They were not accepted.
        """
        if self._straight is not None:
            self._straight.send()

    def shutdown(self) -> None:
        """Shut down the direct sender; the providers belong to the application."""
        if self._straight is not None:
            self._straight.provider.shutdown()

    def logger(self) -> _logs.Logger:
        """Return the logger of the current provider."""
        provider = self._loggers()
        if self._logger is None or self._logger[0] is not provider:
            self._logger = (provider, provider.get_logger(semconv.SCOPE, self._version))
        return self._logger[1]

    def meter(self) -> metrics.Meter:
        """Return a meter; instruments made from it follow the global provider once it is set."""
        return self.meter_provider().get_meter(semconv.SCOPE, self._version)

    def meter_provider(self) -> metrics.MeterProvider:
        """Return the current meter provider, perhaps the API's proxy."""
        given: metrics.MeterProvider | None = self.given.get("metrics")
        return metrics.get_meter_provider() if given is None else given

    def measure(self) -> bool:
        """Return whether metrics have an SDK's provider that passes on what it receives."""
        return _passes_on(self.meter_provider())

    def tracer_provider(self) -> trace.TracerProvider:
        """Return the current tracer provider, perhaps the API's proxy."""
        given: trace.TracerProvider | None = self.given.get("traces")
        provider = trace.get_tracer_provider() if given is None else given
        return self._straight.provider if self._straight is not None and is_of_the_api(provider) else provider

    def _loggers(self) -> _logs.LoggerProvider:
        given: _logs.LoggerProvider | None = self.given.get("logs")
        return _logs.get_logger_provider() if given is None else given

    def deliver(self, *, spans: bool, events: bool, metrics: bool) -> bool:
        """Return whether any requested signal has an SDK's provider that passes on what it receives.

        The API's proxies and no-ops accept everything and deliver nothing, like an SDK's provider without
        processors; a provider or processor that the application sets later counts.
        """
        if os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
            return False
        return (
            (spans and _passes_on(self.tracer_provider()))
            or (metrics and self.measure())
            or (events and _passes_on(self._loggers()))
        )

    def has_ended(self) -> bool:
        """Return whether the tracer provider is known to have been shut down."""
        return _has_ended(_receivers(self.tracer_provider()))

    def force_flush(self, timeout_s: float) -> bool:
        """Flush every SDK provider; those without the method have no buffer.

        Returns:
            False if something is still buffered after `timeout_s`, also when the SDK's meter provider raises
            because of its timeout.
        """
        done = True
        deadline = time.monotonic() + timeout_s
        for provider in (self.tracer_provider(), self._loggers(), self.meter_provider()):
            flush: Any = attribute_of(provider, "force_flush")
            if not callable(flush):
                continue
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                return False
            try:
                # Rounded up, so that the SDK's timeout never ends before this one.
                done = _flush(flush, math.ceil(left_s * 1000)) is not False and done
            except Exception:
                if time.monotonic() < deadline:
                    raise
                return False
        return done


def _flush(flush: Any, timeout_millis: int) -> object:
    try:
        return flush(timeout_millis=timeout_millis)
    except TypeError:  # only the SDK's own has that argument
        return flush()


def is_of_the_api(provider: object) -> bool:
    """Return whether a provider is one of the API's proxies and no-ops, all defined in its own packages."""
    return str(type(provider).__module__).startswith(_API)


def _passes_on(provider: object) -> bool:
    """Return whether a provider is an SDK's, unless it is known to have no receiver, or only ones shut down."""
    ends = _receivers(provider)
    return (ends is None or bool(ends)) and not _has_ended(ends) and not is_of_the_api(provider)


def _has_ended(ends: Sequence[object] | None) -> bool:
    known = [end for end in ends or () if isinstance(end, bool)]
    return bool(known) and all(known)


def _receivers(provider: object) -> list[object] | None:
    """Return whether each receiver of a provider was shut down, as it says; None: too many to look at."""
    parts, ends = [provider], list[object]()
    for part in parts:
        if str(type(part).__module__).split(".")[:2] == ["ragmeter", "adapters"]:
            continue  # it only reads
        held = attribute_of(part, "__dict__")
        own: Mapping[str, object] = held if isinstance(held, dict) else {}
        inner = [one for one in map(own.get, _TREE) if one is not None]
        if not inner:
            ends.append(attribute_of(part, "_shutdown"))
        for one in inner:
            parts.extend(one if isinstance(one, (tuple, list, dict)) else [one])
        if len(parts) > _MOST_PARTS:
            return None
    return ends


class StraightWay(NamedTuple):
    """A private provider, and the SDK's exporters that receive its spans."""

    provider: Any
    spans: list[Any]
    """Ended spans that are not sent yet."""
    exporters: Sequence[Any]

    def send(self) -> None:
        """Send the ended spans, on the thread of the exporter that wrote them.

        Raises:
            DeliveryError: They were not accepted; the SDK has logged why.
        """
        spans = self.spans[:]
        del self.spans[: len(spans)]
        refused = [one for one in self.exporters if spans and one.export(spans).name != "SUCCESS"]
        if refused:
            raise DeliveryError(f"{len(spans)} spans were not taken")


def way_to(addresses: Sequence[SpansAddress]) -> StraightWay | None:
    """Return a `StraightWay` to `addresses`; None if the extra ``otlp`` is not installed."""
    try:
        exporters = [
            otlp_exporter("traces", "http/protobuf", endpoint=one.url, headers=dict(one.headers))
            for one in addresses
        ]
        from opentelemetry.sdk.resources import Resource  # noqa: PLC0415
        from opentelemetry.sdk.trace import SpanProcessor, TracerProvider  # noqa: PLC0415
    except ImportError:
        return None
    resource = Resource.create()
    script = Path(sys.argv[0] if sys.argv else "").stem.strip("-")
    if script and str(resource.attributes["service.name"]).startswith("unknown_service"):
        resource = resource.merge(Resource({"service.name": script}))
    for address in addresses:
        resource = resource.merge(Resource(dict(address.resource)))
    way = StraightWay(TracerProvider(resource=resource, shutdown_on_exit=False), [], exporters)

    class Collecting(SpanProcessor):
        def on_end(self, span: Any) -> None:
            way.spans.append(span)

        def shutdown(self) -> None:
            for exporter in way.exporters:
                exporter.shutdown()

    way.provider.add_span_processor(Collecting())
    return way


def evaluation_span_id(
    trace_id: int,
    span_id: int,
    scores: Iterable[tuple[str, str]],
    *,
    run_id: str,
    late: bool,
    revision: str = "",
) -> int:
    """Return the id of the evaluation span about one judged span: 64 bits, never 0.

    Args:
        trace_id: The trace.
        span_id: The judged span.
        scores: Name and definition of each score.
        run_id: The request, as several may share the application's span around them.
        late: Whether the scores came after the first export.
        revision: Number of the late revision, if the request was amended.
    """
    parts = [f"{trace_id:032x}", f"{span_id:016x}", *sorted("=".join(pair) for pair in scores)]
    when = f"late {revision}".rstrip() if late else "first"
    key = "\n".join([*parts, run_id, when])
    digest = blake2b(key.encode("utf-8", "replace"), digest_size=8).digest()
    return int.from_bytes(digest, "big") or 1


class PinnedIds:
    """An id generator whose next span id can be set, for the calling thread only."""

    def __init__(self, generator: Any) -> None:
        self._generator = generator
        self._pinned = threading.local()

    @staticmethod
    def install(tracer: Tracer) -> None:
        """Set a pinning generator on `tracer`, or on what it wraps; one that refuses it keeps its own ids."""
        generator = attribute_of(tracer, "id_generator")
        if isinstance(generator, PinnedIds) or not attribute_of(generator, "generate_span_id"):
            return
        pinned = PinnedIds(generator)
        for holder in (tracer, attribute_of(tracer, "__wrapped__")):
            set_attribute_of(holder, "id_generator", pinned)
            if attribute_of(tracer, "id_generator") is pinned:
                return

    @staticmethod
    @contextmanager
    def pin(tracer: Tracer, span_id: int) -> Iterator[None]:
        """Set the id of the next span that this thread starts from `tracer`, if possible."""
        generator = attribute_of(tracer, "id_generator")
        if not isinstance(generator, PinnedIds):
            yield
            return
        generator._pinned.span_id = span_id  # noqa: SLF001 -- its own class
        try:
            yield
        finally:
            generator._pinned.span_id = None  # noqa: SLF001 -- its own class

    def generate_span_id(self) -> int:
        """Return the pinned id once, then the application's."""
        pinned: int | None = getattr(self._pinned, "span_id", None)
        if pinned is not None:
            self._pinned.span_id = None
            return pinned
        return int(self._generator.generate_span_id())

    def __getattr__(self, name: str) -> Any:
        return getattr(self._generator, name)
