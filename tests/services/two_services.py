"""Requests through two services, each with its own tracing that sends every span separately.

The spans are made by hand, as OpenInference's conventions have them: their transport is tested here, not
their creation.
"""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from opentelemetry import propagate
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.trace import SpanKind

SHOP = json.loads(Path(__file__).with_name("traced").joinpath("shop.json").read_text(encoding="utf-8"))


def ask_many(http, grpc, count, *, at_once=8):
    """Send the spans of `count` requests, several requests at a time; return question by trace id.

    Args:
        http: The destination of one service's spans, over HTTP.
        grpc: The destination of the other one's, over gRPC.
        count: Number of requests.
        at_once: Number of concurrent ones.
    """
    web = _provider("web", HttpExporter(f"{http}/v1/traces"))
    assistant = _provider("assistant", GrpcExporter(grpc, insecure=True))

    def one(number):
        request = SHOP["requests"][number % len(SHOP["requests"])]
        with web.get_tracer("web").start_as_current_span("POST /ask", kind=SpanKind.SERVER) as span:
            headers = {}
            propagate.inject(headers)
            _answer(assistant.get_tracer("openinference"), request, propagate.extract(headers))
        return f"{span.get_span_context().trace_id:032x}", request["question"]

    with ThreadPoolExecutor(at_once) as pool:
        asked = dict(pool.map(one, range(count)))
    web.shutdown()
    assistant.shutdown()
    assert len(asked) == count
    return asked


def _provider(name, exporter):
    provider = TracerProvider(resource=Resource({"service.name": name}), shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return provider


def _answer(tracer, request, context):
    """Write the assistant's spans: the chain, its retrieval and its model."""
    question, answer = request["question"], request["answer"]
    texts = [SHOP["documents"][name] for name in request["finds"]]
    with tracer.start_as_current_span("POST /answer", context, kind=SpanKind.SERVER):
        seen = {"openinference.span.kind": "CHAIN", "input.value": question, "output.value": answer}
        with tracer.start_as_current_span("shop assistant", attributes=seen):
            found = {"openinference.span.kind": "RETRIEVER", "input.value": question}
            for place, (name, text) in enumerate(zip(request["finds"], texts, strict=True)):
                found[f"retrieval.documents.{place}.document.id"] = name
                found[f"retrieval.documents.{place}.document.content"] = text
            with tracer.start_as_current_span("shelf", attributes=found):
                pass
            prompt = "\n\n".join([*texts, question])
            said = {
                "openinference.span.kind": "LLM",
                "llm.input_messages.0.message.role": "user",
                "llm.input_messages.0.message.content": prompt,
                "llm.output_messages.0.message.role": "assistant",
                "llm.output_messages.0.message.content": answer,
            }
            with tracer.start_as_current_span("model", attributes=said):
                pass
