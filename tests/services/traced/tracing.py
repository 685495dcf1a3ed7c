"""Shared parts of the traced applications: their shop, their tracing, and the sending of requests.

An application is run as a program by the tests, with the endpoint of its spans in OpenTelemetry's variables. It
prints one JSON object for each request: the question, the answer and the trace's id.
"""

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import SpanKind

SHOP = json.loads(Path(__file__).with_name("shop.json").read_text(encoding="utf-8"))
DOCUMENTS = SHOP["documents"]
REQUESTS = {request["question"]: request for request in SHOP["requests"]}

provider = TracerProvider(resource=Resource.create({}))
# Small batches and threads: the spans of one request arrive in several, mixed with those of others.
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(), max_export_batch_size=7))


def found(question):
    """Return the ids and texts that the shop's retrievers find for a question."""
    return [(name, DOCUMENTS[name]) for name in REQUESTS[question]["finds"]]


def answer_to(prompt):
    """Return the reply of the shop's model to a prompt: the answer to the question in it."""
    [said] = [request["answer"] for question, request in REQUESTS.items() if question in prompt]
    return said


def run(ask):
    """Send all requests, several at a time, each below a server's span, and print their outcome."""
    tracer = provider.get_tracer("shop")

    def serve(question):
        with tracer.start_as_current_span("POST /ask", kind=SpanKind.SERVER) as span:
            answer = ask(question)
        return question, answer, f"{span.get_span_context().trace_id:032x}"

    with ThreadPoolExecutor(3) as pool:
        asked = list(pool.map(serve, REQUESTS))
    provider.shutdown()
    for question, answer, trace_id in asked:
        row = {"question": question, "answer": answer, "trace_id": trace_id}
        sys.stdout.write(json.dumps(row) + "\n")
