"""`Server`: what comes in over the network is scored, and it ends in order."""

import json

import httpx
import pytest
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from served import FULL, PATIENCE_S, served, until

from ragmeter import RagMeter, RagSample
from ragmeter.cli.spans import read_recording
from ragmeter.exporters.otel import OpenTelemetryExporter
from ragmeter.serve import ServeOptions, Server

PROTOBUF = {"Content-Type": "application/x-protobuf"}


def test_spans_that_are_sent_become_scored_requests():
    with served() as server:
        answer = httpx.post(f"{server.url}/v1/traces", content=FULL.read_bytes(), headers=PROTOBUF, timeout=60)

        assert (answer.status_code, answer.content) == (200, b"")
        [scored] = server.drained()

    assert scored.scores["context_count"].value == 2.0
    assert server.stats()["spans"] == {"read": 11}
    assert server.stats()["requests"] == {"scored": 1}


def test_a_request_that_the_application_scored_itself_is_not_scored_again():
    """Whether ragmeter's spans stand beside another's or are the only ones of the request."""
    with served() as server:
        provider = TracerProvider(shutdown_on_exit=False)
        kept = InMemorySpanExporter()  # sent in one piece, below
        provider.add_span_processor(SimpleSpanProcessor(kept))
        meter = RagMeter(exporters=[OpenTelemetryExporter(tracer_provider=provider)])
        tracer = provider.get_tracer("app")
        with tracer.start_as_current_span("ask") as request:
            request.set_attribute("openinference.span.kind", "CHAIN")
            request.set_attribute("input.value", "How long do refunds take?")
            with tracer.start_as_current_span("search") as retrieval:
                retrieval.set_attribute("openinference.span.kind", "RETRIEVER")
                retrieval.set_attribute("retrieval.documents.0.document.content", "14 days.")
            request.set_attribute("output.value", "14 days.")
            meter.submit(RagSample(question="How long?", contexts=["14 days."], answer="14 days."))
        meter.shutdown(PATIENCE_S)
        spans = kept.get_finished_spans()
        assert {span.instrumentation_scope.name for span in spans} == {"app", "ragmeter"}
        exporter = OTLPSpanExporter(endpoint=f"{server.url}/v1/traces")
        assert exporter.export(spans).name == "SUCCESS"

        assert server.drained() == []
        stats = server.stats()

    assert stats["requests"] == {"captured": 1}
    assert stats["spans"] == {"read": 2, "own": len(spans) - 2}


@pytest.mark.contains_errors
def test_an_error_of_ours_is_the_senders_business_no_more_than_that(monkeypatch):
    with served() as server:
        monkeypatch.setattr(
            server.server.intake, "take", lambda *_, **__: (_ for _ in ()).throw(KeyError("SECRET"))
        )
        answer = httpx.post(f"{server.url}/v1/traces", content=FULL.read_bytes(), headers=PROTOBUF, timeout=60)

        assert answer.status_code == 500
        assert b"SECRET" not in answer.content
        assert server.stats()["exports"] == {"error": 1}


def test_references_are_read_from_a_file(tmp_path, monkeypatch):
    monkeypatch.delenv("OTEL_EXPORTER_OTLP_ENDPOINT", raising=False)
    scores = tmp_path / "scores.jsonl"
    monkeypatch.setenv("RAGMETER_JSONL", str(scores))
    [found] = read_recording([FULL]).requests
    references = tmp_path / "references.jsonl"
    references.write_text(json.dumps({"question": found.question, "answer": found.answer}))
    server = Server(ServeOptions(http_port=0, grpc_port=0, references=str(references)))
    server.start()
    httpx.post(
        f"http://127.0.0.1:{server.http_port}/v1/traces",
        content=FULL.read_bytes(),
        headers=PROTOBUF,
        timeout=60,
    ).raise_for_status()
    until(lambda: scores.exists() and scores.read_text())
    server.meter.feedback(json.loads(scores.read_text())["run_id"], "thumbs_up", 1.0)
    assert server.stop(PATIENCE_S)

    assert server.meter.stats().amendments == {"unknown": 1}, "held for nothing that a server does"
    [row] = [json.loads(line) for line in scores.read_text("utf-8").splitlines()]
    assert row["scores"]["token_f1"]["value"] == 1.0
