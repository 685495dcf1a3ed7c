"""Finds the tracer, the logger and the meter: injected or global, and as late as possible.

An application may build its meter before it sets up its SDK, so nothing is decided
at construction: the tracer and the logger are asked for again whenever the provider has
changed; instruments are made once, as the API's proxies hand them over to the SDK.
Nothing is cached per module, so two exporters can serve two providers.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

from opentelemetry import _logs, metrics, trace

from ragmeter.exporters import semconv
from ragmeter.exporters._foreign import attribute_of
from ragmeter.exporters._span_targets import SpansAddress
from ragmeter.metrics.errors import DISTRIBUTION

from ._span_ids import PinnedIds
from ._straight import StraightWay, way_to

_DISABLED = "OTEL_SDK_DISABLED"
_API = ("opentelemetry.trace", "opentelemetry.metrics", "opentelemetry._logs")


class Providers:
    """The three providers of one exporter.

    Args:
        tracer_provider: Where spans go; None: the global provider.
        meter_provider: Where metrics go, likewise.
        logger_provider: Where events go, likewise.
    """

    def __init__(
        self,
        tracer_provider: trace.TracerProvider | None,
        meter_provider: metrics.MeterProvider | None,
        logger_provider: _logs.LoggerProvider | None,
    ) -> None:
        self._straight: StraightWay | None = None
        self._tracer_provider = tracer_provider
        self._meter_provider = meter_provider
        self._logger_provider = logger_provider
        named = ("traces", tracer_provider), ("metrics", meter_provider), ("logs", logger_provider)
        self.given: dict[str, object] = {
            signal: provider for signal, provider in named if provider is not None
        }
        self._version = version(DISTRIBUTION)
        self._tracer: tuple[trace.TracerProvider, trace.Tracer] | None = None
        self._logger: tuple[_logs.LoggerProvider, _logs.Logger] | None = None

    def tracer(self) -> trace.Tracer:
        """Return the tracer of the provider that is in force now."""
        provider = self.tracer_provider()
        if self._tracer is None or self._tracer[0] is not provider:
            tracer = provider.get_tracer(semconv.SCOPE, self._version)
            PinnedIds.install(tracer)
            self._tracer = (provider, tracer)
        return self._tracer[1]

    def send_straight(self, addresses: Sequence[SpansAddress]) -> None:
        """Send spans to `addresses` as long as the process has no SDK; nothing, if it has one."""
        if not _is_real(self.tracer_provider()):
            # Now and not when spans are due: as an interpreter ends, neither threads nor imports begin.
            self._straight = way_to(addresses)

    def send(self) -> None:
        """Send what no processor of the application sends.

        Raises:
            DeliveryError: It was not taken.
        """
        if self._straight is not None:
            self._straight.send()

    def shutdown(self) -> None:
        """Shut down the direct sender; the providers belong to the application."""
        if self._straight is not None:
            self._straight.provider.shutdown()

    def logger(self) -> _logs.Logger:
        """Return the logger of the provider that is in force now."""
        provider = self._loggers()
        if self._logger is None or self._logger[0] is not provider:
            logger = provider.get_logger(semconv.SCOPE, self._version)
            self._logger = (provider, logger)
        return self._logger[1]

    def meter(self) -> metrics.Meter:
        """Return a meter; instruments made from it follow the global provider once it is set."""
        return self.meter_provider().get_meter(semconv.SCOPE, self._version)

    def meter_provider(self) -> metrics.MeterProvider:
        """Return the meter provider that is in force now, perhaps the API's proxy."""
        return (
            metrics.get_meter_provider() if self._meter_provider is None else self._meter_provider
        )

    # A provider may be false, as a proxy or a container: asked is whether there is one.
    def tracer_provider(self) -> trace.TracerProvider:
        """Return the tracer provider that is in force now, perhaps the API's proxy."""
        given = self._tracer_provider
        provider = trace.get_tracer_provider() if given is None else given
        return provider if self._straight is None or _is_real(provider) else self._straight.provider

    def _loggers(self) -> _logs.LoggerProvider:
        return (
            _logs.get_logger_provider() if self._logger_provider is None else self._logger_provider
        )

    def deliver(self, *, spans: bool, events: bool, metrics: bool) -> bool:
        """Return whether any requested signal has an SDK's provider, not just the API's.

        The API's proxies and no-ops take everything and deliver nothing; a provider that the
        application sets later takes their place.
        """
        if os.environ.get(_DISABLED, "").strip().lower() == "true":
            return False
        return (
            (spans and _is_real(self.tracer_provider()))
            or (metrics and _is_real(self.meter_provider()))
            or (events and _is_real(self._loggers()))
        )

    def force_flush(self, timeout_s: float) -> bool:
        """Flush every SDK provider; those without the method hold nothing.

        Returns:
            False when something is still held after `timeout_s`. That is an answer, not an error,
            although the SDK's meter provider raises when its time is over.
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
                # Rounded up, so that the SDK's time is never over before ours.
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


def _is_real(provider: object) -> bool:
    # The API gives no other sign: its proxies and no-ops are all defined in its own packages.
    return not str(type(provider).__module__).startswith(_API)
