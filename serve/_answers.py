"""The protocol's answers to accepted exports, and to metrics, which are not used here.

An application that exports to this server sends all of its signals, and most exporters would log an error
once a minute for a refused signal. So metrics are read and ignored, and the answer is a partial success that
rejects every point, which senders must not repeat.
"""

from __future__ import annotations

import json
from typing import TypeAlias

from google.protobuf.json_format import ParseDict, ParseError
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from ragmeter.adapters.opentelemetry.otlp import MalformedError, Signal, parse_json, parse_protobuf

from ._intake import Intake

Answer: TypeAlias = ExportTraceServiceResponse | ExportLogsServiceResponse | ExportMetricsServiceResponse


def answer_to(intake: Intake, signal: Signal | None, body: bytes, *, as_json: bool = False) -> Answer:
    """Accept an export request, in full or in part, and return the answer.

    Args:
        intake: Accepts it.
        signal: Its signal; None: metrics.
        body: The request, unpacked.
        as_json: Whether it is JSON.

    Raises:
        MalformedError: The body is no such request.
        RagmeterError: As `Intake.take`.
    """
    if signal is None:
        return _answer_to_metrics(intake, body, as_json=as_json)
    if as_json:
        rejected = intake.take(signal, parse_json(signal, body))
    else:
        rejected = intake.take(signal, parse_protobuf(signal, body), body)
    if signal == "traces":
        spans = ExportTraceServiceResponse()
        if rejected:
            spans.partial_success.rejected_spans = rejected
            spans.partial_success.error_message = f"{rejected} spans without a usable id"
        return spans
    records = ExportLogsServiceResponse()
    if rejected:
        records.partial_success.rejected_log_records = rejected
        records.partial_success.error_message = f"{rejected} records without a usable id"
    return records


def _answer_to_metrics(intake: Intake, body: bytes, *, as_json: bool) -> Answer:
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
    intake.take_metrics(request)
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
