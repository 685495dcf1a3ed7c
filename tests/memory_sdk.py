"""The OpenTelemetry SDK with everything in memory."""

from types import SimpleNamespace
from typing import Any

from metric_points import points_of
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter


class _PatientReader(InMemoryMetricReader):
    """Collects thousands of points also on a busy machine, where the SDK gives up after 10 s."""

    def collect(self, timeout_millis: float = 600_000) -> None:
        super().collect(timeout_millis)


def memory_sdk(**of_spans: Any) -> SimpleNamespace:
    """Return the three providers, as arguments and one by one, and functions that return what they received.

    Args:
        of_spans: Arguments of the tracer provider.
    """
    spans, records, reader = InMemorySpanExporter(), InMemoryLogRecordExporter(), _PatientReader()
    tracer_provider, logger_provider = TracerProvider(**of_spans), LoggerProvider()
    tracer_provider.add_span_processor(SimpleSpanProcessor(spans))
    logger_provider.add_log_record_processor(SimpleLogRecordProcessor(records))
    providers = {
        "tracer_provider": tracer_provider,
        "meter_provider": MeterProvider([reader]),
        "logger_provider": logger_provider,
    }
    return SimpleNamespace(
        providers=providers,
        **providers,
        spans=lambda: {span.name: span for span in spans.get_finished_spans()},
        all_spans=spans.get_finished_spans,
        records=lambda: [item.log_record for item in records.get_finished_logs()],
        points=lambda: points_of(reader),
    )
