"""OTLP over gRPC: ``Export`` of the trace and the logs service, and of the metrics service, passed over.

Services and methods are named by the descriptors of ``opentelemetry-proto``.  Bodies come as bytes and are
read here, so that a malformed one is answered with the reason, as over HTTP.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import Any

import grpc
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.duration_pb2 import Duration
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.logs.v1 import logs_service_pb2
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2

from ragmeter.adapters.opentelemetry.otlp import Signal, parse_protobuf
from ragmeter.metrics import RagmeterError

from ._access import Access
from ._answers import Answer, answer_to, answer_to_metrics
from ._bodies import TooLargeError
from ._intake import RETRY_AFTER_S, BusyError, Intake
from ._limits import Limits

__all__ = ["grpc_server"]


def grpc_server(
    intake: Intake,
    limits: Limits,
    counted: Callable[[str], None],
    guard: AbstractContextManager[None],
    access: Access,
) -> grpc.Server:
    """Return a server that is bound to no port yet.

    Args:
        intake: Takes what was received.
        limits: Of bodies and of calls.
        counted: Counts a call by its outcome.
        guard: Contains errors of ours.
        access: What senders must know.
    """
    server = grpc.server(
        ThreadPoolExecutor(limits.readers, thread_name_prefix="ragmeter-grpc"),
        options=[
            ("grpc.max_receive_message_length", limits.body_bytes),
            # Two servers of one port would each get some of the spans of a trace.
            ("grpc.so_reuseport", 0),
        ],
        maximum_concurrent_rpcs=limits.connections // 8,
    )
    services: list[tuple[Any, str, Signal | None]] = [
        (trace_service_pb2, "TraceService", "traces"),
        (logs_service_pb2, "LogsService", "logs"),
        (metrics_service_pb2, "MetricsService", None),
    ]
    for module, name, signal in services:
        service = module.DESCRIPTOR.services_by_name[name]
        (method,) = service.methods
        handler = grpc.unary_unary_rpc_method_handler(
            _Export(intake, signal, counted, guard, access)
        )
        server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(service.full_name, {method.name: handler}),)
        )
    return server


class _Export:
    """The method ``Export`` of one service."""

    def __init__(
        self,
        intake: Intake,
        signal: Signal | None,
        counted: Callable[[str], None],
        guard: AbstractContextManager[None],
        access: Access,
    ) -> None:
        self._access = access
        self._intake = intake
        self._signal: Signal | None = signal
        self._counted = counted
        self._guard = guard

    def __call__(self, body: bytes, context: grpc.ServicerContext) -> bytes:
        said = dict(context.invocation_metadata() or ())
        if not self._access.knows(str(said.get("authorization", ""))):
            self._counted("token")
            context.abort(
                grpc.StatusCode.UNAUTHENTICATED,
                "a token is needed: set OTEL_EXPORTER_OTLP_HEADERS='authorization=Bearer%20TOKEN'",
            )
        answer = self._read(body)
        if isinstance(answer, BusyError):
            self._counted("busy")
            _try_later(context, str(answer))
        if isinstance(answer, TooLargeError):
            # Without a hint when to try again: sent once more it would be as large.
            self._counted("too_large")
            context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, str(answer))
        if isinstance(answer, RagmeterError):
            self._counted("malformed")
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(answer))
            return b""  # not reached: aborting raises
        if answer is None:
            self._counted("error")
            context.abort(grpc.StatusCode.INTERNAL, "an error of the server's")
            return b""
        self._counted("accepted" if self._signal is not None else "metrics")
        return bytes(answer.SerializeToString())

    def _read(self, body: bytes) -> Answer | RagmeterError | None:
        """Read a body; return the answer, why it is refused, or None: we failed."""
        with self._guard:
            try:
                if self._signal is None:
                    return answer_to_metrics(body, self._intake.take_metrics)
                request = parse_protobuf(self._signal, body)
                taken = self._intake.take(self._signal, request, body)
                return answer_to(self._signal, taken)
            except RagmeterError as error:
                return error
        return None


def _try_later(context: grpc.ServicerContext, why: str) -> None:
    """Refuse a call that may be made again, and say when."""
    info = RetryInfo(retry_delay=Duration(seconds=RETRY_AFTER_S))
    details = AnyMessage()
    details.Pack(info)
    code = grpc.StatusCode.RESOURCE_EXHAUSTED
    status = Status(code=code.value[0], message=why, details=[details])
    context.set_trailing_metadata(
        (
            ("grpc-status-details-bin", status.SerializeToString()),
            # Where OpenTelemetry's Python exporters look.
            ("google.rpc.retryinfo-bin", info.SerializeToString()),
        )
    )
    context.abort(code, why)
