"""`OtlpSender`: sends one export request, as bytes, over HTTP or gRPC, and reports the outcome.

It distinguishes temporary failures (no answer, too many requests, a rejected key that may be corrected) from
refusals for good, by OTLP's specification. The caller decides how long to retry. Reports contain no key,
address or text.
"""

from __future__ import annotations

import gzip
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import grpc
from google.protobuf.message import DecodeError
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from ragmeter.adapters.opentelemetry.otlp import Signal
from ragmeter.exporters._bounded_http import BoundedClient
from ragmeter.metrics import ConfigurationError
from ragmeter.metrics._process.retry import asked_pause_s, pause_before
from ragmeter.metrics.errors import loggable

from ._endpoint import Endpoint

LONGEST_ASKED_PAUSE_S = 300.0
"""Longest pause that an endpoint may ask for; a longer one is shortened to this."""

_METHODS: dict[Signal, str] = {
    "traces": "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
    "logs": "/opentelemetry.proto.collector.logs.v1.LogsService/Export",
}
_PASSING = frozenset({408, 429, 502, 503, 504})
_KEY = frozenset({401, 403})
_PASSING_CODES = frozenset(
    {
        grpc.StatusCode.CANCELLED,
        grpc.StatusCode.DEADLINE_EXCEEDED,
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        grpc.StatusCode.ABORTED,
        grpc.StatusCode.OUT_OF_RANGE,
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.DATA_LOSS,
        grpc.StatusCode.UNAUTHENTICATED,
        grpc.StatusCode.PERMISSION_DENIED,
    }
)
_DETAILS = "grpc-status-details-bin"


class Answer(NamedTuple):
    """The outcome of one attempt."""

    problem: str | None = None
    """Reason of the failure, as a word to count by: ``status_503``, ``unavailable``; None: accepted."""
    passing: bool = False
    """Whether the failure is temporary."""
    pause_s: float | None = None
    """The pause requested by the endpoint."""
    rejected: int = 0
    """Number of spans or log records rejected within an accepted request."""


class OtlpSender:
    """Sends the requests of one signal to one endpoint. One thread at a time.

    Raises:
        ConfigurationError: A certificate cannot be read.
    """

    def __init__(self, signal: Signal, endpoint: Endpoint) -> None:
        self._signal: Signal = signal
        self._endpoint = endpoint
        self._close: Callable[[], None]
        try:
            self.send = self._over_grpc() if endpoint.protocol == "grpc" else self._over_http()
        except OSError as error:
            raise ConfigurationError(
                f"a certificate or key of OTEL_EXPORTER_OTLP_* cannot be read ({loggable(error)})"
            ) from error

    send: Callable[[bytes], Answer]
    """Send a serialised export request once, and return the outcome."""

    def send_patiently(self, body: bytes, rest: Callable[[float, Answer], bool], *, longest_s: float) -> Answer:
        """Send until accepted, refused for good, or out of time; the last answer is then a temporary failure.

        Args:
            body: A serialised export request.
            rest: Waits for a number of seconds after an answer; returns whether there is time for another
                attempt.
            longest_s: Longest pause between two attempts, unless the endpoint asks for more.
        """
        retry = 0
        while (answer := self.send(body)).passing:
            if not rest(pause_before(retry, answer.pause_s, longest_s=longest_s), answer):
                break
            retry += 1
        return answer

    def close(self) -> None:
        """Release the connections."""
        self._close()

    def _over_http(self) -> Callable[[bytes], Answer]:
        # Takes some 15 MB, which only a server that sends over HTTP needs.
        import httpx  # noqa: PLC0415

        endpoint = self._endpoint
        headers = {**endpoint.headers, "content-type": "application/x-protobuf"}
        if endpoint.gzip:
            headers["content-encoding"] = "gzip"
        client = BoundedClient(headers, endpoint.timeout_s, verify=_trust(endpoint))
        self._close = client.close

        def send(body: bytes) -> Answer:
            # Level 1 takes a third of the default's time, and the result is nearly as small.
            content = gzip.compress(body, 1) if endpoint.gzip else body
            try:
                reply = client.send("POST", endpoint.url, content)
            except httpx.TimeoutException:
                return Answer("timeout", passing=True)
            except (httpx.HTTPError, httpx.InvalidURL):
                return Answer("unavailable", passing=True)
            status = reply.status
            if 200 <= status < 300:
                return Answer(rejected=self._count_rejected(reply.body or b""))
            pause_s = asked_pause_s(status, reply.headers, longest_s=LONGEST_ASKED_PAUSE_S)
            return Answer(f"status_{status}", status in _PASSING or status in _KEY, pause_s)

        return send

    def _over_grpc(self) -> Callable[[bytes], Answer]:
        endpoint = self._endpoint
        host, port = endpoint.address
        target = f"{f'[{host}]' if ':' in host else host}:{port}"
        compression = grpc.Compression.Gzip if endpoint.gzip else grpc.Compression.NoCompression
        if endpoint.secure:
            shown = (endpoint.certificate, endpoint.client_key, endpoint.client_certificate)
            trusted = grpc.ssl_channel_credentials(
                *(None if path is None else Path(path).read_bytes() for path in shown)
            )
            channel = grpc.secure_channel(target, trusted, compression=compression)
        else:
            channel = grpc.insecure_channel(target, compression=compression)
        self._close = channel.close
        export: Any = channel.unary_unary(_METHODS[self._signal])
        metadata = tuple((name.lower(), value) for name, value in endpoint.headers.items())

        def send(body: bytes) -> Answer:
            try:
                answer: bytes = export(body, timeout=endpoint.timeout_s, metadata=metadata)
            except grpc.RpcError as error:
                failure: Any = error
                code: grpc.StatusCode = failure.code()
                return Answer(code.name.lower(), code in _PASSING_CODES, _grpc_pause_s(failure))
            return Answer(rejected=self._count_rejected(answer))

        return send

    def _count_rejected(self, answer: bytes) -> int:
        """Return the number of rejected items in an answer; 0 if the answer is invalid."""
        try:
            if self._signal == "traces":
                traces = ExportTraceServiceResponse.FromString(answer)
                return max(0, int(traces.partial_success.rejected_spans))
            logs = ExportLogsServiceResponse.FromString(answer)
            return max(0, int(logs.partial_success.rejected_log_records))
        except DecodeError:
            return 0


def _trust(endpoint: Endpoint) -> ssl.SSLContext | bool:
    if not endpoint.secure or not (endpoint.certificate or endpoint.client_certificate):
        return True
    context = ssl.create_default_context(cafile=endpoint.certificate)
    if endpoint.client_certificate is not None:
        context.load_cert_chain(endpoint.client_certificate, endpoint.client_key)
    return context


def _grpc_pause_s(failure: Any) -> float | None:
    for name, value in failure.trailing_metadata() or ():
        if name == _DETAILS:
            try:
                details = Status.FromString(value).details
            except DecodeError:
                return None
            for detail in details:
                asked = RetryInfo()
                if detail.Unpack(asked):
                    seconds = float(asked.retry_delay.seconds) + asked.retry_delay.nanos / 1e9
                    return float(min(max(0.0, seconds), LONGEST_ASKED_PAUSE_S))
    return None
