"""The server: receives telemetry, finds the RAG requests in it and has them scored.

Needs the extra ``[serve]``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ragmeter.metrics import MissingDependencyError
from ragmeter.metrics._process.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from .front import Front
    from .kafka_options import KafkaOptions
    from .options import ServeOptions
    from .server import Server

__all__ = ["Front", "KafkaOptions", "ServeOptions", "Server"]

_HOMES = {"Front": "front", "KafkaOptions": "kafka_options", "ServeOptions": "options"}
_PACKAGES = {
    "starlette": "starlette",
    "uvicorn": "uvicorn",
    "grpc": "grpcio",
    "requests": "requests",
    "opentelemetry": "opentelemetry-sdk",
    "google": "opentelemetry-sdk",
}
_get, __dir__ = lazy_exports(__name__, __all__, _HOMES, "server")


def __getattr__(name: str) -> Any:
    """Import a public name on first use: the page is there before `Server` is imported."""
    try:
        return _get(name)
    except ModuleNotFoundError as error:
        package = _PACKAGES.get((error.name or "").partition(".")[0])
        if package is None:
            raise
        raise MissingDependencyError(package, "serve", "ragmeter serve") from None
