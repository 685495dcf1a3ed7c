"""What is to be passed on arrives byte for byte, in order, once; what cannot is counted by its reason."""

import contextlib
import gzip
import threading
from concurrent import futures

import grpc
import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from otlp_endpoint import HANG_UP, Endpoint, names_in, request_of
from served import PATIENCE_S, until

from ragmeter.metrics import ConfigurationError
from ragmeter.serve import _forward
from ragmeter.serve._endpoint import endpoint_of
from ragmeter.serve._forward import Forwarder


@contextlib.contextmanager
def forwarding(port, signals=("traces",), **options):
    variables = {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{port}"}
    variables.update(options.pop("variables", {}))
    forwarder = Forwarder(
        {signal: endpoint_of(signal, variables) for signal in signals},
        contextlib.nullcontext(),
        **{"max_bytes": 1 << 26, **options},
    )
    forwarder.start()
    try:
        yield forwarder
    finally:
        forwarder.close(PATIENCE_S)


def test_bodies_arrive_byte_for_byte_and_in_order():
    with Endpoint() as endpoint:
        bodies = [request_of(f"span {number}") for number in range(50)]
        with forwarding(endpoint.port) as forwarder:
            for body in bodies:
                forwarder.put("traces", body)
        assert b"".join(endpoint.bodies) == b"".join(bodies)
        assert names_in(endpoint.bodies) == [f"span {number}" for number in range(50)]
        assert set(endpoint.paths) == {"/v1/traces"}
        assert forwarder.stats() == {"taken": 50}


def test_only_requests_that_wait_together_are_joined_and_not_into_large_ones(monkeypatch):
    monkeypatch.setattr(_forward, "JOINED_BYTES", 3000)
    with Endpoint() as endpoint:
        endpoint.gate.clear()
        with forwarding(endpoint.port) as forwarder:
            for number in range(10):
                forwarder.put("traces", request_of(str(number), padding=1000))
            forwarder.put("traces", request_of("large", padding=9000))
            endpoint.gate.set()
        assert len(endpoint.bodies) < 11
        assert names_in(endpoint.bodies) == [*map(str, range(10)), "large"]
        assert all(len(body) <= 3000 or names_in([body]) == ["large"] for body in endpoint.bodies)


def test_logs_go_their_own_way():
    with Endpoint() as endpoint:
        logs = ExportLogsServiceRequest()
        logs.resource_logs.add().scope_logs.add().log_records.add().body.string_value = "said"
        with forwarding(endpoint.port, ("traces", "logs")) as forwarder:
            forwarder.put("logs", logs.SerializeToString())
            forwarder.put("traces", request_of("a"))
        assert dict(zip(endpoint.paths, endpoint.bodies, strict=True)) == {
            "/v1/logs": logs.SerializeToString(),
            "/v1/traces": request_of("a"),
        }


def test_a_signal_without_an_endpoint_is_not_passed_on():
    with Endpoint() as endpoint:
        with forwarding(endpoint.port) as forwarder:
            forwarder.put("logs", b"x")
        assert endpoint.bodies == []
        assert forwarder.stats() == {}


def test_the_configured_headers_go_along_and_bodies_can_be_compressed():
    variables = {
        "OTEL_EXPORTER_OTLP_HEADERS": "authorization=Bearer%20ours",
        "OTEL_EXPORTER_OTLP_COMPRESSION": "gzip",
    }
    with Endpoint() as endpoint:
        with forwarding(endpoint.port, variables=variables) as forwarder:
            forwarder.put("traces", request_of("a"))
        headers = {name.lower(): value for name, value in endpoint.headers[0].items()}
        assert headers["authorization"] == "Bearer ours"
        assert headers["content-type"] == "application/x-protobuf"
        assert headers["content-encoding"] == "gzip"
        assert gzip.decompress(endpoint.bodies[0]) == request_of("a")


@pytest.mark.parametrize("status", [429, 502, 503, 504, 408, 401, 403])
def test_what_may_pass_is_tried_again_until_it_is_taken(status, monkeypatch):
    monkeypatch.setattr(_forward, "LONGEST_PAUSE_S", 0.01)
    settled = []
    with Endpoint(status, status, status) as endpoint:
        with forwarding(endpoint.port, settled=settled.extend) as forwarder:
            forwarder.put("traces", request_of("a"), 7)
            forwarder.put("traces", request_of("b"), 8)
            until(lambda: settled == [7, 8])
        assert names_in(endpoint.bodies) == ["a", "b"]
        assert forwarder.stats() == {"taken": 2}


@pytest.mark.parametrize("status", [400, 404, 413, 500, 501])
def test_what_is_refused_for_good_is_counted_and_not_tried_again(status, caplog):
    settled = []
    with Endpoint(*[status] * 1) as endpoint:
        with forwarding(endpoint.port, settled=settled.extend) as forwarder:
            forwarder.put("traces", request_of("secret"), 7)
            until(lambda: settled)
            forwarder.put("traces", request_of("b"), 8)
        assert names_in(endpoint.bodies) == ["b"]
        assert settled == [7, 8]
        assert forwarder.stats() == {f"status_{status}": 1, "taken": 1}
    assert f"status_{status}" in caplog.text
    assert "secret" not in caplog.text


def test_one_that_is_refused_takes_no_others_with_it():
    def answer(body):
        return 400 if "bad" in names_in([body]) else 200

    settled = []
    with Endpoint(*[answer] * 50) as endpoint:
        endpoint.gate.clear()
        with forwarding(endpoint.port, settled=settled.extend) as forwarder:
            for position, name in enumerate(["a", "b", "bad", "c", "d"]):
                forwarder.put("traces", request_of(name), position)
            endpoint.gate.set()
        assert names_in(endpoint.bodies) == ["a", "b", "c", "d"]
        assert settled == [0, 1, 2, 3, 4]
        assert forwarder.stats() == {"status_400": 1, "taken": 4}


def test_a_full_queue_has_no_room_until_some_was_sent_and_loses_nothing():
    with Endpoint() as endpoint:
        endpoint.gate.clear()
        with forwarding(endpoint.port, max_bytes=5_000) as forwarder:
            for number in range(5):
                assert forwarder.has_room()
                forwarder.put("traces", request_of(str(number), padding=1_000))
            assert not forwarder.has_room()
            forwarder.put("traces", request_of("asked before", padding=10_000))
            assert forwarder.stats() == {"waiting": 6}
            endpoint.gate.set()
            until(forwarder.has_room)
        assert names_in(endpoint.bodies) == [*"01234", "asked before"]


def test_an_endpoint_that_comes_up_later_gets_everything(monkeypatch):
    monkeypatch.setattr(_forward, "LONGEST_PAUSE_S", 0.01)
    up = threading.Event()
    with Endpoint(*[lambda body: 200 if up.is_set() else HANG_UP] * 10_000) as endpoint:
        with forwarding(endpoint.port) as forwarder:
            for number in range(5):
                forwarder.put("traces", request_of(str(number)))
            until(lambda: endpoint.attempts > 5)
            assert forwarder.stats() == {"waiting": 5}
            up.set()
            until(lambda: forwarder.stats() == {"taken": 5})
        assert names_in(endpoint.bodies) == list("01234")


def test_what_is_left_at_the_end_is_counted():
    settled = []
    with Endpoint(*[HANG_UP] * 10_000) as endpoint:
        with forwarding(endpoint.port, settled=settled.extend) as forwarder:
            forwarder.put("traces", request_of("a"), 1)
            forwarder.put("traces", request_of("b"), 2)
            forwarder.close(0.0)
            forwarder.put("traces", request_of("c"), 3)
            assert forwarder.stats() == {"shutdown": 2}
            assert settled == []


def test_a_certificate_that_is_not_there_is_named():
    variables = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": "https://127.0.0.1:4317",
        "OTEL_EXPORTER_OTLP_CERTIFICATE": "/nowhere/ca.pem",
    }
    with pytest.raises(ConfigurationError, match="certificate"):
        Forwarder({"traces": endpoint_of("traces", variables)}, contextlib.nullcontext(), max_bytes=1)


def test_over_grpc_too(monkeypatch):
    monkeypatch.setattr(_forward, "LONGEST_PAUSE_S", 0.01)
    bodies, metadata = [], []
    codes = iter(
        [
            grpc.StatusCode.UNAVAILABLE,
            grpc.StatusCode.RESOURCE_EXHAUSTED,
            None,
            grpc.StatusCode.INVALID_ARGUMENT,
        ]
    )

    def export(body, context):
        code = next(codes, None)
        if code is not None:
            context.abort(code, "no")
        bodies.append(body)
        metadata.append(dict(context.invocation_metadata()))
        return b""

    service = "opentelemetry.proto.collector.trace.v1.TraceService"
    handler = grpc.method_handlers_generic_handler(
        service, {"Export": grpc.unary_unary_rpc_method_handler(export)}
    )
    server = grpc.server(futures.ThreadPoolExecutor(2), handlers=[handler])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    variables = {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc", "OTEL_EXPORTER_OTLP_HEADERS": "Authorization=ours"}
    settled = []
    try:
        with forwarding(port, variables=variables, settled=settled.extend) as forwarder:
            for position, name in enumerate("abc"):
                forwarder.put("traces", request_of(name), position)
                until(lambda: position in settled)  # noqa: B023
        assert bodies == [request_of("a"), request_of("c")]
        assert metadata[0]["authorization"] == "ours"
        assert forwarder.stats() == {"invalid_argument": 1, "taken": 2}
    finally:
        server.stop(None).wait(PATIENCE_S)
