"""OTLP export requests, as bytes or as JSON, converted to records.

The messages are those of ``opentelemetry-proto``; the only protocol code here is for the one difference
between OTLP's JSON and protobuf's: ids are hex, not base64.
"""

from __future__ import annotations

import json
import time
from base64 import b64encode
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any, Literal, NamedTuple, TypeAlias

from ragmeter.metrics import MissingDependencyError, RagmeterError

from .record import LogNote, SpanNote, SpanRecord

try:
    from google.protobuf.json_format import ParseDict, ParseError
    from google.protobuf.message import DecodeError
    from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
except ImportError:
    raise MissingDependencyError("opentelemetry-proto", "otlp", "reading OTLP") from None

Signal = Literal["traces", "logs"]
"""The content of an export request: spans or log records."""

ExportRequest: TypeAlias = ExportTraceServiceRequest | ExportLogsServiceRequest
"""An export request, parsed."""

_REQUESTS: Mapping[Signal, type[ExportRequest]] = {
    "traces": ExportTraceServiceRequest,
    "logs": ExportLogsServiceRequest,
}

_KINDS = ("unspecified", "internal", "server", "client", "producer", "consumer")
_ERROR = 2
_IDS = frozenset({"traceId", "spanId", "parentSpanId", "trace_id", "span_id", "parent_span_id"})
_SERVICE = frozenset(
    {
        "service.name",
        "service.namespace",
        "deployment.environment",
        "deployment.environment.name",
        "openinference.project.name",
    }
)
"""Attributes of a resource that identify the service and its place in a backend."""
_MAX_NAME = 255
_MAX_SHORT = 65
"""One more than the maximum length of a name, to detect longer ones."""
_MAX_DEPLOYED = 32
_REMOTE = 0x300
"""The flag by which a span's parent is in another process."""


class MalformedError(RagmeterError):
    """The received data is no OTLP; the message states the reason, and quotes nothing of the data."""


class ExportedRecords(NamedTuple):
    """The content of one export request."""

    spans: tuple[SpanRecord, ...] = ()
    """Its spans, in its order."""
    logs: tuple[LogNote, ...] = ()
    """Its log records that belong to a span."""
    invalid: int = 0
    """Spans without a usable id: nothing can be joined to them."""


def parse_protobuf(signal: Signal, body: bytes) -> ExportRequest:
    """Parse the body of an export request in protobuf.

    Raises:
        MalformedError: It is not one.
    """
    request = _REQUESTS[signal]()
    try:
        request.ParseFromString(body)
    except (DecodeError, RecursionError) as error:
        raise MalformedError(f"no OTLP in protobuf ({type(error).__name__})") from None
    return request


def parse_json(signal: Signal, text: str | bytes) -> ExportRequest:
    """Parse the body of an export request in OTLP's JSON. Other content is ignored.

    Raises:
        MalformedError: It is no JSON, or JSON of another kind.
    """
    request = _REQUESTS[signal]()
    _fill(request, _object_in(text))
    return request


def received_in(request: ExportRequest) -> ExportedRecords:
    """Return the content of an export request.

    Called once for a request: to convert attributes to plain values is a third of the work.
    """
    if isinstance(request, ExportTraceServiceRequest):
        return _spans_of(request)
    return _logs_of(request)


def read_protobuf(body: bytes) -> ExportedRecords:
    """Read the body of an export of spans or of log records, detecting which one it is.

    Raises:
        MalformedError: It is neither.
    """
    reasons: list[MalformedError] = []
    for signal in _REQUESTS:
        try:
            found = received_in(parse_protobuf(signal, body))
        except MalformedError as error:
            reasons.append(error)
            continue
        # Both have the same frame; parsed as the other one, the ids are not in their places.
        if found.spans or found.logs or not body:
            return found
    if len(reasons) == len(_REQUESTS):
        raise reasons[0]
    raise MalformedError("neither spans nor log records with the ids of spans are in it")


def read_json(text: str | bytes) -> ExportedRecords:
    """Read one export request in OTLP's JSON: spans, log records, or both.

    Metrics are ignored.

    Raises:
        MalformedError: It is no JSON, or JSON of another kind.
    """
    value = _object_in(text)
    spans = value.get("resourceSpans", value.get("resource_spans"))
    logs = value.get("resourceLogs", value.get("resource_logs"))
    if spans is None and logs is None:
        if "resourceMetrics" in value or "resource_metrics" in value or not value:
            return ExportedRecords()
        raise MalformedError("no OTLP: neither resourceSpans nor resourceLogs is in it")
    request, records = ExportTraceServiceRequest(), ExportLogsServiceRequest()
    _fill(request, {"resourceSpans": spans or []})
    _fill(records, {"resourceLogs": logs or []})
    traced = _spans_of(request)
    return ExportedRecords(traced.spans, _logs_of(records).logs, traced.invalid)


def _object_in(text: str | bytes) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise MalformedError(f"no JSON ({type(error).__name__})") from None
    if not isinstance(value, dict):
        raise MalformedError("no OTLP: an object with resourceSpans or resourceLogs is expected")
    return value


def _fill(request: Any, value: dict[str, Any]) -> None:
    try:
        ParseDict(_with_base64_ids(value), request, ignore_unknown_fields=True)
    except (ParseError, ValueError, TypeError, AttributeError, RecursionError) as error:
        # The parser's own message may quote the data it could not read.
        raise MalformedError(f"no OTLP in JSON ({type(error).__name__})") from None


def _with_base64_ids(value: Any) -> Any:
    # Protobuf limits the depth of nesting, for both of its formats.
    if isinstance(value, list):
        return [_with_base64_ids(item) for item in value]
    if isinstance(value, dict):
        return {
            key: _base64_id(item) if key in _IDS and isinstance(item, str) else _with_base64_ids(item)
            for key, item in value.items()
        }
    if isinstance(value, str) and not value.isascii():
        # Senders that count in UTF-16 cut texts in the middle of a character; the rest is valid.
        return value.encode("utf-8", "replace").decode()
    return value


def _base64_id(text: str) -> str:
    """Return an id in protobuf's JSON form; an invalid one is removed, and only its span rejected."""
    try:
        return b64encode(bytes.fromhex(text)).decode()
    except ValueError:
        return ""


def has_ids(carrier: Any) -> bool:
    """Return whether a span or log record has usable ids, so that `ExportedRecords` contains it."""
    return _is_id(carrier.trace_id, 16) and _is_id(carrier.span_id, 8)


def _is_id(value: bytes, length: int) -> bool:
    return len(value) == length and any(value)


def _spans_of(request: ExportTraceServiceRequest) -> ExportedRecords:
    spans: list[SpanRecord] = []
    invalid, now_ns = 0, time.time_ns()
    for group in request.resource_spans:
        resource = _service_of(group.resource.attributes)
        deployed = _short_texts(group.resource.attributes)
        for scoped in group.scope_spans:
            scope = scoped.scope.name
            for span in scoped.spans:
                if not has_ids(span):
                    invalid += 1
                    continue
                spans.append(
                    SpanRecord(
                        trace_id=span.trace_id.hex(),
                        span_id=span.span_id.hex(),
                        parent_id=span.parent_span_id.hex() if _is_id(span.parent_span_id, 8) else None,
                        parent_is_remote=span.flags & _REMOTE == _REMOTE,
                        name=span.name,
                        kind=_KINDS[span.kind] if 0 <= span.kind < len(_KINDS) else "unspecified",
                        # A sender's span without times is of now, not of 1970.
                        started_ns=span.start_time_unix_nano or span.end_time_unix_nano or now_ns,
                        ended_ns=span.end_time_unix_nano,
                        attributes=attributes_of(span.attributes),
                        events=tuple(
                            SpanNote(event.name, attributes_of(event.attributes)) for event in span.events
                        ),
                        failed=span.status.code == _ERROR,
                        dropped=span.dropped_attributes_count,
                        is_linked=any(link.trace_id != span.trace_id for link in span.links),
                        scope=scope,
                        # Spans that are sent were sampled; some senders omit the flag.
                        sampled=True,
                        resource=resource,
                        deployed=deployed,
                    )
                )
    return ExportedRecords(tuple(spans), (), invalid)


def _logs_of(request: ExportLogsServiceRequest) -> ExportedRecords:
    return ExportedRecords(
        logs=tuple(
            LogNote(
                trace_id=record.trace_id.hex(),
                span_id=record.span_id.hex(),
                # An attribute before it had a field of its own, where the reader of messages finds it.
                event=record.event_name,
                body=_value(record.body),
                attributes=attributes_of(record.attributes),
                scope=scoped.scope.name,
            )
            for group in request.resource_logs
            for scoped in group.scope_logs
            for record in scoped.log_records
            if has_ids(record)
        )
    )


def _service_of(items: Iterable[Any]) -> Mapping[str, str]:
    """Return the attributes that identify a service, without those of an instance."""
    return {
        item.key: item.value.string_value[:_MAX_NAME]
        for item in items
        if item.key in _SERVICE and item.value.string_value
    }


def _short_texts(items: Iterable[Any]) -> Mapping[str, str]:
    """Return the beginnings of a resource's other texts, the first `_MAX_DEPLOYED` of them."""
    short = (
        (item.key, item.value.string_value[:_MAX_SHORT])
        for item in items
        if item.key not in _SERVICE and item.value.string_value and len(item.key) < _MAX_SHORT
    )
    return dict(islice(short, _MAX_DEPLOYED))


def attributes_of(items: Iterable[Any]) -> Mapping[str, Any]:
    """Return attributes of the protocol's messages as plain values by key."""
    found: dict[str, Any] = {}
    for item in items:
        value = item.value
        # Most are texts, and others have an empty one here: reading it is cheaper than a type check.
        found[item.key] = value.string_value or _value(value)
    return found


def _value(value: Any) -> Any:
    which = value.WhichOneof("value")
    if which is None:
        return None
    if which == "array_value":
        return [item.string_value or _value(item) for item in value.array_value.values]
    if which == "kvlist_value":
        return attributes_of(value.kvlist_value.values)
    return getattr(value, which)
