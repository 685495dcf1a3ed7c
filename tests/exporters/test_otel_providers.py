"""Global providers set late, no SDK at all, a disabled SDK: each in an interpreter of its own."""

import textwrap

from python_process import run_python


def run(code, **environment):
    """Run `code` in a fresh interpreter; it prints what the test looks at."""
    import os

    done = run_python("-I", "-W", "error", "-c", textwrap.dedent(code), env={**os.environ, **environment})
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr, done.stderr
    return done.stdout.strip().splitlines()


RUN = """
from ragmeter import RagMeter, RagRun, Retrieval, ScoredRun
from ragmeter.exporters.otel import OpenTelemetryExporter
from ragmeter.exporters.protocol import MeterStats
from ragmeter.metrics import RagSample, Score
from ragmeter.metrics.judge.protocol import JudgeCall

def scored(n=0):
    score = Score(name="recall", value=0.5, status="ok", method="exact", definition="1")
    retrieval = Retrieval(started_ns=1, ended_ns=2)
    sample = RagSample(question="q", contexts=("c",), answer="a", name="bot")
    run = RagRun(sample=sample, run_id=str(n), framework="manual", started_ns=1, ended_ns=2,
                 retrievals=(retrieval,))
    return ScoredRun(run=run, scores={"recall": score})

CALL = JudgeCall("recall", "m", 1.0, 1, 1)
"""
SDK = """
import os, time
from opentelemetry import trace, metrics, _logs
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor
spans, logs, reader, tracers = InMemorySpanExporter(), InMemoryLogRecordExporter(), InMemoryMetricReader(), TracerProvider()
tracers.add_span_processor(SimpleSpanProcessor(spans))
"""


def test_providers_that_the_application_sets_later_are_found():
    """The meter is built, used, and only then the SDK is configured: nothing is stuck on no-ops."""
    lines = run(
        RUN
        + """
exporter = OpenTelemetryExporter()
exporter.observe_meter(lambda: MeterStats(captured=7))
exporter.export([scored(0)])
exporter.judge_called(CALL)
"""
        + SDK
        + """
trace.set_tracer_provider(tracers)
_logs.set_logger_provider(LoggerProvider())
_logs.get_logger_provider().add_log_record_processor(SimpleLogRecordProcessor(logs))
metrics.set_meter_provider(MeterProvider([reader]))

exporter.export([scored(1)])
second = OpenTelemetryExporter()
second.observe_meter(lambda: MeterStats(captured=5))
print(sorted(span.name for span in spans.get_finished_spans()))
print(len(logs.get_finished_logs()))
data = reader.get_metrics_data().resource_metrics[0].scope_metrics
found = {m.name: m.data.data_points[0] for scope in data for m in scope.metrics}
print(found["ragmeter.requests"].value, found["ragmeter.captured"].value)
"""
    )

    assert lines == ["['invoke_workflow bot', 'retrieval']", "1", "1 12"]


def test_without_an_sdk_everything_is_a_cheap_no_op():
    """No SDK importable: nothing fails, and no text is even looked at, let alone built into spans."""
    lines = run(
        """
import sys
class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.startswith("opentelemetry.sdk"):
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Blocker())
"""
        + RUN
        + """
exporter = OpenTelemetryExporter(events="both", capture_content=True)
exporter.observe_meter(lambda: MeterStats())
exporter.export([scored(n) for n in range(100)])
exporter.judge_called(CALL)
print(exporter.flush(60), "opentelemetry.sdk" in sys.modules)
exporter.shutdown(60)
"""
    )

    assert lines == ["True False"]


def test_a_disabled_sdk_is_respected():
    """OTEL_SDK_DISABLED=true: the application's providers do nothing, and so do we."""
    lines = run(
        RUN
        + SDK
        + """
exporter = OpenTelemetryExporter(tracers, MeterProvider([reader]), LoggerProvider())
exporter.export([scored()])
print(len(spans.get_finished_spans()), reader.get_metrics_data())
""",
        OTEL_SDK_DISABLED="true",
    )

    assert lines == ["0 None"]


def test_a_forked_child_exports_on_its_own():
    """gunicorn --preload: locks that a thread of the parent held do not hang the child."""
    lines = run(
        RUN
        + SDK
        + """
exporter = OpenTelemetryExporter(tracers)
with exporter._directory._changed, exporter._metrics._lock, exporter._metrics._limiter._lock:
    child = os.fork()
    if child == 0:
        exporter.export([scored()])
        os._exit(len(spans.get_finished_spans()))
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    )

    assert lines == ["2"]


SLOW_TO_FLUSH = """
class Refusing(InMemoryMetricReader):
    def force_flush(self, timeout_millis=30000):
        raise ValueError("refused")

def slow(options):
    time.sleep(0.1)
    return []

slow_to_collect = MeterProvider([InMemoryMetricReader()])
for name in ("first", "second"):
    slow_to_collect.get_meter("app").create_observable_gauge(name, [slow])
"""


def test_flushing_for_less_time_than_the_providers_need_is_no_error():
    """The SDK's meter provider raises when its time is over; to us that is "not yet"."""
    lines = run(
        RUN
        + SDK
        + SLOW_TO_FLUSH
        + """
exporter = OpenTelemetryExporter(meter_provider=slow_to_collect)
print(exporter.flush(0), exporter.flush(0.0001), exporter.flush(0.05), exporter.flush(60))
meter = RagMeter(exporters=[exporter])
print(meter.flush(0.05), meter.stats().internal_errors)
meter.shutdown()
"""
    )

    assert lines == ["False False False True", "False {}"]


def test_a_provider_that_refuses_to_flush_in_time_is_an_error():
    lines = run(
        RUN
        + SDK
        + SLOW_TO_FLUSH
        + """
exporter = OpenTelemetryExporter(
    tracer_provider=TracerProvider(), meter_provider=MeterProvider([Refusing()])
)
try:
    exporter.flush(60)
except Exception as error:
    print("refused" in str(error))
"""
    )

    assert lines == ["True"]
