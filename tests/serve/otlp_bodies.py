"""Hand-made export requests, and recorded ones in other forms."""

import json

from google.protobuf.json_format import MessageToDict
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

REQUESTS = {"traces": ExportTraceServiceRequest, "logs": ExportLogsServiceRequest}
_IDS = {"traceId", "spanId", "parentSpanId"}


def spans_of(*ids, trace=b"\x01" * 16, scope="app", service=None, **fields):
    """Return an export request of spans with these ids, as a message."""
    request = ExportTraceServiceRequest()
    group = request.resource_spans.add()
    if service is not None:
        attribute = group.resource.attributes.add(key="service.name")
        attribute.value.string_value = service
    scoped = group.scope_spans.add()
    scoped.scope.name = scope
    for span_id in ids:
        scoped.spans.add(trace_id=trace, span_id=span_id, name="step", **fields)
    return request


def many_spans(count):
    """Return an export request of `count` spans, each a separate trace, as bytes."""
    ids = (number.to_bytes(8, "big") for number in range(1, count + 1))
    request = ExportTraceServiceRequest()
    scoped = request.resource_spans.add().scope_spans.add()
    for span_id in ids:
        scoped.spans.add(trace_id=span_id * 2, span_id=span_id)
    return request.SerializeToString()


def as_json(signal, body):
    """Return a protobuf body as OTLP's JSON: ids are hex."""
    value = MessageToDict(REQUESTS[signal].FromString(body))
    return json.dumps(_with_hex_ids(value)).encode()


def _with_hex_ids(value):
    from base64 import b64decode

    if isinstance(value, list):
        return [_with_hex_ids(item) for item in value]
    if isinstance(value, dict):
        return {
            key: b64decode(item).hex() if key in _IDS and isinstance(item, str) else _with_hex_ids(item)
            for key, item in value.items()
        }
    return value


def signal_of(file):
    """Return the signal of a recorded file."""
    return "logs" if file.name.endswith(".logs.pb") else "traces"
