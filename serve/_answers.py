"""The protocol's answers to accepted exports, and to metrics, which are not used here.

An application that exports to this server sends all of its signals, and most exporters would log an error
once a minute for a refused signal. So metrics are read and ignored, and the answer is a partial success that
rejects every point, which senders must not repeat.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TypeAlias

from google.protobuf.json_format import ParseDict, ParseError
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from ragmeter.adapters.opentelemetry.otlp import MalformedError, Signal

from ._intake import Acceptance

Answer: TypeAlias = ExportTraceServiceResponse | ExportLogsServiceResponse | ExportMetricsServiceResponse


def answer_to(signal: Signal, taken: Acceptance) -> Answer:
    """Return the answer to an export that was accepted, in full or in part."""
    if signal == "traces":
        spans = ExportTraceServiceResponse()
        if taken.rejected:
            spans.partial_success.rejected_spans = taken.rejected
            spans.partial_success.error_message = taken.message
        return spans
    records = ExportLogsServiceResponse()
    if taken.rejected:
        records.partial_success.rejected_log_records = taken.rejected
        records.partial_success.error_message = taken.message
    return records


def answer_to_metrics(
    body: bytes, keep: Callable[[ExportMetricsServiceRequest], object], *, as_json: bool = False
) -> Answer:
    """Return the answer to an export of metrics.

    Args:
        body: The export.
        keep: Stores the used part; its exceptions are not caught.
        as_json: Whether the body is JSON.

    Raises:
        MalformedError: The body is not an export of metrics.
    """
    request = ExportMetricsServiceRequest()
    try:
        if as_json:
            value = json.loads(body)
            if not isinstance(value, dict):
                raise MalformedError("no OTLP: an object with resourceMetrics is expected")
            ParseDict(value, request, ignore_unknown_fields=True)
        else:
            request.ParseFromString(body)
    except (
        DecodeError, ParseError, ValueError, TypeError, AttributeError, RecursionError,
    ) as error:  # fmt: skip
        raise MalformedError(f"no OTLP metrics ({type(error).__name__})") from None
    keep(request)
    points = 0
    for group in request.resource_metrics:
        for scoped in group.scope_metrics:
            for metric in scoped.metrics:
                which = metric.WhichOneof("data")
                points += 0 if which is None else len(getattr(metric, which).data_points)
    answer = ExportMetricsServiceResponse()
    if points:
        answer.partial_success.rejected_data_points = points
        answer.partial_success.error_message = "ragmeter serve takes traces and logs, no metrics"
    return answer
