"""What really leaves: the stock OTLP/HTTP exporters send to a real receiver, which decodes it."""

import json
from types import SimpleNamespace

import pytest
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from test_otel_events import EXPECTED
from test_otel_spans import (
    ANSWER_SCORES,
    ITEMS,
    REQUEST,
    RETRIEVAL,
    RETRIEVAL_SCORES,
    SECOND,
    WORKFLOW,
    messages,
    shown,
)

from ragmeter.exporters.otel import OpenTelemetryExporter
from ragmeter.metrics.judge.protocol import JudgeCall


@pytest.fixture
def wire(otlp):
    """An application's own SDK that sends everything to the receiver, compressed."""
    gzip = {"compression": Compression.Gzip}
    tracers = TracerProvider()
    tracers.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=f"{otlp.url}/v1/traces", **gzip)))
    loggers = LoggerProvider()
    loggers.add_log_record_processor(
        BatchLogRecordProcessor(OTLPLogExporter(endpoint=f"{otlp.url}/v1/logs", **gzip))
    )
    meters = MeterProvider(
        [PeriodicExportingMetricReader(OTLPMetricExporter(endpoint=f"{otlp.url}/v1/metrics", **gzip))]
    )
    yield SimpleNamespace(tracer_provider=tracers, logger_provider=loggers, meter_provider=meters)
    for provider in (tracers, loggers, meters):
        provider.shutdown()


def send(wire, *runs, **options):
    exporter = OpenTelemetryExporter(**vars(wire), **options)
    exporter.export(runs)
    exporter.judge_called(JudgeCall("faithfulness", "gpt-x", 1.0, 10, 2))
    assert exporter.flush(60)


def test_the_two_spans_arrive_in_the_applications_trace(wire, otlp, make):
    """True times, parents, kinds and scores as doubles, decoded from compressed protobuf."""
    with wire.tracer_provider.get_tracer("app").start_as_current_span("GET /ask") as app:
        parent = app.get_span_context()
    send(wire, make.scored_run(parent=parent))
    spans = {span.name: span for span in otlp.spans}
    app_span = spans["GET /ask"]
    workflow, retrieval = spans["invoke_workflow support_bot"], spans["retrieval handbook"]

    assert set(otlp.encodings) == {"gzip"}
    assert workflow.trace_id == retrieval.trace_id == app_span.trace_id
    assert workflow.parent_span_id == app_span.span_id
    assert retrieval.parent_span_id == workflow.span_id
    assert workflow.start_time_unix_nano == make.t0
    assert workflow.end_time_unix_nano == make.t0 + 100 * make.ms
    assert (workflow.kind, retrieval.kind) == (1, 3)
    scores = otlp.attributes_of(retrieval)
    assert scores["ragmeter.score.context_precision"] == 0.73
    assert scores["gen_ai.retrieval.top_k"] == 2
    (scope,) = {
        (scope.scope.name, scope.schema_url)
        for request in otlp.traces
        for resource in request.resource_spans
        for scope in resource.scope_spans
        if scope.scope.name == "ragmeter"
    }
    assert scope[1] == ""  # the schema of the GenAI names is not published


def test_events_arrive_as_log_records_with_name_time_and_context(wire, otlp, make):
    """event_name is OTLP's own field; the record points at the retrieval span."""
    send(wire, make.scored_run())
    retrieval = next(span for span in otlp.spans if span.name == "retrieval handbook")
    assert len(otlp.records) == len(EXPECTED)  # a score that lacks an input is no result
    record = next(r for r in otlp.records if r.body.string_value == "context_precision=0.73")

    assert record.event_name == "gen_ai.evaluation.result"
    assert (record.trace_id, record.span_id) == (retrieval.trace_id, retrieval.span_id)
    assert record.time_unix_nano > 0
    assert (record.severity_number, record.severity_text) == (9, "INFO")
    assert otlp.attributes_of(record)["gen_ai.evaluation.score.value"] == 0.73


def test_metrics_arrive_with_units_buckets_and_exemplars(wire, otlp, make):
    """The exemplar's ids are those of the judged span."""
    send(wire, make.scored_run())
    retrieval = next(span for span in otlp.spans if span.name == "retrieval handbook")
    histogram = otlp.metrics["gen_ai.evaluation.score"]
    point = next(
        point
        for point in histogram.histogram.data_points
        if otlp.attributes_of(point)["gen_ai.evaluation.name"] == "context_precision"
    )

    assert histogram.unit == "1"
    assert list(point.explicit_bounds)[:2] == [0.0, 0.1]
    assert int.from_bytes(retrieval.trace_id, "big") == 0xA1
    assert [(e.trace_id, e.span_id) for e in point.exemplars] == [(retrieval.trace_id, retrieval.span_id)]
    assert otlp.metrics["ragmeter.judge.duration"].unit == "s"
    assert otlp.metrics["ragmeter.judge.tokens"].sum.is_monotonic


def test_the_hardest_requests_can_be_encoded(wire, otlp, make):
    """Odd, huge and missing values: every span and event arrives, and the application's own too."""
    wire.tracer_provider.get_tracer("app").start_span("app").end()
    send(wire, *make.hard_runs(), capture_content=True, events="both", span_mode="own")

    assert "app" in {span.name for span in otlp.spans}
    assert len([s for s in otlp.spans if s.name.startswith("invoke_workflow")]) == 10
    assert otlp.records
    assert len(max(otlp.bodies, key=len)) < 1_000_000


def test_strings_no_encoder_takes_do_not_lose_the_applications_batch(wire, otlp, make):
    """A lone surrogate in a question, name or tag arrives as a question mark, and all else with it."""
    wire.tracer_provider.get_tracer("app").start_span("app").end()
    send(
        wire,
        make.scored_run(
            sample={"question": "\ud800", "name": "\ud800"},
            retrieval={"data_source_id": "\udfff", "query": "\udfff"},
            tags=("\ud800",),
            metadata={"\ud800": "\ud800", "big": 2**80, "nan": float("nan")},
        ),
        capture_content=True,
    )

    assert {span.name for span in otlp.spans} == {"app", "invoke_workflow ?", "retrieval ?"}
    assert not any("ragmeter.metadata.nan" in otlp.attributes_of(span) for span in otlp.spans)


EVALUATION = {
    "gen_ai.operation.name": "evaluation",
    "openinference.span.kind": "EVALUATOR",
    "gen_ai.workflow.name": "support_bot",
    **REQUEST,
}


def expected_evaluations(*scores, explanation):
    """OpenInference's evaluations of (name, value, label, kind, version, highest)."""
    attributes = {}
    for index, (name, value, label, kind, version, highest) in enumerate(scores):
        method = "llm" if kind == "LLM" else "exact"
        metadata = {
            "definition": version,
            "method": method,
            "range": [0.0, highest],
            "direction": "higher",
            "status": "ok",
            "items": ITEMS,
        }
        given = {
            "name": name,
            "score": value,
            "label": label,
            "annotator_kind": kind,
            "identifier": f"ragmeter:{version}",
            "metadata": json.dumps(metadata),
            "explanation": explanation,
        }
        attributes |= {
            f"evaluations.{index}.evaluation.{key}": said for key, said in given.items() if said is not None
        }
    return attributes


def expected_spans(content, own, *, texts):
    """Attributes of each span by its operation and, for evaluations, the operation judged."""
    asked, query, context = content["question"], content["query"], content["context"]
    explanation = content["explanation"] if texts else "1 of 2 chunks"
    if own:
        of_answer = shown(0, "faithfulness", 0.9, label="pass", explanation=explanation)
        of_retrieval = shown(0, "context_precision", 0.73, items=True, explanation=explanation)
        workflow = {**WORKFLOW, **REQUEST, **ANSWER_SCORES, **of_answer}
        retrieval = {**RETRIEVAL, **RETRIEVAL_SCORES, **of_retrieval}
        if texts:
            workflow |= messages(content)
            workflow |= {"input.value": asked, "input.mime_type": "text/plain"}
            workflow |= {"output.value": content["answer"], "output.mime_type": "text/plain"}
            retrieval |= {
                "gen_ai.retrieval.query.text": query,
                "gen_ai.retrieval.documents": f'[{{"id": "doc-1", "score": 0.8}}, {{"id": "{SECOND}"}}]',
                "input.value": query,
                "input.mime_type": "text/plain",
                "retrieval.documents.0.document.content": context,
                "retrieval.documents.0.document.metadata": '{"p": 1}',
                "retrieval.documents.1.document.content": context + " two",
            }
        return [workflow, retrieval]
    about_answer = expected_evaluations(
        ("faithfulness", 0.9, "pass", "LLM", "d1", 1.0), explanation=explanation
    )
    about_retrieval = expected_evaluations(
        ("context_precision", 0.73, None, "LLM", "p1", 1.0),
        ("context_count", 2.0, None, "CODE", "d1", None),
        explanation=explanation,
    )
    return [
        {**EVALUATION, **ANSWER_SCORES, **about_answer},
        {**EVALUATION, **RETRIEVAL_SCORES, **about_retrieval},
    ]


@pytest.mark.parametrize("capture", ["NO_CONTENT", "SPAN_ONLY", "EVENT_ONLY", "SPAN_AND_EVENT"])
@pytest.mark.parametrize("events", ["log", "span_event", "both", "off"])
@pytest.mark.parametrize(
    ("span_mode", "recorded", "own"),
    [
        ("auto", False, True),
        ("auto", True, False),
        ("own", True, True),
        ("evaluation", True, False),
        ("off", True, None),
    ],
)
def test_exactly_these_attributes_arrive(wire, otlp, make, span_mode, recorded, own, events, capture):
    """Decoded from the wire, for each span mode, event mode and opt-in: nothing less, nothing more.

    Without an opt-in no byte is of a text; numbers carry none at all, and the reference never leaves.
    """
    changes = {}
    if recorded:
        changes["target"] = make.span_context(span=0xC1)
        changes["retrieval"] = {"target": make.span_context(span=0xD1)}
    send(wire, make.scored_run(**changes), span_mode=span_mode, events=events, capture_content=capture)
    told = {
        name: dict(expected)
        | (
            {"gen_ai.evaluation.explanation": make.content["explanation"]}
            if capture in ("EVENT_ONLY", "SPAN_AND_EVENT")
            else {}
        )
        for name, expected in EXPECTED.items()
    }

    def by_name(carriers):
        decoded = [otlp.attributes_of(each) for each in carriers]
        named = {one["gen_ai.evaluation.name"]: one for one in decoded}
        assert len(named) == len(decoded)
        return named

    expected = []
    if own is not None:
        texts = capture in ("SPAN_ONLY", "SPAN_AND_EVENT")
        expected = expected_spans(make.content, own, texts=texts)
    arrived = [otlp.attributes_of(span) for span in otlp.spans]
    expected = [
        {key: list(value) if isinstance(value, tuple) else value for key, value in one.items()}
        for one in expected
    ]
    assert len(arrived) == len(expected)
    for one in expected:
        assert one in arrived
    assert by_name(otlp.records) == (told if events in ("log", "both") else {})
    on_spans = by_name(event for span in otlp.spans for event in span.events)
    assert on_spans == (told if own is not None and events in ("span_event", "both") else {})
    numbers = b"".join(request.SerializeToString() for request in otlp.metric_requests)
    assert b"-TEXT" not in (b"".join(otlp.bodies) if capture == "NO_CONTENT" else numbers)
    assert make.content["reference"].encode() not in b"".join(otlp.bodies)
