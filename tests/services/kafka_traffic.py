"""Requests in the form of a Collector's Kafka exporter: one message per service, keyed by the trace."""

import hashlib
import json
from pathlib import Path

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

SHOP = json.loads(Path(__file__).with_name("traced").joinpath("shop.json").read_text(encoding="utf-8"))
SERVER, INTERNAL = 2, 1


def trace_of(name):
    """Return the id of the trace named `name`, 32 hex digits."""
    return hashlib.sha256(name.encode()).hexdigest()[:32]


def messages_of(name, number=0):
    """Return the messages of one request: five spans, of the model, the assistant and the web server, in the order in which they end.

    So nothing is complete before the last one: the trace is waited for, however long that takes.
    """
    trace = bytes.fromhex(trace_of(name))
    asked = SHOP["requests"][number % len(SHOP["requests"])]
    question, answer = asked["question"], asked["answer"]
    texts = [SHOP["documents"][found] for found in asked["finds"]]
    documents = {"openinference.span.kind": "RETRIEVER", "input.value": question}
    for place, (found, text) in enumerate(zip(asked["finds"], texts, strict=True)):
        documents[f"retrieval.documents.{place}.document.id"] = found
        documents[f"retrieval.documents.{place}.document.content"] = text
    chain = {"openinference.span.kind": "CHAIN", "input.value": question, "output.value": answer}
    said = {
        "openinference.span.kind": "LLM",
        "llm.input_messages.0.message.role": "user",
        "llm.input_messages.0.message.content": "\n\n".join([*texts, question]),
        "llm.output_messages.0.message.role": "assistant",
        "llm.output_messages.0.message.content": answer,
    }
    parts = [
        ("model", [(5, 3, "model", INTERNAL, said)]),
        (
            "assistant",
            [
                (2, 1, "POST /answer", INTERNAL, {}),
                (3, 2, "shop assistant", INTERNAL, chain),
                (4, 3, "shelf", INTERNAL, documents),
            ],
        ),
        ("web", [(1, 0, "POST /ask", SERVER, {})]),
    ]
    key = trace.hex().encode()
    return [(key, _export(service, trace, spans)) for service, spans in parts]


def _export(service, trace, spans):
    request = ExportTraceServiceRequest()
    group = request.resource_spans.add()
    group.resource.attributes.add(key="service.name").value.string_value = service
    scoped = group.scope_spans.add()
    scoped.scope.name = "openinference"
    for number, parent, name, kind, attributes in spans:
        span = scoped.spans.add(
            trace_id=trace,
            span_id=trace[:7] + bytes([number]),
            parent_span_id=trace[:7] + bytes([parent]) if parent else b"",
            name=name,
            kind=kind,
            start_time_unix_nano=1_790_000_000_000_000_000 + number,
            end_time_unix_nano=1_790_000_001_000_000_000 - number,
        )
        for attribute, value in attributes.items():
            span.attributes.add(key=attribute).value.string_value = value
    return request.SerializeToString()
