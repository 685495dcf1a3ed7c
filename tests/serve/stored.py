"""Scored requests as exported by ragmeter in an application, and the content of a store afterwards."""

import json
import re
import sqlite3
from contextlib import contextmanager
from dataclasses import replace

from google.protobuf.json_format import ParseDict
from opentelemetry.exporter.otlp.proto.common._log_encoder import encode_logs
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import SimpleLogRecordProcessor
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from ragmeter import RagMeter, Score
from ragmeter.exporters.memory import InMemoryExporter
from ragmeter.exporters.otel import OpenTelemetryExporter
from ragmeter.exporters.protocol import JudgeIdentity
from ragmeter.metrics import Verdict
from ragmeter.serve.store import Store, StoreOptions

try:
    from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter
except ImportError:  # under its earlier name
    from opentelemetry.sdk._logs.export import InMemoryLogExporter as InMemoryLogRecordExporter

CHUNKS = ("The night watch was painted by Rembrandt.", "Cats sleep sixteen hours a day.")
GOOD = "Rembrandt painted the night watch."
BAD = "Aardvarks bark loudly in Paris."


def ask(meter, number, *, workflow="museum"):
    """Have one request scored: each fourth is bad."""
    metadata = {"tenant": "acme" if number % 3 else "umbrella"}
    with meter.request(f"Who painted it, {number % 5}?", name=workflow, metadata=metadata) as one:
        one.retrieved(list(CHUNKS))
        one.answered(BAD if number % 4 == 0 else GOOD)


def scored(count, **options):
    """Return scored runs, made by hand."""
    results = InMemoryExporter()
    meter = RagMeter(exporters=[results], **options)
    for number in range(count):
        ask(meter, number)
    assert meter.flush(60)
    meter.shutdown(60)
    return results.results


def moved(run, run_id, at_s, *, scores=None, word=None, codes=(), **fields):
    """Return a scored run as another request that began then, outside of any trace, with these fields of its run.

    Of its scores those of `scores` are kept, with these values; with a `word` it has that verdict.
    """
    began = round(at_s * 1e6) * 1000
    made = replace(
        run.run, run_id=run_id, started_ns=began, ended_ns=began + 10**6, target=None, retrievals=(), **fields
    )
    if scores is not None:
        scores = {name: run.scores[name].model_copy(update={"value": value}) for name, value in scores.items()}
    verdict = run.verdict if word is None else Verdict(word=word, codes=codes)
    return replace(run, run=made, scores=run.scores if scores is None else scores, verdict=verdict)


def judged(run, *failed, at_ms=None, model="judge-1", number=None):
    """Return the scored run with two judged scores, of which `failed` ones have an error class; begun then."""
    classes = dict(failed)
    names = ("faithfulness", "context_precision")
    scores = {
        name: Score(
            name=name, value=None if name in classes else 0.9, method="llm", definition="1", target="answer",
            status="judge_error" if name in classes else "ok", error_type=classes.get(name),
        )
        for name in names
    }  # fmt: skip
    made = run if at_ms is None else moved(run, f"run-{number}", at_ms / 1000)
    return replace(
        made, scores={**run.scores, **scores}, judged=frozenset(names),
        judge=JudgeIdentity(model=model, endpoint="openai"),
    )  # fmt: skip


def told(runs, *, content=True, service="shop"):
    """Return the export of spans, and of log records, of an application with the callback handler."""
    spans, records = InMemorySpanExporter(), InMemoryLogRecordExporter()
    resource = Resource({"service.name": service})
    tracers = TracerProvider(resource=resource, shutdown_on_exit=False)
    tracers.add_span_processor(SimpleSpanProcessor(spans))
    loggers = LoggerProvider(resource=resource, shutdown_on_exit=False)
    loggers.add_log_record_processor(SimpleLogRecordProcessor(records))
    exporter = OpenTelemetryExporter(tracers, logger_provider=loggers, metrics=False, capture_content=content)
    exporter.export(runs)
    return (
        ExportTraceServiceRequest.FromString(encode_spans(spans.get_finished_spans()).SerializeToString()),
        ExportLogsServiceRequest.FromString(encode_logs(records.get_finished_logs()).SerializeToString()),
    )


def dropped(value, at_s, *, began_s=0.0, reason="queue_full", **resource):
    """Return the export of a meter that has dropped so many requests since it began."""

    def attributes(named):
        return [{"key": key, "value": {"stringValue": text}} for key, text in named.items()]

    point = {
        "asInt": value, "timeUnixNano": int(at_s * 1e9), "startTimeUnixNano": int(began_s * 1e9),
        "attributes": attributes({"ragmeter.reason": reason}),
    }  # fmt: skip
    metric = {"name": "ragmeter.dropped", "sum": {"aggregationTemporality": 2, "dataPoints": [point]}}
    group = {
        "resource": {"attributes": attributes({f"service.{name}": one for name, one in resource.items()})},
        "scopeMetrics": [{"scope": {"name": "ragmeter"}, "metrics": [metric]}],
    }
    return ParseDict({"resourceMetrics": [group]}, ExportMetricsServiceRequest())


def pieces_of(*requests):
    """Return the same, one export for each span and each record."""
    found = []
    for request in requests:
        is_spans = isinstance(request, ExportTraceServiceRequest)
        outer, inner, last = (
            ("resource_spans", "scope_spans", "spans")
            if is_spans
            else ("resource_logs", "scope_logs", "log_records")
        )
        for group in getattr(request, outer):
            for scoped_ in getattr(group, inner):
                for item in getattr(scoped_, last):
                    one = type(request)()
                    made = getattr(one, outer).add()
                    made.resource.CopyFrom(group.resource)
                    under = getattr(made, inner).add()
                    under.scope.CopyFrom(scoped_.scope)
                    getattr(under, last).append(item)
                    found.append(one)
    return found


def kept_at(place):
    """Return the option with the place of a store: in a file, or, if that is a word, at an address."""
    return {"url": place} if isinstance(place, str) else {"path": place}


@contextmanager
def store(place=None, *, clock=None, **options):
    """Open a store for the block."""
    made = Store(StoreOptions(**kept_at(place), **options), **({} if clock is None else {"clock": clock}))
    try:
        yield made
    finally:
        made.close()


_LOGICAL = {
    "request": "SELECT run_id, lower(hex(trace_id)), lower(hex(span_id)), at, started_ns, ended_ns, noted_ns, service, workflow, "
    "framework, status, verdict, verdict_ns, codes, reasons, q.body, a.body, language, retriever, conversation_id, "
    "user_id, sample_rate, judge_sample_rate, selection, missing, metadata FROM request "
    "LEFT JOIN text q ON q.id = question LEFT JOIN text a ON a.id = answer",
    "score": "SELECT run_id, s.name, value, s.status, label, told_ns, k.name, k.method, k.definition, k.direction, "
    "k.lowest, k.highest, k.judged, turned, lower, upper, error_type, details_ns, judge_calls, input_tokens, "
    "output_tokens, cache_hits, summary, explanation, items FROM score s JOIN request r ON r.id = s.request "
    "LEFT JOIN kind k ON k.id = s.kind LEFT JOIN evidence e ON e.request = s.request AND e.name = s.name",
    "chunk": "SELECT lower(hex(trace_id)), lower(hex(owner)), lower(hex(span_id)), rank, at, document, score, body FROM chunk "
    "LEFT JOIN text ON text.id = text",
    "loose": "SELECT lower(hex(trace_id)), lower(hex(owner)), retriever, scores FROM loose",
    "text": "SELECT body FROM text",
    "segment": "SELECT name, value FROM segment",
    "name": "SELECT sort, name FROM name",
}


def tables(place):
    """Return the whole content of a store, independent of the order of writing; the same for either kind."""
    if isinstance(place, str):
        found = rows(place, _LOGICAL)
    else:
        database = sqlite3.connect(place)
        found = {name: database.execute(query).fetchall() for name, query in _LOGICAL.items()}
        database.close()
    return {name: sorted(map(list, some), key=json.dumps) for name, some in found.items()}


def rows(address, queries):
    """Return the result of queries in the tables of a database."""
    import psycopg

    with psycopg.connect(address, options="-c search_path=ragmeter") as connection:
        return {
            name: connection.execute(re.sub(r"lower\(hex\((\w+)\)\)", r"encode(\1, 'hex')", query)).fetchall()
            for name, query in queries.items()
        }
