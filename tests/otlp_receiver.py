"""A real OTLP/HTTP receiver on loopback: decodes the stock exporters' requests, and stores the bytes.

It answers 200 to ``/v1/traces``, ``/v1/logs`` and ``/v1/metrics`` and to no other path.
"""

import gzip
import threading
from typing import Any

from loopback_server import LoopbackServer, Received
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


def value_of(value: Any) -> Any:
    """Return an OTLP AnyValue as a Python value."""
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [value_of(item) for item in value.array_value.values]
    return getattr(value, kind) if kind else None


def attributes_of(carrier: Any) -> dict[str, Any]:
    """Return the attributes of a decoded span, record, data point or event; keys must be unique."""
    pairs = [(pair.key, value_of(pair.value)) for pair in carrier.attributes]
    assert len(dict(pairs)) == len(pairs)
    return dict(pairs)


class OtlpReceiver(LoopbackServer):
    """Collects received spans, log records and metrics."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.refuse = False
        self.serves = {"/v1/traces", "/v1/logs", "/v1/metrics"}
        self.bodies: list[bytes] = []
        self.encodings: list[str] = []
        self.traces: list[ExportTraceServiceRequest] = []
        self.log_requests: list[ExportLogsServiceRequest] = []
        self.metric_requests: list[ExportMetricsServiceRequest] = []
        super().__init__()

    def reply(self, received: Received) -> Any:
        """Store a request."""
        if self.refuse:
            return 503
        known = self.take(received.path, received.body, received.headers.get("Content-Encoding", ""))
        return 200 if known else 404, b"", {"Content-Type": "application/x-protobuf"}

    def take(self, path: str, body: bytes, encoding: str) -> bool:
        """Decode one request."""
        plain = gzip.decompress(body) if encoding == "gzip" else body
        kinds = {
            "/v1/traces": (ExportTraceServiceRequest, self.traces),
            "/v1/logs": (ExportLogsServiceRequest, self.log_requests),
            "/v1/metrics": (ExportMetricsServiceRequest, self.metric_requests),
        }
        if path not in kinds or path not in self.serves:
            return False
        message, where = kinds[path]
        with self._lock:
            self.bodies.append(plain)
            self.encodings.append(encoding)
            where.append(message.FromString(plain))
        return True

    @property
    def spans(self) -> list[Any]:
        """All spans, in arrival order."""
        return [
            span
            for request in self.traces
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]

    @property
    def records(self) -> list[Any]:
        """All log records, in arrival order."""
        return [
            record
            for request in self.log_requests
            for resource in request.resource_logs
            for scope in resource.scope_logs
            for record in scope.log_records
        ]

    @property
    def metrics(self) -> dict[str, Any]:
        """The latest state of each metric of ragmeter's, by name."""
        return {
            metric.name: metric
            for request in self.metric_requests
            for resource in request.resource_metrics
            for scope in resource.scope_metrics
            if scope.scope.name == "ragmeter"
            for metric in scope.metrics
        }
