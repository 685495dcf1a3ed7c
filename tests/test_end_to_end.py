"""A real chain in an application with its own OpenTelemetry SDK, decoded from the wire."""

import pytest
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import SimpleLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from otlp_receiver import OtlpReceiver, attributes_of
from rag_chain import ANSWER, QUESTION, ask

from ragmeter import RagMeter
from ragmeter.exporters.memory import InMemoryExporter
from ragmeter.exporters.otel import OpenTelemetryExporter


class App:
    """An application that sends its telemetry to a receiver over OTLP/HTTP."""

    def __init__(self, url: str) -> None:
        self.tracers = TracerProvider()
        self.tracers.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter(endpoint=f"{url}/v1/traces")))
        self.logs = LoggerProvider()
        self.logs.add_log_record_processor(SimpleLogRecordProcessor(OTLPLogExporter(endpoint=f"{url}/v1/logs")))
        self.reader = PeriodicExportingMetricReader(
            OTLPMetricExporter(endpoint=f"{url}/v1/metrics"), export_interval_millis=3_600_000
        )
        self.metrics = MeterProvider(metric_readers=[self.reader])
        self.memory = InMemoryExporter()
        self.meter = RagMeter(
            references={QUESTION: {"answer": ANSWER, "context_ids": ["d1"]}},
            exporters=[
                OpenTelemetryExporter(
                    tracer_provider=self.tracers, logger_provider=self.logs, meter_provider=self.metrics
                ),
                self.memory,
            ],
        )

    def ask(self):
        with self.tracers.get_tracer("app").start_as_current_span("POST /ask") as span:
            (answer,) = ask(self.meter)
        assert self.meter.flush(60)
        self.metrics.force_flush()
        return answer, span

    def close(self):
        self.meter.shutdown(60)
        self.tracers.shutdown()
        self.logs.shutdown()
        self.metrics.shutdown()


@pytest.fixture
def receiver():
    receiver = OtlpReceiver()
    yield receiver
    receiver.close()


@pytest.fixture
def app(receiver):
    app = App(receiver.url)
    yield app
    app.close()


def _spans(receiver):
    return {span.name: span for span in receiver.spans}


def test_the_spans_sit_in_the_applications_trace_with_true_times_and_scores(app, receiver):
    answer, http = app.ask()

    spans = _spans(receiver)
    assert answer == ANSWER
    assert set(spans) == {"POST /ask", "invoke_workflow river_chain", "retrieval"}
    root = spans["POST /ask"]
    workflow = spans["invoke_workflow river_chain"]
    retrieval = spans["retrieval"]
    assert root.trace_id == workflow.trace_id == retrieval.trace_id
    assert root.trace_id == http.get_span_context().trace_id.to_bytes(16, "big")
    assert workflow.parent_span_id == root.span_id
    assert retrieval.parent_span_id == workflow.span_id
    assert (
        root.start_time_unix_nano
        <= workflow.start_time_unix_nano
        <= retrieval.start_time_unix_nano
        <= retrieval.end_time_unix_nano
        <= workflow.end_time_unix_nano
        <= root.end_time_unix_nano
    )
    on_retrieval, on_workflow = attributes_of(retrieval), attributes_of(workflow)
    assert on_retrieval["gen_ai.operation.name"] == "retrieval"
    assert on_retrieval["openinference.span.kind"] == "RETRIEVER"
    assert on_retrieval["ragmeter.score.context_count"] == 2.0
    assert on_retrieval["ragmeter.score.id_recall"] == 1.0
    assert on_retrieval["ragmeter.score.id_precision"] == 0.5
    assert on_workflow["gen_ai.operation.name"] == "invoke_workflow"
    assert on_workflow["ragmeter.score.token_f1"] == 1.0
    assert "ragmeter.score.token_f1" not in on_retrieval


def test_every_score_is_an_event_in_the_judged_spans_context(app, receiver):
    app.ask()

    spans = _spans(receiver)
    records = receiver.records
    by_name = {attributes_of(record)["gen_ai.evaluation.name"]: record for record in records}
    assert {record.event_name for record in records} == {"gen_ai.evaluation.result"}
    assert by_name["token_f1"].span_id == spans["invoke_workflow river_chain"].span_id
    retrieval = spans["retrieval"]
    assert by_name["id_recall"].span_id == retrieval.span_id
    assert by_name["id_recall"].trace_id == retrieval.trace_id
    assert attributes_of(by_name["id_recall"])["gen_ai.evaluation.score.value"] == 1.0
    assert all(record.time_unix_nano > 0 for record in records)


def test_the_score_histogram_points_at_the_trace(app, receiver):
    app.ask()

    points = [
        point
        for request in receiver.metric_requests
        for resource in request.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
        if metric.name == "gen_ai.evaluation.score"
        for point in metric.histogram.data_points
        if attributes_of(point)["gen_ai.evaluation.name"] == "id_precision"
    ]
    traces = {exemplar.trace_id for point in points for exemplar in point.exemplars}
    assert points[-1].sum == 0.5
    assert traces == {_spans(receiver)["POST /ask"].trace_id}
