"""Addresses and protocols of OTLP; needs no SDK."""

from __future__ import annotations

import socket
from urllib.parse import urlsplit

from ragmeter.exporters._otlp import GRPC_PORT, Protocol
from ragmeter.metrics import ConfigurationError


def signal_address(url: str, protocol: str, signal: str) -> str:
    """Return the address of a signal: over HTTP with its path."""
    return url if protocol == "grpc" else f"{url.rstrip('/')}/v1/{signal}"


def why_unreachable(place: tuple[str, int], seconds: float) -> str | None:
    """Return why nothing accepts a connection there; None: something does."""
    try:
        socket.create_connection(place, seconds).close()
    except OSError as error:
        return error.strerror or str(error) or type(error).__name__
    return None


def choose_protocol(url: str, protocol: str | None) -> Protocol:
    """Return `protocol`, or gRPC for port 4317 and HTTP for everything else."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise ConfigurationError(f"--otlp {url!r} is not a URL: {error}") from error
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigurationError(f"--otlp {url!r} is not a URL; write for example http://localhost:4318")
    if protocol in ("http", "http/protobuf"):
        return "http/protobuf"
    if protocol == "grpc" or (protocol is None and port == GRPC_PORT):
        return "grpc"
    if protocol is None:
        return "http/protobuf"
    raise ConfigurationError(f"--protocol {protocol!r}: allowed are http/protobuf and grpc")
