"""The server: receives telemetry, finds the RAG requests in it and has them scored.

Needs the extra ``[serve]``.
"""

from __future__ import annotations

from ragmeter.metrics import MissingDependencyError

try:
    from .kafka_options import KafkaOptions
    from .options import ServeOptions
    from .server import Server
except ModuleNotFoundError as error:
    _packages = {
        "starlette": "starlette",
        "uvicorn": "uvicorn",
        "grpc": "grpcio",
        "requests": "requests",
    }
    _package = _packages.get((error.name or "").partition(".")[0])
    if _package is None and (error.name or "").startswith(("opentelemetry", "google")):
        _package = "opentelemetry-sdk"
    if _package is None:
        raise
    raise MissingDependencyError(_package, "serve", "ragmeter serve") from None

__all__ = ["KafkaOptions", "ServeOptions", "Server"]
