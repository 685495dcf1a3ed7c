"""OTLP over HTTP: every answer is the one that the protocol demands, whatever is sent."""

import gzip
import json
import socket
import zlib
from contextlib import ExitStack

import httpx
import pytest
from at_once import at_once
from google.protobuf.json_format import Parse
from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from otlp_bodies import as_json, many_spans, spans_of
from served import FULL, PATIENCE_S, served, until

PROTOBUF = "application/x-protobuf"
JSON = "application/json"
BODY = FULL.read_bytes()
MIB = 1024 * 1024


@pytest.fixture(scope="module")
def server():
    with served(max_body_bytes=MIB) as one:
        yield one


def post(server, content, media_type=PROTOBUF, path="/v1/traces", **headers):
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return httpx.post(
        server.url + path, content=content, headers={"Content-Type": media_type, **named}, timeout=60
    )


def said_in(answer, message=None):
    """The message of an answer: ``google.rpc.Status``, with which an error must be answered, or another."""
    message = Status() if message is None else message
    if answer.headers["content-type"].startswith(JSON):
        return Parse(answer.content, message)
    assert answer.headers["content-type"] == PROTOBUF
    message.ParseFromString(answer.content)
    return message


@pytest.mark.parametrize("encoding", ["", "identity", "gzip", "x-gzip", "deflate"])
@pytest.mark.parametrize("media_type", [PROTOBUF, JSON, "application/json; charset=utf-8"])
def test_what_is_taken_is_answered_in_its_own_format(server, media_type, encoding):
    plain = BODY if media_type == PROTOBUF else as_json("traces", BODY)
    packed = {"gzip": gzip.compress, "x-gzip": gzip.compress, "deflate": zlib.compress}
    body = packed.get(encoding, bytes)(plain)

    answer = post(server, body, media_type, content_encoding=encoding)

    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith(media_type.partition(";")[0])
    assert answer.content == (b"" if media_type == PROTOBUF else b"{}")


def test_several_gzip_members_are_one_body(server):
    body = gzip.compress(BODY[:1000]) + gzip.compress(BODY[1000:])

    assert post(server, body, content_encoding="gzip").status_code == 200


def test_a_body_may_come_in_chunks_without_its_length(server):
    answer = httpx.post(
        f"{server.url}/v1/traces",
        content=iter([BODY[:100], BODY[100:]]),
        headers={"Content-Type": PROTOBUF},
        timeout=60,
    )

    assert answer.status_code == 200


@pytest.mark.parametrize(("media_type", "content"), [(PROTOBUF, b""), (JSON, b"{}")])
@pytest.mark.parametrize("path", ["/v1/traces", "/v1/logs", "/v1/metrics"])
def test_an_empty_request_is_one(server, media_type, content, path):
    assert post(server, content, media_type, path).status_code == 200


@pytest.mark.parametrize("path", ["/v1/traces", "/v1/logs", "/v1/metrics"])
@pytest.mark.parametrize(
    ("media_type", "content"),
    [
        (PROTOBUF, b"\xff\xff\xff"),
        (PROTOBUF, b"{}"),
        (PROTOBUF, b"\x0a\xff\xff\xff\xff\x0f"),
        (JSON, b""),
        (JSON, b"[]"),
        (JSON, b"\xff\xfe"),
        (JSON, b'{"resourceSpans": 7, "resourceLogs": 7, "resourceMetrics": 7}'),
        (JSON, b"[" * 100_000),
        (JSON, b'{"resourceSpans":' * 50_000),
    ],
)
def test_what_is_malformed_is_refused_with_a_reason(server, media_type, content, path):
    answer = post(server, content, media_type, path)

    assert answer.status_code == 400
    status = said_in(answer)
    assert status.code == 3
    assert status.message.startswith("no ")
    assert "Retry-After" not in answer.headers


def test_nothing_of_a_malformed_body_is_said_again(server):
    answer = post(server, b'{"resourceSpans": [{"scopeSpans": "SECRET"}]}', JSON)

    assert answer.status_code == 400
    assert "SECRET" not in answer.text


@pytest.mark.parametrize("media_type", [PROTOBUF, JSON])
def test_spans_without_a_usable_id_are_refused_alone(server, media_type):
    request = spans_of(b"\x02" * 8, b"\x00" * 8, b"short", b"").SerializeToString()
    content = request if media_type == PROTOBUF else as_json("traces", request)

    answer = post(server, content, media_type)

    said = said_in(answer, ExportTraceServiceResponse())
    assert answer.status_code == 200
    assert said.partial_success.rejected_spans == 3
    assert "id" in said.partial_success.error_message


def test_an_id_that_is_no_hex_costs_its_span_alone(server):
    body = json.loads(as_json("traces", spans_of(b"\x03" * 8, b"\x04" * 8).SerializeToString()))
    body["resourceSpans"][0]["scopeSpans"][0]["spans"][0]["spanId"] = "not an id"

    answer = post(server, json.dumps(body), JSON)

    assert answer.json()["partialSuccess"]["rejectedSpans"] == "1"


@pytest.mark.parametrize("media_type", ["", "text/plain", "application/grpc", "multipart/form-data"])
def test_another_media_type_is_refused(server, media_type):
    answer = post(server, BODY, media_type)

    assert answer.status_code == 415
    assert JSON in said_in(answer).message


@pytest.mark.parametrize("path", ["/v1/traces", "/v1/logs", "/v1/metrics"])
def test_a_browser_at_the_path_of_a_signal_is_told_where_the_page_is(server, path):
    answer = httpx.get(f"{server.url}{path}")

    assert (answer.status_code, answer.headers["Allow"]) == (405, "POST")
    assert answer.json() == {"error": "POST is answered here, and nothing else; the page is at /"}


@pytest.mark.parametrize(
    ("path", "media_type"),
    [
        ("/", PROTOBUF),
        ("/", JSON),
        ("/v1/traces/v1/traces", JSON),
        ("/v1/trace", PROTOBUF),
        ("/api/public/otel/v1/traces", PROTOBUF),
        ("/requests", PROTOBUF),
    ],
)
def test_otlp_at_another_path_is_refused_with_the_right_one(server, path, media_type):
    before = server.stats()["exports"].get("otlp_path", 0)
    answer = post(server, BODY, media_type, path)

    assert answer.status_code == 404
    assert f"/v1/traces, /v1/logs, /v1/metrics, not at {path}:" in said_in(answer).message
    assert server.stats()["exports"]["otlp_path"] == before + 1


@pytest.mark.parametrize("encoding", ["br", "zstd", "gzip, gzip", "snappy"])
def test_another_encoding_is_refused_with_those_that_are_known(server, encoding):
    answer = post(server, BODY, content_encoding=encoding)

    assert answer.status_code == 415
    assert "gzip" in answer.headers["Accept-Encoding"]


@pytest.mark.parametrize(
    ("encoding", "body"),
    [
        ("gzip", BODY),
        ("deflate", gzip.compress(BODY)),
        ("gzip", gzip.compress(BODY)[:-20]),
        ("gzip", gzip.compress(BODY) + b"rest"),
        ("", gzip.compress(BODY)),
    ],
)
def test_a_body_that_is_not_packed_as_it_says_is_malformed(server, encoding, body):
    answer = post(server, body, content_encoding=encoding)

    assert answer.status_code == 400
    assert "as Content-Type says, packed as Content-Encoding says" in said_in(answer).message


@pytest.mark.parametrize(
    ("encoding", "body"),
    [
        ("", b"\x00" * (MIB + 1)),
        ("gzip", gzip.compress(b"\x00" * (100 * MIB))),
        ("gzip", gzip.compress(b"\x00" * MIB) * 2),
        ("deflate", zlib.compress(b"\x00" * (100 * MIB))),
    ],
)
def test_a_body_beyond_the_limit_is_refused_packed_or_not(server, encoding, body):
    answer = post(server, body, content_encoding=encoding)

    assert answer.status_code == 413
    assert "smaller batches" in said_in(answer).message
    assert "Retry-After" not in answer.headers


def test_a_body_that_only_says_that_it_is_too_large_is_not_waited_for(server):
    with socket.create_connection(("127.0.0.1", server.http_port), 30) as sender:
        sender.sendall(
            b"POST /v1/traces HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-protobuf\r\n"
            b"Content-Length: 99999999999\r\n\r\n"
        )

        assert sender.recv(100).startswith(b"HTTP/1.1 413")


@pytest.mark.parametrize("chunked", [False, True])
def test_who_reads_only_when_all_is_sent_still_reads_why_it_was_refused(server, chunked):
    """Closed with something unread, a connection is reset, and the answer on it may be lost."""
    body = b"\x00" * (8 * MIB)
    head = b"POST /v1/traces HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-protobuf\r\n"
    if chunked:
        body = b"%x\r\n%s\r\n" % (2 * MIB, body[: 2 * MIB]) * 4 + b"0\r\n\r\n"
        head += b"Transfer-Encoding: chunked\r\n\r\n"
    else:
        head += b"Content-Length: %d\r\n\r\n" % len(body)
    first = 3 * MIB if chunked else 0
    with socket.create_connection(("127.0.0.1", server.http_port), PATIENCE_S) as sender:
        sender.sendall(head + body[:first])
        assert sender.recv(1, socket.MSG_PEEK)  # it has answered
        sender.sendall(body[first:])
        answer = b"".join(iter(lambda: sender.recv(65_536), b""))

    assert answer.startswith(b"HTTP/1.1 413")
    assert b"smaller batches" in answer


def test_more_spans_than_one_request_may_hold_are_refused():
    with served() as server:
        answer = post(server, many_spans(50_001))

        assert answer.status_code == 413
        assert server.stats()["spans"] == {}


def test_many_traces_in_one_body_are_read():
    with served() as server:
        answer = post(server, many_spans(20_000))

        assert answer.status_code == 200
        assert server.drained() == []
        assert server.stats()["spans"] == {"read": 20_000}


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
def test_another_method_is_not_allowed(server, method):
    answer = httpx.request(method, f"{server.url}/v1/traces", timeout=60)

    assert answer.status_code == 405
    assert "POST" in answer.headers["Allow"]


def test_another_path_is_not_found(server):
    assert post(server, BODY, path="/v1/profiles").status_code == 404


@pytest.mark.parametrize("media_type", [PROTOBUF, JSON])
def test_metrics_are_passed_over_and_the_answer_says_so(server, media_type):
    request = ExportMetricsServiceRequest()
    metric = request.resource_metrics.add().scope_metrics.add().metrics.add(name="requests")
    metric.sum.data_points.add(as_int=3)
    metric.sum.data_points.add(as_int=4)
    content = request.SerializeToString()
    if media_type == JSON:
        content = b'{"resourceMetrics":[{"scopeMetrics":[{"metrics":[{"gauge":{"dataPoints":[{},{}]}}]}]}]}'

    answer = post(server, content, media_type, "/v1/metrics")

    said = said_in(answer, ExportMetricsServiceResponse())
    assert answer.status_code == 200
    assert said.partial_success.rejected_data_points == 2
    assert "no metrics" in said.partial_success.error_message


def test_requests_may_follow_each_other_before_the_first_is_answered(server):
    one = (
        b"POST /v1/traces HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-protobuf\r\n"
        b"Content-Length: %d\r\n\r\n" % len(BODY)
    ) + BODY
    with socket.create_connection(("127.0.0.1", server.http_port), 30) as sender:
        sender.sendall(one * 3)
        heard = b""
        while heard.count(b"HTTP/1.1 200 OK") < 3:
            part = sender.recv(65536)
            assert part, heard
            heard += part


def test_a_sender_that_leaves_in_the_middle_harms_nobody(server):
    with socket.create_connection(("127.0.0.1", server.http_port), 30) as sender:
        sender.sendall(
            b"POST /v1/traces HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-protobuf\r\n"
            b"Content-Length: 1000\r\n\r\nabc"
        )
    until(lambda: server.stats()["exports"].get("broken_off"))

    assert post(server, BODY).status_code == 200


def test_a_slow_sender_is_given_up(limited):
    limited(body_s=0.2)
    with served() as server, socket.create_connection(("127.0.0.1", server.http_port), 30) as slow:
        slow.sendall(
            b"POST /v1/traces HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-protobuf\r\n"
            b"Content-Length: 1000\r\n\r\nabc"
        )

        assert slow.recv(100).startswith(b"HTTP/1.1 408")
        assert post(server, BODY).status_code == 200


def test_requests_beyond_those_that_may_be_received_at_once_are_told_when_to_come_again(limited):
    """Beyond that it would be uvicorn that refuses, which neither counts nor says when."""
    limited(connections=8)
    begun = (
        b"POST /v1/traces HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-protobuf\r\n"
        b"Content-Length: %d\r\n\r\n" % len(BODY)
    )
    with served() as server, ExitStack() as open_:
        slow = [
            open_.enter_context(socket.create_connection(("127.0.0.1", server.http_port), 60)) for _ in range(6)
        ]
        for one in slow:
            one.sendall(begun)

        def is_refused():
            # Those that have begun may not have been read so far; one that is taken meanwhile is none of them.
            answer = post(server, BODY)
            assert answer.status_code in (200, 503)
            return answer if answer.status_code == 503 else None

        until(is_refused)
        answer = is_refused()
        assert int(answer.headers["Retry-After"]) > 0
        (told,) = server.health()["overloads"]
        assert told["why"] == {"too many requests at once": told["refused"]}
        for one in slow:
            one.sendall(BODY)
            assert one.recv(100).startswith(b"HTTP/1.1 200")
        assert post(server, BODY).status_code == 200


def test_health_says_what_was_received_and_what_became_of_it():
    with served() as server:
        post(server, BODY)
        post(server, b"\xff")
        post(server, b"", "text/plain")
        until(lambda: server.stats()["requests"] == {"scored": 1})

        answer = httpx.get(f"{server.url}/healthz", timeout=60)

    assert answer.status_code == 200
    state = answer.json()
    assert state["status"] == "ok"
    assert state["exports"] == {"accepted": 1, "malformed": 1, "media_type": 1}
    assert state["spans"] == {"read": 11}
    assert state["requests"] == {"scored": 1}
    [account] = state["heard"]
    assert (account["heard"], account["to_score"], "scored" in account) == (1, 1, False)
    assert state["held"] == {"traces": 0, "spans": 0, "bytes": 0}


def test_it_is_ready_until_its_spool_is_nearly_full_or_it_ends(tmp_path):
    """Whoever balances load looks there: a sender is turned away before it has to be refused."""
    nobody = spans_of(b"\x01" * 8, parent_span_id=b"\x02" * 8).SerializeToString()
    room = 10 * (len(nobody) + 512)
    with served(spool=tmp_path, max_spool_bytes=room, settle_s=600.0) as server:

        def ready():
            answer = httpx.get(f"{server.url}/readyz", timeout=60)
            return answer.status_code, answer.json()["why"]

        told = []
        for _ in range(10):
            told.append(ready())
            assert post(server, nobody).status_code == 200
        assert told == [(200, None)] * 9 + [(503, "the spool is nearly full")]
        server.drained()
        assert server.why_not_ready() == "ended"


def test_many_senders_at_once_are_all_answered(server):
    assert at_once(lambda _: post(server, BODY).status_code, range(40)) == [200] * 40
