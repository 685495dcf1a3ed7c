"""An application on LangChain and LlamaIndex with its own SDK, scored as ``RAGMETER_SCORING`` specifies.

It sends requests, prints its traces, and waits for a line before it adds references and people's labels.
"""

import json
import sys

from opentelemetry import _logs, metrics, trace
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from rag_apps import FRAMEWORKS, REFERENCE, asking

from ragmeter import RagMeter

EACH = 3
"""Requests with a reference, of each framework; one more gets its reference later."""


def say(what):
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


def main():
    tracers, loggers = TracerProvider(), LoggerProvider()
    tracers.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    loggers.add_log_record_processor(BatchLogRecordProcessor(OTLPLogExporter()))
    meters = MeterProvider([PeriodicExportingMetricReader(OTLPMetricExporter())])
    trace.set_tracer_provider(tracers)
    _logs.set_logger_provider(loggers)
    metrics.set_meter_provider(meters)
    meter = RagMeter.from_env()
    asked, later = {}, []
    for framework in FRAMEWORKS:
        for reference in [REFERENCE] * EACH + [None]:
            with (
                trace.get_tracer("shop").start_as_current_span("POST /ask") as span,
                asking(framework, meter, reference) as ask,
            ):
                ask()
            trace_id = span.get_span_context().trace_id
            asked[f"{trace_id:032x}"] = [framework, reference is not None]
            if reference is None:
                later.append(trace_id)
    assert meter.flush(60)
    tracers.force_flush()
    loggers.force_flush()
    say(asked)
    sys.stdin.readline()
    for trace_id in later:
        meter.attach_reference(trace_id, REFERENCE)
        meter.feedback(trace_id, "helpful", 1.0)
    meter.shutdown(60)
    say(meter.stats().dropped)
    for provider in (tracers, loggers, meters):
        provider.shutdown()


main()
