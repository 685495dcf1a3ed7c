"""What it costs to receive something grows no faster than it: of everything that a sender can have more of.

Counted are calls of functions, Python's and C's, from the packed body to the requests that are found in it: the
same in every run, whatever else the machine does.
"""

import gzip
import json

import pytest
from call_count import calls
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from otlp_bodies import as_json
from served import FULL
from stored import store

from ragmeter.adapters.opentelemetry.assembly import TraceAssembler
from ragmeter.adapters.opentelemetry.otlp import MalformedError, parse_json, parse_protobuf, received_in
from ragmeter.adapters.opentelemetry.requests import read_trace
from ragmeter.serve._bodies import unpack

MIB = 1024 * 1024


def recorded():
    """A recorded request, and the span that its retrieval is."""
    request = ExportTraceServiceRequest.FromString(FULL.read_bytes())
    spans = [span for group in request.resource_spans for one in group.scope_spans for span in one.spans]
    return request, spans


def of_spans(n, *, trace=None, parent=None, name="x"):
    request, spans = recorded()
    under = request.resource_spans[0].scope_spans[0].spans
    for number in range(n):
        made = under.add()
        made.CopyFrom(spans[number % len(spans)])
        made.span_id = (number + 1).to_bytes(8, "big")
        made.trace_id = spans[0].trace_id if trace is None else trace(number)
        made.parent_span_id = b"" if parent is None else parent(number)
        made.name = f"{name}{number}"
    return request


def with_each_span(n, put):
    request, spans = recorded()
    for span in spans[:4]:
        for number in range(n):
            put(span, number)
    return request


def string(text):
    return AnyValue(string_value=text)


def of_scopes(n):
    request, _ = recorded()
    (group,) = request.resource_spans
    for number in range(n):
        one = group.scope_spans.add()
        one.CopyFrom(group.scope_spans[0])
        one.scope.name = f"scope{number}"
        del one.spans[1:]
        one.spans[0].span_id = (number + 1).to_bytes(8, "big")
    return request


def of_resources(n):
    request, _ = recorded()
    for number in range(n):
        group = request.resource_spans.add()
        group.CopyFrom(request.resource_spans[0])
        group.resource.attributes.add(key="service.name", value=string(f"s{number}"))
        (scoped,) = group.scope_spans[:1]
        del scoped.spans[1:]
        scoped.spans[0].trace_id = (number + 1).to_bytes(16, "big")
    return request


def nested_values(n):
    request, spans = recorded()
    for number in range(n):
        value = spans[0].attributes.add(key=f"k{number}").value
        for _ in range(20):
            value = value.array_value.values.add()
    return request


def long_list(n):
    request, spans = recorded()
    values = spans[0].attributes.add(key="list").value.array_value.values
    values.extend(string(str(number)) for number in range(n))
    return request


def documents(n):
    """More of what the recorded retriever found, as OpenInference spells it."""
    request, spans = recorded()
    (span,) = [one for one in spans if any("retrieval.documents.0." in a.key for a in one.attributes)][:1]
    for number in range(n):
        span.attributes.add(
            key=f"retrieval.documents.{number}.document.content", value=string(f"text {number}")
        )
    return request


def own_events(n):
    """Scores that ragmeter elsewhere tells."""
    request, spans = recorded()
    scoped = request.resource_spans[0].scope_spans[0]
    scoped.scope.name = "ragmeter"
    span = spans[0]
    span.attributes.add(key="ragmeter.run_id", value=string("r"))
    for number in range(n):
        event = span.events.add(name="gen_ai.evaluation.result", time_unix_nano=10**18 + number)
        event.attributes.add(key="gen_ai.evaluation.name", value=string(f"score{number}"))
        event.attributes.add(key="gen_ai.evaluation.score.value", value=AnyValue(double_value=0.5))
        event.attributes.add(key="ragmeter.evaluation.judge.model", value=string(f"model{number}"))
    return request


def own_attributes(n):
    request, spans = recorded()
    request.resource_spans[0].scope_spans[0].scope.name = "ragmeter"
    spans[0].attributes.add(key="ragmeter.run_id", value=string("r"))
    for number in range(n):
        spans[0].attributes.add(key=f"ragmeter.score.s{number}", value=AnyValue(double_value=0.5))
        spans[0].attributes.add(key=f"ragmeter.metadata.m{number}", value=string("v"))
        spans[0].attributes.add(key=f"ragmeter.segment.g{number}", value=string("v"))
    return request


def bytes_of(number, length):
    return (number + 1).to_bytes(length, "big")


GROWING = {
    "spans": of_spans,
    "spans in a chain": lambda n: of_spans(n, parent=lambda k: bytes_of(k + 1, 8)),
    "spans below one": lambda n: of_spans(n, parent=lambda _: bytes_of(0, 8)),
    "spans without their parent": lambda n: of_spans(n, parent=lambda k: bytes_of(k + 10**6, 8)),
    "spans in circles": lambda n: of_spans(n, parent=lambda k: bytes_of(k ^ 1, 8)),
    "traces": lambda n: of_spans(n, trace=lambda k: bytes_of(k, 16)),
    "scopes": of_scopes,
    "resources": of_resources,
    "attributes": lambda n: with_each_span(
        n, lambda span, k: span.attributes.add(key=f"key{k}", value=string("v"))
    ),
    "one attribute again": lambda n: with_each_span(
        n, lambda span, k: span.attributes.add(key="key", value=string(f"v{k}"))
    ),
    "events": lambda n: with_each_span(
        n, lambda span, k: span.events.add(name=f"e{k}").attributes.add(key="k", value=string("v"))
    ),
    "links": lambda n: with_each_span(
        n, lambda span, k: span.links.add(trace_id=bytes_of(k, 16), span_id=bytes_of(k, 8))
    ),
    "nested values": nested_values,
    "a long list": long_list,
    "documents": documents,
    "scores told as events": own_events,
    "scores told on a span": own_attributes,
}  # fmt: skip


def receive(body, as_text, kept):
    """All that the server does with a body but scoring, which has tests of its own."""
    plain = unpack(body, "gzip", 64 * MIB)
    request = (parse_json if as_text else parse_protobuf)("traces", plain)
    received = received_in(request)
    kept.take(request, received)
    traces = []
    assembler = TraceAssembler(traces.append)
    assembler.add(received.spans, received.logs)
    assembler.drain()
    for trace in traces:
        read_trace(trace.spans, trace.logs)


def cost(request, as_text, folder):
    plain = request.SerializeToString()
    body = gzip.compress(as_json("traces", plain) if as_text else plain)
    with store(folder / f"{len(body)}{as_text}.db") as kept:
        return calls(lambda: receive(body, as_text, kept))


@pytest.mark.parametrize("as_text", [False, True], ids=["protobuf", "json"])
@pytest.mark.parametrize("what", GROWING)
def test_twice_as_much_costs_twice_as_much(tmp_path, what, as_text):
    none, once, twice = (cost(GROWING[what](n), as_text, tmp_path) for n in (0, 100, 200))
    assert twice - none <= 2.1 * (once - none) + 200


@pytest.mark.parametrize("inner", ["arrayValue", "kvlistValue"])
def test_json_may_be_nested_as_deep_as_protobuf(inner):
    deepest = {}
    for depth in range(10, 60):
        value = {"stringValue": "x"}
        for _ in range(depth):
            values = [value if inner == "arrayValue" else {"key": "k", "value": value}]
            value = {inner: {"values": values}}
        attribute = {"key": "k", "value": value}
        spans = {"spans": [{"attributes": [attribute]}]}
        text = json.dumps({"resourceSpans": [{"scopeSpans": [spans]}]})
        try:
            request = parse_json("traces", text)
        except MalformedError:
            break
        assert parse_protobuf("traces", request.SerializeToString()) == request
        received_in(request)
        deepest["json"] = depth
    body = b"\x0a\x01x"
    for depth in range(60):
        if depth:
            if inner == "arrayValue":
                body = b"\x2a" + _sized(b"\x0a" + _sized(body))
            else:
                body = b"\x32" + _sized(b"\x0a" + _sized(b"\x0a\x01k\x12" + _sized(body)))
        whole = b"\x0a\x01k\x12" + _sized(body)
        for field in (b"\x4a", b"\x12", b"\x12", b"\x0a"):
            whole = field + _sized(whole)
        try:
            parse_protobuf("traces", whole)
        except MalformedError:
            break
        deepest["protobuf"] = depth
    assert deepest["json"] == deepest["protobuf"] > 25


def _sized(body):
    length, out = len(body), bytearray()
    while length > 127:
        out.append(length & 127 | 128)
        length >>= 7
    return bytes([*out, length]) + body
