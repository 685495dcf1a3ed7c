"""The Collector configuration of docs/production.md, with a real Collector: it keeps the traces of bad requests."""

from live_app import SwitchableRetriever
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from otel_collector import ARRIVED_S, collecting, deciding_at_the_end, listening_here, shown_on, spans_of
from otlp_receiver import OtlpReceiver
from processes import wait_until
from rag_apps import QUESTION, TEXTS, langchain_chain

from ragmeter import RagMeter
from ragmeter.exporters.memory import InMemoryExporter
from ragmeter.exporters.otel import OpenTelemetryExporter

COUNT = 40


def test_the_bad_requests_of_an_application_with_a_meter_are_kept_and_few_others(collector_program, tmp_path):
    config = shown_on("production.md", "Keeping the traces of bad requests")
    http, _ = listening_here(config, "otlp")
    backend, everything = OtlpReceiver(), OtlpReceiver()
    config["exporters"]["otlp_http"]["endpoint"] = backend.url
    config["exporters"]["otlp_http/everything"] = {"endpoint": everything.url}
    config["service"]["pipelines"]["traces/everything"] = {
        "receivers": ["otlp"],
        "exporters": ["otlp_http/everything"],
    }
    deciding_at_the_end(config)
    with collecting(collector_program, config, tmp_path / "collector"):
        verdicts = ask_all(f"{http}/v1/traces")
        wait_until(
            lambda: {span.trace_id for span in spans_of(everything) if span.verdict} >= set(verdicts),
            ARRIVED_S,
            "not every request arrived",
        )
    bad = {trace for trace, word in verdicts.items() if word in ("bad", "suspect")}
    kept = {span.trace_id for span in spans_of(backend)}
    assert (len(verdicts), len(bad)) == (COUNT, COUNT // 4)
    assert bad <= kept < set(verdicts)
    for trace in bad:
        assert sum(span.trace_id == trace for span in spans_of(backend)) == sum(
            span.trace_id == trace for span in spans_of(everything)
        )
    backend.close()
    everything.close()


def ask_all(endpoint):
    """Ask a chain with ragmeter attached, which finds nothing for every fourth question; return its verdicts by trace."""
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint)))
    memory = InMemoryExporter()
    meter = RagMeter(exporters=[memory, OpenTelemetryExporter(tracer_provider=provider)])
    retriever = SwitchableRetriever()
    ask = langchain_chain(retriever, meter)
    for number in range(COUNT):
        retriever.found = TEXTS if number % 4 else ()
        with provider.get_tracer("shop").start_as_current_span("POST /ask"):
            ask(QUESTION)
    assert meter.flush(60)
    meter.shutdown(60)
    provider.shutdown()
    return {f"{one.run.trace_id:032x}": one.verdict.word for one in memory.results}
