"""Connections and calls that say nothing, stop in the middle or never read: others are answered all the same."""

import os
import socket
import sys
import threading
from contextlib import ExitStack, suppress

import grpc
import httpx
import pytest
from python_process import run_python
from served import FULL, PATIENCE_S, served, until

BODY = FULL.read_bytes()
PROTOBUF = "application/x-protobuf"
TRACES = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
POST = (
    b"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-protobuf\r\n"
    b"Content-Length: 1000\r\n\r\nabc"
)
HEALTH = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"


def connected(server):
    """A connection that has little room for answers that are not read."""
    one = socket.socket()
    one.settimeout(PATIENCE_S)
    one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    one.connect(("127.0.0.1", server.http_port))
    return one


def post(server):
    return httpx.post(f"{server.url}/v1/traces", content=BODY, headers={"Content-Type": PROTOBUF}, timeout=60)


def exports(server):
    return server.stats()["exports"]


def closed(server):
    return server.stats().get("connections", {})


@pytest.mark.parametrize(
    "said",
    [b"", b"GET /healthz HT", HEALTH + b"GET /he", POST % b"/api/overview", HEALTH * 20_000],
    ids=["nothing", "half-a-head", "half-of-a-second", "half-a-body", "reads-nothing"],
)
def test_each_phase_of_a_connection_ends(monkeypatch, limited, said):
    monkeypatch.setattr("ragmeter.serve._connections._AFTER_S", 0.0)
    limited(header_s=0.2, body_s=0.2, answer_s=0.2)
    with served() as server:
        with connected(server) as one:
            sent = threading.Thread(target=_send, args=(one, said), daemon=True)
            sent.start()
            until(lambda: closed(server) == {"slow": 1})
            sent.join(PATIENCE_S)
        until(lambda: is_healthy(server))


def is_healthy(server):
    with suppress(httpx.TransportError):  # on a busy machine this test may be slow itself
        return httpx.get(f"{server.url}/healthz", timeout=PATIENCE_S).status_code == 200
    return False


def _send(one, said):
    with suppress(OSError):  # given up, as it is to be
        one.sendall(said)


def test_who_waits_makes_room_for_who_asks(limited):
    limited(connections=16)
    with served() as server, ExitStack() as open_:
        for _ in range(100):
            open_.enter_context(connected(server))
        assert post(server).status_code == 200
        assert httpx.get(f"{server.url}/readyz", timeout=60).status_code == 200
        until(lambda: closed(server).get("idle", 0) >= 84)


@pytest.mark.parametrize("address", [b"/v1/traces", b"/nothing"])
def test_a_body_in_tiny_chunks_is_given_up(address):
    """Each chunk costs the loop's time: with four such bodies of a megabyte health took 40 seconds."""
    head = b"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-protobuf\r\n"
    chunked = head % address + b"Transfer-Encoding: chunked\r\n\r\n"
    with served() as server, connected(server) as one:
        _send(one, chunked + b"1\r\n\0\r\n" * 1_000)
        _send(one, b"40\r\n%s\r\n" % bytes(64) * 1_000)
        assert closed(server) == {}
        _send(one, b"1\r\n\0\r\n" * 2_000)
        until(lambda: closed(server) == {"tiny_chunks": 1})
        assert post(server).status_code == 200


def test_health_is_answered_while_everybody_else_is_refused(limited):
    limited(connections=16)
    with served() as server, ExitStack() as open_:
        for _ in range(16):
            open_.enter_context(connected(server)).sendall(POST % b"/v1/traces")

        def refused():
            return httpx.get(f"{server.url}/docs", timeout=60).status_code == 503

        # Four of them are refused for being too many, and no longer under way.
        until(lambda: sum(exports(server).values()) >= 4)
        for _ in range(4):
            open_.enter_context(connected(server)).sendall(HEALTH[:-2])
        assert httpx.get(f"{server.url}/healthz", timeout=60).json()["overloads"]
        assert not refused()  # the page has what senders may not take
        assert post(server).headers["Retry-After"]


def test_calls_without_a_body_hold_nobody_up(limited):
    limited(call_s=0.5)
    with served() as server, ExitStack() as open_:
        stop, slow = threading.Event(), []

        def never():
            stop.wait()
            yield b""

        for _ in range(40):
            channel = open_.enter_context(grpc.insecure_channel(server.grpc))
            slow.append(channel.stream_unary(TRACES).future(never()))
        with grpc.insecure_channel(server.grpc) as channel:
            export = channel.unary_unary(TRACES)

            def taken():
                try:
                    return export(BODY, timeout=PATIENCE_S) == b""
                except grpc.RpcError:
                    return False

            until(taken)
        assert exports(server)["slow"] >= 16
        stop.set()


def test_without_the_token_no_body_is_waited_for():
    with served(token="a-token-that-is-long") as server:
        stop = threading.Event()

        def never():
            stop.wait()
            yield b""

        with grpc.insecure_channel(server.grpc) as channel:
            calls = [channel.stream_unary(TRACES).future(never()) for _ in range(40)]
            for call in calls:
                assert call.exception(PATIENCE_S).code() is grpc.StatusCode.UNAUTHENTICATED
        stop.set()


def test_it_is_not_ready_while_readers_are_stuck(monkeypatch, limited):
    go_on = threading.Event()
    limited(stuck_s=0.2, read_s=1.0)
    with served() as server:
        take = server.intake.take

        def stuck(*given, **named):
            assert go_on.wait(PATIENCE_S)
            return take(*given, **named)

        monkeypatch.setattr(server.intake, "take", stuck)
        answers = []
        senders = [threading.Thread(target=lambda: answers.append(post(server))) for _ in range(6)]
        for one in senders:
            one.start()
        until(lambda: httpx.get(f"{server.url}/readyz", timeout=60).status_code == 503)
        assert "take too long" in httpx.get(f"{server.url}/readyz", timeout=60).json()["why"]
        with grpc.insecure_channel(server.grpc) as channel:
            with pytest.raises(grpc.RpcError) as error:
                channel.unary_unary(TRACES)(BODY, timeout=PATIENCE_S)
            assert dict(error.value.trailing_metadata())["google.rpc.retryinfo-bin"]
        for one in senders:
            one.join(PATIENCE_S)
        assert [answer.status_code for answer in answers] == [503] * 6  # none waited for ever
        assert exports(server) == {"busy": 7}
        go_on.set()
        until(lambda: httpx.get(f"{server.url}/readyz", timeout=60).status_code == 200)
        assert post(server).status_code == 200
        until(lambda: server.stats()["requests"] == {"scored": 1})


FULL_OF_FILES = """
import resource, socket, urllib.request
from served import served, until

with served() as server:
    sockets = [socket.socket() for _ in range(40)]
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (sockets[-1].fileno() + 1, hard))
    for one in sockets:
        one.connect(("127.0.0.1", server.http_port))
    until(lambda: server.meter.port.log.counts.get("serve.http", 0) > 1)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert urllib.request.urlopen(server.url + "/readyz", timeout=60).status == 200
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits of a process are Linux's here")
def test_connections_beyond_the_limit_of_files_are_counted_and_logged_once():
    """Each refused one once logged its own traceback: megabytes in seconds."""
    ended = run_python("-c", FULL_OF_FILES, env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)})
    assert ended.returncode == 0, ended.stderr[-2_000:]
    assert ended.stderr.count("Too many open files") == 1
