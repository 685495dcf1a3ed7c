"""Says so when nothing arrives, or when nothing that arrives can leave.

The commonest trouble with telemetry is none at all.  The meter looks here
whenever somebody reads its counters (a metrics exporter does so every minute): no thread, no timer.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence

from ragmeter.metrics.errors import install_command

__all__ = ["QUIET_S", "THREE_LINES", "Silence"]

logger = logging.getLogger("ragmeter")

QUIET_S = 300.0
"""Seconds without a request after which the first warning is due."""

THREE_LINES = """\
    provider = TracerProvider()  # of opentelemetry.sdk.trace
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    opentelemetry.trace.set_tracer_provider(provider)"""
"""What gives a process somewhere to send spans to."""


class Silence:
    """Remembers which adapters are attached since when, and warns once about silence.

    Args:
        clock: Monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._since: dict[str, float] = {}
        self._told = False
        self._told_undelivered = False

    def attached(self, adapter: str) -> None:
        """Note that an adapter waits for requests."""
        self._since.setdefault(adapter, self._clock())

    def check(self, captured: int) -> None:
        """Warn, once, when adapters have waited for long and nothing was captured."""
        if captured or self._told or not self._since:
            return
        waited = self._clock() - min(self._since.values())
        if waited >= QUIET_S:
            self._told = True
            logger.warning(
                "ragmeter is attached (%s) but has captured no request in %d s. Does the "
                "application retrieve through the framework, and is the handler passed to the call? "
                "`ragmeter doctor` checks the set-up.",
                ", ".join(sorted(self._since)),
                int(waited),
            )

    def undelivered(self, exporters: Sequence[str]) -> None:
        """Say, once and loudly, that these exporters have nowhere to write to."""
        if self._told_undelivered:
            return
        self._told_undelivered = True
        logger.error(
            "ragmeter: %s has nowhere to write to: the process has no OpenTelemetry SDK provider, or "
            "OTEL_SDK_DISABLED is true. Requests that no other exporter takes are neither scored nor "
            "judged, and counted as `no_provider`. To see scores, set up the SDK at the start of the "
            "application (%s):\n%s\n"
            "or start it as `opentelemetry-instrument python app.py`, or write a file instead: "
            'RagMeter(exporters=[JsonlExporter("scores.jsonl")]). A provider that is set later '
            "is found.",
            ", ".join(exporters),
            install_command("otlp"),
            THREE_LINES,
        )
