"""Checks the destinations of the standard ``OTEL_*`` variables, and whether anything listens there.

Opens a TCP connection to each endpoint and closes it again; `_trial` sends telemetry.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from ragmeter.cli._otlp import choose_protocol, signal_address, why_unreachable
from ragmeter.exporters._otlp import SIGNALS, Protocol, host_and_port, otlp_setting
from ragmeter.metrics import ConfigurationError
from ragmeter.metrics.errors import install_command

from ._findings import CONFIGURED, REACHABLE, Finding
from ._packages import installed_version

CONNECT_S = 3.0
"""Seconds to wait for a connection."""
_ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
_PROTOCOL = "OTEL_EXPORTER_OTLP_PROTOCOL"


@dataclass(frozen=True, slots=True)
class Destination:
    """Address and protocol for one signal over OTLP."""

    signal: str
    """``traces``, ``logs`` or ``metrics``."""
    protocol: Protocol
    endpoint: str
    """The full address: over HTTP with the signal's path."""
    variable: str

    @property
    def secrets(self) -> tuple[str, ...]:
        """The parts of the address that must not be shown."""
        parts = urlsplit(self.endpoint)
        return tuple(part for part in (parts.username, parts.password, parts.query) if part)


def find_destinations(url: str | None, environ: Mapping[str, str]) -> tuple[list[Destination], list[Finding]]:
    """Return the OTLP destinations, by `url` or the environment, and findings about signals without one."""
    destinations: list[Destination] = []
    findings: list[Finding] = []
    for signal in SIGNALS:
        try:
            found = _destination(signal, url, environ)
        except ConfigurationError:
            # The message would contain the whole address, which may have a password.
            found = CONFIGURED.failed(
                signal,
                "the endpoint is no address, or the protocol unknown",
                f"correct {'--otlp' if url else _ENDPOINT}, e.g. http://localhost:4318; protocols are "
                "grpc and http/protobuf",
            )
        if isinstance(found, Destination):
            destinations.append(found)
        else:
            findings.append(found)
    if len(findings) == len(SIGNALS) and not any(one.state == "failed" for one in findings):
        detail = "; ".join(f"{one.what}: {one.detail}" for one in findings)
        fix = f"set {_ENDPOINT}, or pass --otlp URL; fine if the application sets up its SDK in code"
        return [], [CONFIGURED.warning("exporter", detail, fix)]
    if url is None:
        findings += _guessed_protocol(destinations, environ)
    return destinations, findings


def _guessed_protocol(destinations: list[Destination], environ: Mapping[str, str]) -> Iterator[Finding]:
    """Warn if auto-instrumentation would use another protocol than this examination.

    Without the variable, an exporter made in code for HTTP works, as does the doctor's; but
    ``opentelemetry-instrument`` uses gRPC (opentelemetry-distro 0.66b1), for any address.
    """
    guessed = [
        one.signal
        for one in destinations
        if one.protocol == "http/protobuf" and not otlp_setting(one.signal, "PROTOCOL", environ)
    ]
    if guessed and installed_version("opentelemetry-distro") is not None:
        yield CONFIGURED.warning(
            _PROTOCOL,
            f"not set: tried over HTTP below, but opentelemetry-instrument sends {', '.join(guessed)} "
            "over gRPC then, and an HTTP address takes none of it",
            f"set {_PROTOCOL}=http/protobuf, unless the application makes its exporters in code",
        )


def _destination(signal: str, url: str | None, environ: Mapping[str, str]) -> Destination | Finding:
    if url is not None:
        protocol = choose_protocol(url, None)
        return Destination(signal, protocol, signal_address(url, protocol, signal), "--otlp")
    upper = signal.upper()
    exporters = environ.get(f"OTEL_{upper}_EXPORTER", "").replace(" ", "").split(",")
    own, shared = f"OTEL_EXPORTER_OTLP_{upper}_ENDPOINT", _ENDPOINT
    variable = own if environ.get(own) else shared
    endpoint = environ.get(variable)
    if "none" in exporters:
        instead = "scores' events go nowhere; RAGMETER_EVENTS=span_event puts them on the spans"
        return CONFIGURED.skipped(
            signal, f"not sent: OTEL_{upper}_EXPORTER=none", instead if signal == "logs" else ""
        )
    if exporters != [""] and "otlp" not in exporters:
        return _other_exporter(signal, exporters)
    wanted = otlp_setting(signal, "PROTOCOL", environ) or None
    if not endpoint and "otlp" in exporters:
        endpoint = f"http://localhost:{4318 if wanted == 'http/protobuf' else 4317}"  # the SDK's default
    if not endpoint:
        return CONFIGURED.skipped(signal, "no endpoint configured")
    if "://" not in endpoint:
        insecure = environ.get("OTEL_EXPORTER_OTLP_INSECURE", "").lower() == "true"
        endpoint = f"{'http' if insecure else 'https'}://{endpoint}"
    protocol = choose_protocol(endpoint, wanted)
    if variable == shared:
        endpoint = signal_address(endpoint, protocol, signal)
    return Destination(signal, protocol, endpoint, variable)


def _other_exporter(signal: str, exporters: list[str]) -> Finding:
    names = ", ".join(exporters)
    if "prometheus" in exporters and installed_version("opentelemetry-exporter-prometheus") is None:
        return CONFIGURED.failed(
            signal,
            "OTEL_METRICS_EXPORTER=prometheus, whose package is not installed",
            install_command("prometheus"),
        )
    return CONFIGURED.ok(signal, f"exporter {names}: the application's own; not tried here")


def check_backends(destinations: list[Destination]) -> Iterator[Finding]:
    """Yield whether anything listens at each address."""
    by_place: dict[tuple[str, int], list[Destination]] = {}
    for one in destinations:
        by_place.setdefault(host_and_port(one.endpoint), []).append(one)
    for place, there in sorted(by_place.items(), key=lambda item: item[0]):
        where = f"{place[0]}:{place[1]} ({', '.join(one.signal for one in there)})"
        if why := why_unreachable(place, CONNECT_S):
            fix = f"start what should listen there, or correct {there[0].variable}"
            yield REACHABLE.failed(where, why, fix)
        else:
            yield REACHABLE.ok(where, "accepts connections")
