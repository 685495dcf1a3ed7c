"""The OTLP endpoint of one signal, from the standard ``OTEL_EXPORTER_OTLP_*`` variables.

The variables of one signal take precedence over the general ones; their values are never shown.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from urllib.parse import urlsplit

from opentelemetry.util.re import parse_env_headers

from ragmeter.exporters._otlp import GRPC_PORT, VARIABLE, Protocol, host_and_port, otlp_setting
from ragmeter.metrics import ConfigurationError

_TIMEOUT_S = 10.0
_MAX_TIMEOUT_S = 3600.0


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Address, protocol and options for one signal."""

    protocol: Protocol
    url: str = field(repr=False)
    """Full address; over HTTP with the signal's path. May contain a password."""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Headers of every request; may contain keys."""
    timeout_s: float = _TIMEOUT_S
    """Timeout of one attempt in seconds."""
    gzip: bool = False
    """Whether bodies are compressed."""
    secure: bool = False
    """Whether the connection uses TLS."""
    certificate: str | None = None
    """Path of the trusted certificates; None: the system's."""
    client_key: str | None = None
    """Path of the client's key."""
    client_certificate: str | None = None
    """Path of the client's certificate."""

    @property
    def shown(self) -> str:
        """The address without user, password and query."""
        return self.origin + urlsplit(self.url).path

    @property
    def origin(self) -> str:
        """The address without user, password, path and query."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"

    @property
    def address(self) -> tuple[str, int]:
        """Host and port."""
        return host_and_port(self.url)


def endpoint_of(
    signal: str, environ: Mapping[str, str], *, url: str | None = None, protocol: str | None = None
) -> Endpoint | None:
    """Return the endpoint of `signal` (``traces``, ``logs``, ``metrics``), or None if none is set.

    There is no default address: it would be this server's own.

    Args:
        signal: The signal.
        environ: The environment's variables.
        url: A base address that takes precedence over the variables.
        protocol: ``http/protobuf`` or ``grpc``; takes precedence over the variables.

    Raises:
        ConfigurationError: A variable is invalid.
    """
    setting = partial(otlp_setting, signal, environ=environ)
    own = "" if url else environ.get(f"{VARIABLE}{signal.upper()}_ENDPOINT", "").strip()
    given = url or setting("ENDPOINT")
    if not given:
        return None
    variable = "--otlp" if url else f"{VARIABLE}{signal.upper()}_ENDPOINT" if own else f"{VARIABLE}ENDPOINT"
    if "://" not in given:
        given = f"{'http' if setting('INSECURE').lower() == 'true' else 'https'}://{given}"
    try:
        parts = urlsplit(given)
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        # The value is not quoted: it may contain a password.
        raise ConfigurationError(f"{variable} is no address; write for example http://localhost:4318")
    chosen = _protocol(protocol or setting("PROTOCOL"), port)
    if chosen == "http/protobuf" and not own:
        given = parts._replace(path=f"{parts.path.rstrip('/')}/v1/{signal}").geturl()
    return Endpoint(
        protocol=chosen,
        url=given,
        headers=dict(parse_env_headers(setting("HEADERS"), liberal=True)),
        timeout_s=_timeout_s(setting("TIMEOUT")),
        gzip=setting("COMPRESSION").lower() == "gzip",
        secure=parts.scheme == "https",
        certificate=setting("CERTIFICATE") or None,
        client_key=setting("CLIENT_KEY") or None,
        client_certificate=setting("CLIENT_CERTIFICATE") or None,
    )


def _protocol(setting: str, port: int | None) -> Protocol:
    """Return the protocol; by default gRPC for port 4317 and HTTP for everything else."""
    if setting == "grpc" or (not setting and port == GRPC_PORT):
        return "grpc"
    if setting in ("", "http/protobuf", "http/json"):  # what takes JSON takes protobuf, too
        return "http/protobuf"
    raise ConfigurationError(f"{VARIABLE}PROTOCOL is {setting!r}; allowed are http/protobuf and grpc")


def _timeout_s(setting: str) -> float:
    if not setting:
        return _TIMEOUT_S
    try:
        # The specification has milliseconds; OpenTelemetry for Python reads seconds, as this server does.
        seconds = float(setting)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= _MAX_TIMEOUT_S:
        raise ConfigurationError(f"{VARIABLE}TIMEOUT is {setting!r}; give seconds, e.g. 10")
    return seconds
