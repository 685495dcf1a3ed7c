"""What an SDK of ragmeter's own needs for OTLP: signals, variables, the SDK's exporters, and a name."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib import import_module
from typing import Any, Literal
from urllib.parse import urlsplit

from ragmeter.metrics import MissingDependencyError

from ._bounded_http import own_session

Protocol = Literal["http/protobuf", "grpc"]
GRPC_PORT = 4317
VARIABLE = "OTEL_EXPORTER_OTLP_"
"""Prefix of OpenTelemetry's variables."""
SIGNALS = ("traces", "logs", "metrics")
_EXPORTERS = {
    "traces": ("trace_exporter", "OTLPSpanExporter"),
    "logs": ("_log_exporter", "OTLPLogExporter"),
    "metrics": ("metric_exporter", "OTLPMetricExporter"),
}


def otlp_setting(signal: str, name: str, environ: Mapping[str, str]) -> str:
    """Return what the variables say of a signal, e.g. its ``PROTOCOL``; empty: nothing."""
    own = environ.get(f"{VARIABLE}{signal.upper()}_{name}", "").strip()
    return own or environ.get(VARIABLE + name, "").strip()


def host_and_port(url: str) -> tuple[str, int]:
    """Return where an address leads."""
    parts = urlsplit(url)
    return parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)


def otlp_exporter(signal: str, protocol: str, **options: Any) -> Any:
    """Return the SDK's exporter of a signal, which reads OpenTelemetry's variables for absent options.

    Raises:
        MissingDependencyError: Its package is not installed.
    """
    package = "grpc" if protocol == "grpc" else "http"
    module, name = _EXPORTERS[signal]
    try:
        kind: Any = getattr(import_module(f"opentelemetry.exporter.otlp.proto.{package}.{module}"), name)
    except ImportError:
        raise MissingDependencyError(f"opentelemetry-exporter-otlp-proto-{package}", "otlp", "--otlp") from None
    if package == "grpc":
        insecure = {"insecure": options["endpoint"].startswith("http://")} if "endpoint" in options else {}
        return kind(**options, **insecure)
    # A redirect must not count as accepted: scores would be lost, and a worker's message acknowledged.
    return kind(session=own_session(), **options)


def named_resource(service_name: str, **attributes: str) -> dict[str, str]:
    """Return attributes of a resource, with this name unless a variable sets another one."""
    listed = os.environ.get("OTEL_RESOURCE_ATTRIBUTES", "")
    named = os.environ.get("OTEL_SERVICE_NAME") or "service.name=" in listed
    return attributes if named else {"service.name": service_name, **attributes}
