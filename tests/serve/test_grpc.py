"""OTLP over gRPC: the same requests, the same answers in its words."""

import threading

import grpc
import pytest
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2_grpc import LogsServiceStub
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2_grpc import MetricsServiceStub
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import TraceServiceStub
from otlp_bodies import many_spans, spans_of
from served import FULL, PATIENCE_S, served, traced_as, until

from ragmeter.serve import _grpc
from ragmeter.serve._limits import Limits

TRACES = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
MIB = 1024 * 1024


@pytest.fixture
def server():
    with served(max_body_bytes=MIB) as one:
        yield one


@pytest.fixture
def channel(server):
    unbounded = [("grpc.max_send_message_length", -1)]
    with grpc.insecure_channel(server.grpc, options=unbounded) as one:
        yield one


def refused(call, *arguments):
    with pytest.raises(grpc.RpcError) as error:
        call(*arguments, timeout=PATIENCE_S)
    return error.value


@pytest.mark.parametrize("compression", [grpc.Compression.NoCompression, grpc.Compression.Gzip])
def test_spans_that_are_sent_become_scored_requests(server, channel, compression):
    request = ExportTraceServiceRequest.FromString(FULL.read_bytes())

    answer = TraceServiceStub(channel).Export(request, timeout=PATIENCE_S, compression=compression)

    assert not answer.partial_success.rejected_spans
    [scored] = server.drained()
    assert scored.scores["context_count"].value == 2.0


def test_log_records_are_taken(server, channel):
    LogsServiceStub(channel).Export(ExportLogsServiceRequest(), timeout=PATIENCE_S)

    assert server.stats()["exports"] == {"accepted": 1}


def test_spans_without_a_usable_id_are_refused_alone(server, channel):
    answer = TraceServiceStub(channel).Export(spans_of(b"\x02" * 8, b"\x00" * 8), timeout=PATIENCE_S)

    assert answer.partial_success.rejected_spans == 1
    assert "id" in answer.partial_success.error_message


def test_what_is_malformed_is_an_invalid_argument(server, channel):
    error = refused(channel.unary_unary(TRACES), b"\xff\xff")

    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert error.details().startswith("no OTLP")


def test_what_is_too_large_is_refused_without_a_time_to_try_again(server, channel):
    for body in (b"\x00" * (2 * MIB), many_spans(50_001)):
        error = refused(channel.unary_unary(TRACES), body)

        assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert "grpc-status-details-bin" not in dict(error.trailing_metadata())


def test_a_small_body_that_holds_much_is_refused(server, channel):
    call = channel.unary_unary(TRACES)
    with pytest.raises(grpc.RpcError) as error:
        call(b"\x00" * (50 * MIB), timeout=PATIENCE_S, compression=grpc.Compression.Gzip)

    assert error.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


def test_a_sender_for_whom_there_is_no_room_is_told_when_to_try_again(server, channel):
    server.intake.close()

    error = refused(channel.unary_unary(TRACES), FULL.read_bytes())

    assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    status = Status.FromString(dict(error.trailing_metadata())["grpc-status-details-bin"])
    hint = RetryInfo()
    assert status.details[0].Unpack(hint)
    assert hint.retry_delay.seconds > 0
    assert server.stats()["exports"] == {"busy": 1}


def test_metrics_are_passed_over_and_the_answer_says_so(server, channel):
    request = ExportMetricsServiceRequest()
    request.resource_metrics.add().scope_metrics.add().metrics.add().gauge.data_points.add()

    answer = MetricsServiceStub(channel).Export(request, timeout=PATIENCE_S)

    assert answer.partial_success.rejected_data_points == 1


def test_another_service_is_unimplemented(channel):
    error = refused(channel.unary_unary("/other.Service/Export"), b"")

    assert error.code() is grpc.StatusCode.UNIMPLEMENTED


def test_calls_beyond_those_that_may_wait_are_told_when_to_try_again(monkeypatch):
    """Without a time to try again no sender may, and what it has is lost."""
    come, calls = threading.Semaphore(0), 80
    go_on = threading.Event()
    found = _grpc._Method.service

    def service(self, details):
        handler = found(self, details)
        if handler is not None:
            come.release()
        return handler

    monkeypatch.setattr(_grpc._Method, "service", service)
    with served() as server, grpc.insecure_channel(server.grpc) as channel:
        take = server.intake.take

        def slow(*given, **named):
            assert go_on.wait(PATIENCE_S)
            return take(*given, **named)

        monkeypatch.setattr(server.intake, "take", slow)
        export = channel.unary_unary(TRACES)
        sent = [export.future(traced_as(n + 1)[0], timeout=PATIENCE_S) for n in range(calls)]
        for _ in range(calls):
            assert come.acquire(timeout=PATIENCE_S)
        go_on.set()
        turned_away = [one for one in sent if one.exception(PATIENCE_S) is not None]
        most = Limits().connections // 8
        assert len(turned_away) == calls - most
        for one in turned_away:
            assert one.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
            assert dict(one.trailing_metadata())["google.rpc.retryinfo-bin"]
        assert server.stats()["exports"] == {"accepted": most, "busy": calls - most}
        (told,) = server.health()["overloads"]
        assert told["why"] == {"too many calls at once": calls - most}


@pytest.mark.parametrize(
    ("method", "body", "code", "outcome", "said"),
    [
        (TRACES, bytes(2 * MIB), "RESOURCE_EXHAUSTED", "broken_off", "larger than max"),
        ("/grpc.health.v1.Health/Check", b"", "UNIMPLEMENTED", "grpc_method", "Export of TraceService"),
        (f"{TRACES}s", b"", "UNIMPLEMENTED", "grpc_method", "Export of TraceService"),
    ],
)
def test_what_the_library_would_refuse_by_itself_is_counted(server, channel, method, body, code, outcome, said):
    error = refused(channel.unary_unary(method), body)

    assert error.code().name == code
    assert said in error.details()
    until(lambda: server.stats()["exports"] == {outcome: 1})
