"""OTLP over gRPC: ``Export`` of the trace and the logs service, and of the metrics service, which is ignored.

Services and methods are named by the descriptors of ``opentelemetry-proto``. Bodies arrive as bytes and are
parsed here, so that a malformed one is answered with the reason, as over HTTP.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import grpc
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.duration_pb2 import Duration
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.logs.v1 import logs_service_pb2
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2

from ragmeter.adapters.opentelemetry.otlp import Signal
from ragmeter.metrics import RagmeterError

from ._access import Access
from ._answers import Answer, answer_to
from ._bodies import TooLargeError
from ._counts import Counts
from ._intake import BusyError, Intake
from ._limits import KEEP_ALIVE_S, RETRY_AFTER_S, Limits
from ._readers import FailedError, Readers


def grpc_server(
    intake: Intake, limits: Limits, counts: Counts, readers: Readers, access: Access
) -> grpc.Server:
    """Return a server that is not bound to a port yet."""
    calls = _Calls(limits.calls, thread_name_prefix="ragmeter-grpc")
    server = grpc.server(
        calls,
        options=[
            ("grpc.max_receive_message_length", limits.body_bytes),
            # Two servers on one port would each get some of the spans of a trace.
            ("grpc.so_reuseport", 0),
            ("grpc.server_handshake_timeout_ms", int(limits.header_s * 1000)),
            ("grpc.max_connection_idle_ms", int(KEEP_ALIVE_S * 1000)),
            ("grpc.max_allowed_incoming_connections", limits.connections // 2),
        ],
        # Beyond this, gRPC itself refuses without a hint when to retry, so that no sender retries.
        maximum_concurrent_rpcs=limits.connections,
    )
    services: list[tuple[Any, str, Signal | None]] = [
        (trace_service_pb2, "TraceService", "traces"),
        (logs_service_pb2, "LogsService", "logs"),
        (metrics_service_pb2, "MetricsService", None),
    ]
    bodies = _Bodies(limits, counts)
    for module, name, signal in services:
        service = module.DESCRIPTOR.services_by_name[name]
        (method,) = service.methods
        export = _Export(intake, signal, counts, readers, bodies, access)
        path = f"/{service.full_name}/{method.name}"
        server.add_generic_rpc_handlers((_Method(path, export, calls, limits.connections // 8),))
    server.add_generic_rpc_handlers((_UnknownMethod(counts, access),))
    return server


class _MissingBodyError(RagmeterError):
    """The sender has gone, or the library has refused the body for its size."""


class _Bodies:
    """Receives the bodies of calls, within limits of time and size.

    A thread waits for each, which only the end of its call wakes.
    """

    def __init__(self, limits: Limits, counts: Counts) -> None:
        self._limits = limits
        self._counts = counts
        self._lock = threading.Lock()
        self._waiting: deque[tuple[float, grpc.ServicerContext, list[bool]]] = deque()
        self._held = 0
        self._is_watched = False

    def receive(self, coming: Iterator[bytes], context: grpc.ServicerContext) -> bytes:
        """Return the body of a call; raises `BusyError` for want of room, or `_MissingBodyError`."""
        come: list[bool] = []
        with self._lock:
            self._waiting.append((time.monotonic() + self._limits.call_s, context, come))
            self._watch()
        try:
            body = next(coming)
        except (StopIteration, grpc.RpcError):
            raise _MissingBodyError("no body, or a larger one than is received") from None
        come.append(True)
        with self._lock:
            self._held += len(body)
            if self._held <= self._limits.bodies_bytes:
                return body
            self._held -= len(body)
        raise BusyError("too many bodies at once")

    def release(self, body: bytes) -> None:
        """Subtract a body that was read."""
        with self._lock:
            self._held -= len(body)

    def _watch(self) -> None:
        if not self._is_watched and self._waiting:
            self._is_watched = True
            left = max(0.0, self._waiting[0][0] - time.monotonic())
            watch = threading.Timer(left, self._end_overdue)
            watch.daemon = True
            watch.start()

    def _end_overdue(self) -> None:
        """End the calls whose body did not arrive in time."""
        now = time.monotonic()
        with self._lock:
            while self._waiting and (self._waiting[0][2] or self._waiting[0][0] <= now):
                _, context, come = self._waiting.popleft()
                if not come and context.is_active():
                    self._counts.export("slow")
                    context.cancel()
            self._is_watched = False
            self._watch()


class _Calls(ThreadPoolExecutor):
    """The threads that answer calls, with a count of calls."""

    _lock = threading.Lock()
    under_way = 0
    """Calls that are being answered, or waiting for a thread."""

    def submit(self, *job: Any, **named: Any) -> Future[Any]:
        with self._lock:
            self.under_way += 1
        try:
            future = super().submit(*job, **named)
        except BaseException:
            self._end_call()
            raise
        future.add_done_callback(self._end_call)
        return future

    def _end_call(self, _: object = None) -> None:
        with self._lock:
            self.under_way -= 1


class _Method(grpc.GenericRpcHandler):  # type: ignore[misc]
    """Chooses the handler of a call, before any of its body is received.

    Args:
        path: Path of the method.
        export: Handles the call.
        calls: The calls in progress.
        most: Most calls in progress; senders of further ones are asked to retry.
    """

    def __init__(self, path: str, export: _Export, calls: _Calls, most: int) -> None:
        self._path = path
        # A stream of one message looks the same as a unary call, but its body is received only on request.
        self._export = grpc.stream_unary_rpc_method_handler(export)
        self._refusal = grpc.stream_unary_rpc_method_handler(export.refuse)
        self._calls = calls
        self._most = most

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[Any, Any] | None:
        if handler_call_details.method != self._path:
            return None
        return self._export if self._calls.under_way < self._most else self._refusal


class _UnknownMethod(grpc.GenericRpcHandler):  # type: ignore[misc]
    """Takes the calls of all other methods: the library would refuse them uncounted, without a remedy."""

    def __init__(self, counts: Counts, access: Access) -> None:
        self._counts = counts
        self._access = access

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[Any, Any]:
        def refuse(_: object, context: grpc.ServicerContext) -> bytes:
            _admit(context, self._access, self._counts)
            self._counts.export("grpc_method")
            context.abort(
                grpc.StatusCode.UNIMPLEMENTED,
                f"no method {handler_call_details.method[:120]}: OTLP is taken by Export of TraceService, "
                "LogsService and MetricsService, as OpenTelemetry's exporters call it",
            )
            return b""  # not reached: `abort` raises

        return grpc.stream_unary_rpc_method_handler(refuse)


@dataclass(frozen=True)
class _Export:
    intake: Intake
    signal: Signal | None
    counts: Counts
    readers: Readers
    bodies: _Bodies
    access: Access

    def __call__(self, coming: Iterator[bytes], context: grpc.ServicerContext) -> bytes:
        _admit(context, self.access, self.counts)
        try:
            answer = self._answer(coming, context)
        except RagmeterError as error:
            self._refuse(context, error)
            return b""  # not reached: `abort` raises
        self.counts.export("accepted" if self.signal is not None else "metrics")
        return bytes(answer.SerializeToString())

    def _answer(self, coming: Iterator[bytes], context: grpc.ServicerContext) -> Answer:
        why = self.intake.busy() or self.readers.why_not()
        if why is not None:
            raise BusyError(why)  # known without receiving the body
        body = self.bodies.receive(coming, context)
        try:
            return self.readers.read(partial(answer_to, self.intake, self.signal, body))
        finally:
            self.bodies.release(body)

    def refuse(self, _: object, context: grpc.ServicerContext) -> bytes:
        """Refuse a call without receiving its body: too many are in progress."""
        _admit(context, self.access, self.counts)
        self._refuse(context, BusyError("too many calls at once"))
        return b""  # not reached, as above

    def _refuse(self, context: grpc.ServicerContext, error: RagmeterError) -> None:
        if isinstance(error, BusyError):
            self.counts.busy(str(error))
            _try_later(context, str(error))
        outcome, code = "malformed", grpc.StatusCode.INVALID_ARGUMENT
        if isinstance(error, TooLargeError):
            # Without a hint when to retry, as it would be as large again.
            outcome, code = "too_large", grpc.StatusCode.RESOURCE_EXHAUSTED
        if isinstance(error, _MissingBodyError):
            outcome = "broken_off"
        if isinstance(error, FailedError):
            outcome, code = "error", grpc.StatusCode.INTERNAL
        self.counts.export(outcome)
        context.abort(code, str(error))


def _admit(context: grpc.ServicerContext, access: Access, counts: Counts) -> None:
    said = dict(context.invocation_metadata() or ())
    if not access.knows(str(said.get("authorization", ""))):
        counts.export("token")
        context.abort(
            grpc.StatusCode.UNAUTHENTICATED,
            "a token is needed: set OTEL_EXPORTER_OTLP_HEADERS='authorization=Bearer%20TOKEN'",
        )


def _try_later(context: grpc.ServicerContext, why: str) -> None:
    """Refuse a call that may be repeated, with the time to wait."""
    info = RetryInfo(retry_delay=Duration(seconds=RETRY_AFTER_S))
    details = AnyMessage()
    details.Pack(info)
    code = grpc.StatusCode.RESOURCE_EXHAUSTED
    status = Status(code=code.value[0], message=why, details=[details])
    context.set_trailing_metadata(
        (
            ("grpc-status-details-bin", status.SerializeToString()),
            # Read by OpenTelemetry's Python exporters.
            ("google.rpc.retryinfo-bin", info.SerializeToString()),
        )
    )
    context.abort(code, why)
