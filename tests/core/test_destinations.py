"""Nothing is scored or judged that no exporter can deliver, and somebody is told."""

import logging
import os
from io import StringIO
from types import SimpleNamespace

import pytest
from fakes_core import FakeJudge, GatedMetric, context_tally
from memory_sdk import memory_sdk
from opentelemetry import metrics, trace
from opentelemetry._logs import NoOpLoggerProvider
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor, InMemoryLogRecordExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import ConsoleMetricExporter, PeriodicExportingMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from python_process import run_python

from ragmeter import RagMeter, Sampling
from ragmeter.adapters.opentelemetry import RagMeterSpanProcessor
from ragmeter.exporters.jsonl import JsonlExporter
from ragmeter.exporters.memory import InMemoryExporter
from ragmeter.exporters.otel import OpenTelemetryExporter
from ragmeter.metrics import RagSample, metric

SAMPLE = RagSample(question="q", contexts=["a"])


@pytest.fixture
def no_providers(monkeypatch):
    """The API's own providers, as in a process without the SDK."""
    monkeypatch.setattr(trace, "get_tracer_provider", trace.ProxyTracerProvider)
    monkeypatch.setattr(metrics, "get_meter_provider", metrics.NoOpMeterProvider)
    monkeypatch.setattr("opentelemetry._logs.get_logger_provider", NoOpLoggerProvider)


class Counting:
    """A judge, a judged and a free metric that count what they are asked."""

    def __init__(self):
        self.asked = 0

    def meter(self, **arguments):
        counting = self

        @metric
        def free(sample):
            counting.asked += 1
            return 1.0

        return RagMeter(metrics=[free], **arguments)


def test_without_a_provider_nothing_is_scored_and_it_is_said_once(no_providers, caplog):
    counting = Counting()
    with caplog.at_level(logging.WARNING, "ragmeter"), counting.meter() as meter:
        for _ in range(5):
            meter.submit(SAMPLE)
        assert meter.flush(60)
        stats = meter.stats()

    assert counting.asked == 0
    assert (stats.captured, stats.exported, stats.in_flight) == (5, 0, 0)
    assert stats.dropped == {"no_provider": 5}
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    for words in ("TracerProvider()", "add_span_processor", "set_tracer_provider", "no_provider", "(provider)"):
        assert words in record.message


def test_the_lines_that_are_said_can_be_pasted_and_fix_it(no_providers, caplog):
    """In a fresh process: after them, the same meter has somewhere to write to."""
    with caplog.at_level(logging.WARNING, "ragmeter"), RagMeter() as meter:
        meter.submit(SAMPLE)
        assert meter.flush(60)
    message = caplog.records[0].message
    assert 'RagMeter(exporters="console")' in message
    lines = [line.strip() for line in message.splitlines() if line.startswith("    ")]
    program = [*lines, "from ragmeter.exporters.otel import OpenTelemetryExporter"]
    program.append("assert OpenTelemetryExporter().delivers()")
    done = run_python(
        "-c",
        "\n".join(program),
        env={**os.environ, "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"},
        timeout=120,
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert len([line for line in lines if line and "import" not in line]) == 3


def test_the_judge_is_not_paid_for_what_nobody_gets(no_providers):
    import threading

    gate = threading.Event()
    gate.set()
    asked = []

    class Asked(GatedMetric):
        async def measure(self, sample, judge):
            asked.append(sample)
            return await super().measure(sample, judge)

    with RagMeter(metrics=[context_tally, Asked(gate)], judge=FakeJudge()) as meter:
        meter.submit(SAMPLE)
        assert meter.flush(60)
        assert meter.stats().dropped == {"no_provider": 1}
    assert asked == []


def test_a_provider_that_is_set_later_is_found(no_providers, monkeypatch):
    sdk = memory_sdk()
    with RagMeter(metrics=[context_tally]) as meter:
        meter.submit(SAMPLE)
        assert meter.flush(60)
        monkeypatch.setattr(trace, "get_tracer_provider", lambda: sdk.tracer_provider)
        meter.submit(SAMPLE)
        assert meter.flush(60)
        stats = meter.stats()

    assert (stats.captured, stats.exported, stats.dropped) == (2, 1, {"no_provider": 1})
    assert len(sdk.all_spans()) == 1


@pytest.mark.contains_errors
def test_scores_that_come_after_the_providers_end_are_no_exported_ones(no_providers, caplog):
    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(InMemorySpanExporter()))

    @metric
    def slow(sample: RagSample) -> float:
        provider.shutdown()
        return 1.0

    with RagMeter(metrics=[slow], exporters=[OpenTelemetryExporter(provider)]) as meter:
        meter.submit(SAMPLE)
        meter.flush(60)
        stats = meter.stats()

    assert (stats.exported, stats.dropped) == (0, {"export": 1})
    assert "call meter.flush()" in caplog.text


@pytest.mark.parametrize("other", ["memory", "jsonl"])
def test_exporters_of_another_kind_need_no_provider(no_providers, other, tmp_path, caplog):
    """They get everything; what the one without a provider lost is counted under its name."""
    memory = InMemoryExporter()
    sink = memory if other == "memory" else JsonlExporter(tmp_path / "scores.jsonl")
    with RagMeter(metrics=[context_tally], exporters=[OpenTelemetryExporter(), sink]) as meter:
        meter.submit(SAMPLE)
        assert meter.flush(60)
        stats = meter.stats()

    assert (stats.exported, stats.dropped) == (1, {})
    assert stats.export_errors == {"OpenTelemetryExporter:no_provider": 1}
    assert "the other exporters get every score" in caplog.text
    assert "TracerProvider()" not in caplog.text


def test_an_application_that_only_collects_metrics_is_delivered_to(no_providers):
    exporter = OpenTelemetryExporter(meter_provider=memory_sdk().meter_provider)
    with RagMeter(metrics=[context_tally], exporters=[exporter]) as meter:
        meter.submit(SAMPLE)
        assert meter.flush(60)
        assert meter.stats().exported == 1


@pytest.mark.parametrize(
    ("options", "delivers"),
    [({}, True), ({"span_mode": "off"}, False), ({"span_mode": "off", "events": "off"}, False)],
)
def test_a_provider_counts_only_for_what_is_written(no_providers, options, delivers):
    provider = memory_sdk().tracer_provider
    exporter = OpenTelemetryExporter(tracer_provider=provider, metrics=False, **options)

    assert exporter.delivers() is delivers


def batched(signal):
    """An SDK's provider of a signal, as applications set it up."""
    if signal == "traces":
        provider = TracerProvider()
        provider.add_span_processor(BatchSpanProcessor(InMemorySpanExporter()))
        return provider
    if signal == "logs":
        provider = LoggerProvider()
        provider.add_log_record_processor(BatchLogRecordProcessor(InMemoryLogRecordExporter()))
        return provider
    return MeterProvider([PeriodicExportingMetricReader(ConsoleMetricExporter(StringIO()))])


@pytest.mark.parametrize(
    ("argument", "empty", "signal"),
    [
        ("tracer_provider", TracerProvider, "traces"),
        ("meter_provider", MeterProvider, "metrics"),
        ("logger_provider", LoggerProvider, "logs"),
    ],
)
def test_a_provider_delivers_while_it_passes_on_what_it_receives(no_providers, argument, empty, signal):
    """As after `OTEL_TRACES_EXPORTER=none`, and after the last line of a script, `provider.shutdown()`."""
    without = OpenTelemetryExporter(**{argument: empty()})
    provider = batched(signal)
    exporter = OpenTelemetryExporter(**{argument: provider})
    # As Logfire's.
    around = OpenTelemetryExporter(
        **{argument: SimpleNamespace(provider=provider, get_meter=metrics.get_meter)}
    )

    assert (without.delivers(), exporter.delivers(), around.delivers()) == (False, True, True)
    provider.shutdown()
    assert (exporter.delivers(), around.delivers()) == (False, False)


def test_a_processor_that_only_reads_delivers_nothing(no_providers):
    provider = TracerProvider()
    exporter = OpenTelemetryExporter(tracer_provider=provider)
    with RagMeter(metrics=[context_tally], exporters=[exporter]) as meter:
        RagMeterSpanProcessor(meter).attach(provider)
        assert exporter.delivers() is False
        provider.add_span_processor(SimpleSpanProcessor(InMemorySpanExporter()))
        assert exporter.delivers() is True


def test_a_disabled_sdk_delivers_nothing(monkeypatch):
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")

    assert OpenTelemetryExporter(tracer_provider=TracerProvider()).delivers() is False


def test_whoever_reads_the_explanations_is_a_destination(no_providers, caplog):
    with caplog.at_level(logging.DEBUG, "ragmeter.explain"), Counting().meter() as meter:
        meter.submit(SAMPLE)
        assert meter.flush(60)
        assert meter.stats().exported == 1


def test_no_exporters_at_all_is_what_was_asked_for():
    with RagMeter(metrics=[context_tally], exporters=[]) as meter:
        meter.submit(SAMPLE)
        assert meter.flush(60)
        assert meter.stats().exported == 1


@pytest.mark.contains_errors
def test_an_exporter_that_fails_to_say_is_taken_to_deliver(contained_errors):
    class Unsure(InMemoryExporter):
        def delivers(self):
            raise RuntimeError("cannot tell")

        def measure(self, scored):
            raise RuntimeError("cannot measure")

    unsure = Unsure()
    with RagMeter(
        metrics=[context_tally], exporters=[unsure], sample_rate=0.0, sampling=Sampling(keep="worst")
    ) as meter:
        meter.submit(SAMPLE)
        meter.submit(SAMPLE.model_copy(update={"contexts": ()}))
        assert meter.flush(60)
        stats = meter.stats()

    assert (stats.exported, stats.dropped) == (1, {"sampled_out": 1})
    assert {component for component, _ in contained_errors} == {"exporter.delivers", "exporter.measure"}
