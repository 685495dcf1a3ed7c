"""A backend for any vendor: accepts OTLP over HTTP and gRPC, and Azure's records; responds 200 to the rest."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, NamedTuple

import grpc
from loopback_server import LoopbackServer, Received
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from otlp_receiver import attributes_of

__all__ = ["Arrived", "Backend", "backend"]

_KINDS = {
    "traces": (ExportTraceServiceRequest, "resource_spans", "scope_spans", "spans"),
    "logs": (ExportLogsServiceRequest, "resource_logs", "scope_logs", "log_records"),
    "metrics": (ExportMetricsServiceRequest, "resource_metrics", "scope_metrics", "metrics"),
}
_AZURE = {"RequestData": "traces", "RemoteDependencyData": "traces", "MessageData": "logs"}
_AZURE |= {"MetricData": "metrics", "EventData": "logs", "ExceptionData": "logs"}
_TOKEN = ".".join(
    base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=")
    for part in ({"alg": "none"}, {"exp": 9_999_999_999, "project_id": "p"}, {})
)
_YES = {"token": _TOKEN, "project_id": "p", "project_prem_status": "pro", "status": "ok", "data": []}
_YES |= {"itemsReceived": 0, "itemsAccepted": 0, "errors": [], "rate_by_service": {}}


class Arrived(NamedTuple):
    """One span, log record or metric."""

    signal: str
    name: str
    scope: str
    trace: str
    span: str
    parent: str
    attributes: dict[str, Any]
    text: str
    """All of it, as text."""


class Backend:
    """The destination of a vendor's application, and its received data."""

    def __init__(self, url: str, grpc_port: int) -> None:
        self.url = url
        self.grpc_port = grpc_port
        self.arrived: list[Arrived] = []

    def clear(self) -> None:
        """Drop the received data."""
        self.arrived = []

    def take(self, path: str, body: bytes) -> None:
        """Read one request."""
        signal = path.rstrip("/").rsplit("/", 1)[-1]
        if signal in _KINDS:
            self._take_otlp(signal, body)
        elif signal == "track":
            for line in body.splitlines():
                one = json.loads(line)
                for each in one if isinstance(one, list) else [one]:
                    self._take_azure(each)

    def _take_otlp(self, signal: str, body: bytes) -> None:
        message, resources, scopes, items = _KINDS[signal]
        for resource in getattr(message.FromString(body), resources):
            for scope in getattr(resource, scopes):
                for one in getattr(scope, items):
                    attributes = attributes_of(one) if hasattr(one, "attributes") else {}
                    name = getattr(one, "name", "") or getattr(one, "event_name", "")
                    self.arrived.append(
                        Arrived(
                            signal,
                            name,
                            _scope(scope.scope.name, name, attributes),
                            getattr(one, "trace_id", b"").hex(),
                            getattr(one, "span_id", b"").hex(),
                            getattr(one, "parent_span_id", b"").hex(),
                            attributes,
                            str(one),
                        )
                    )

    def _take_azure(self, one: dict[str, Any]) -> None:
        base = one["data"]["baseData"]
        properties = base.get("properties") or {}
        tags = one.get("tags") or {}
        metric = (base.get("metrics") or [{}])[0].get("name", "")
        name = metric or base.get("name") or base.get("message", "")
        self.arrived.append(
            Arrived(
                _AZURE.get(one["data"]["baseType"], "other"),
                name,
                _scope("", name, properties),
                tags.get("ai.operation.id", ""),
                base.get("id", ""),
                tags.get("ai.operation.parentId", ""),
                properties,
                json.dumps(one),
            )
        )


def _scope(said: str, name: str, attributes: dict[str, Any]) -> str:
    # Azure and Datadog store no scope: ragmeter's data is recognised by its names.
    names = () if said else (name, *attributes)
    ours = any(str(key).startswith(("ragmeter.", "gen_ai.evaluation")) for key in names)
    return "ragmeter" if ours else said


class _KeptAlive(LoopbackServer):
    protocol = "HTTP/1.1"


@contextmanager
def backend() -> Iterator[Backend]:
    """Run a backend on loopback."""

    def reply(received: Received) -> Any:
        body, kind = received.body, received.headers.get("Content-Type", "application/json")
        if received.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        taken.take(received.path.partition("?")[0], body)
        return 200, b"" if "protobuf" in kind else _ANSWER, {"Content-Type": kind}

    class Calls(grpc.GenericRpcHandler):
        def service(self, call: Any) -> Any:
            signal = call.method.split(".")[3]  # /opentelemetry.proto.collector.trace.v1...

            def export(body: bytes, _: Any) -> bytes:
                taken.take({"trace": "traces"}.get(signal, signal), body)
                return b""

            return grpc.unary_unary_rpc_method_handler(export)

    with ThreadPoolExecutor(4) as pool, _KeptAlive(reply) as http:
        calls = grpc.server(pool, handlers=(Calls(),))
        port = calls.add_insecure_port("127.0.0.1:0")
        taken = Backend(http.url, port)
        calls.start()
        try:
            yield taken
        finally:
            calls.stop(None).wait(60)


_ANSWER = json.dumps(_YES).encode()
