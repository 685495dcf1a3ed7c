"""A backend that redirects, trickles, keeps silent or floods: no secret leaves, nothing waits beyond its time."""

import gzip
import json
import socket
import threading
from contextlib import contextmanager, suppress

import pytest
from opentelemetry.trace import set_span_in_context

from ragmeter.exporters import _bounded_http
from ragmeter.exporters._http import Delivery, DeliveryError
from ragmeter.exporters._span_targets import SpansAddress
from ragmeter.exporters.changes import NotTakenError
from ragmeter.exporters.otel._providers import way_to
from ragmeter.exporters.webhook import ChangeWebhook
from ragmeter.quality.estimates import Estimate
from ragmeter.watch.change import Change

pytest.importorskip("uvicorn")

from ragmeter.serve._endpoint import Endpoint
from ragmeter.serve._sender import OtlpSender

KEY = "sk-very-secret-key"
MEAN = Estimate(mean=0.5, lower=0.4, upper=0.6, n_requests=9, n_judged=9, method="all")
CHANGE = Change(
    score="goodness", workflow="qa", since=0.0, at=1.0, before=MEAN, now=MEAN, evidence=2.0, kind="fell"
)  # fmt: skip
SHORT_S = 0.3
"""The time that is given where it is to pass; nothing is asserted of how long it really took."""


class Hostile:
    """Reads each request and answers with what `say` writes, until it is closed."""

    def __init__(self, say):
        self._say = say
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.requests = []
        self.closed = threading.Event()
        self.clients = []
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection):
        with connection, suppress(OSError):  # its client has hung up
            while request := _request(connection):
                self.requests.append(request)
                self._say(self, connection.sendall)

    def close(self):
        for client in self.clients:
            client.close()
        self.closed.set()
        self._listening.close()


def _request(connection):
    """Return one request as it came; empty: there is none."""
    received = b""
    while b"\r\n\r\n" not in received:
        part = connection.recv(65536)
        if not part:
            return b""
        received += part
    head, _, body = received.partition(b"\r\n\r\n")
    [length] = [int(line[15:]) for line in head.lower().split(b"\r\n") if line[:15] == b"content-length:"]  # fmt: skip
    while len(body) < length:
        body += connection.recv(65536)
    return head + b"\r\n\r\n" + body


@contextmanager
def hostile(say):
    server = Hostile(say)
    try:
        yield server
    finally:
        server.close()


def answering(status, body=b"", *headers):
    lines = [f"HTTP/1.1 {status} Word", f"Content-Length: {len(body)}", *headers]
    return lambda server, send: send("\r\n".join(lines).encode() + b"\r\n\r\n" + body)


def _trickle(server, send, begin, part):
    send(begin)
    while not server.closed.wait(0.05):
        send(part)


def silence(server, send):
    server.closed.wait()


def trickled_headers(server, send):
    _trickle(server, send, b"HTTP/1.1 200 OK\r\n", b"x: y\r\n")


def trickled_status(server, send):
    _trickle(server, send, b"", b"H")


def endless_interim_answers(server, send):
    while not server.closed.is_set():
        send(b"HTTP/1.1 100 Continue\r\n\r\n")


def trickled_body(status):
    head = f"HTTP/1.1 {status} Word\r\nContent-Length: 1000000\r\n\r\n".encode()
    return lambda server, send: _trickle(server, send, head, b" ")


def endless_body(status):
    def say(server, send):
        send(f"HTTP/1.1 {status} Word\r\nTransfer-Encoding: chunked\r\n\r\n".encode())
        while not server.closed.is_set():
            send(b"10000\r\n" + b" " * 0x10000 + b"\r\n")

    return say


LATE = [silence, trickled_headers, trickled_status, endless_interim_answers]


def webhook(server, timeout_s=60.0):
    server.clients.append(ChangeWebhook(f"{server.url}/hooks/{KEY}", timeout_s=timeout_s))
    return server.clients[-1]


def delivery(server, timeout_s=60.0):
    server.clients.append(Delivery("a backend", server.url, {"api-key": KEY}, timeout_s=timeout_s))
    return server.clients[-1]


def tell(hook):
    hook.changed(CHANGE, "goodness fell", {})


def sender(server, timeout_s=60.0):
    endpoint = Endpoint(
        url=f"{server.url}/v1/traces", protocol="http/protobuf", headers={"api-key": KEY}, timeout_s=timeout_s
    )
    server.clients.append(OtlpSender("traces", endpoint))
    return server.clients[-1]


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_a_refusal_and_leads_nowhere(status):
    """Neither headers nor body, nor even a connection, reach the other address."""
    with hostile(answering(200)) as other:
        for target in (f"{other.url}/taken", other.url.replace("http:", "https:"), "/elsewhere"):
            with hostile(answering(status, b"", f"Location: {target}")) as server:
                with pytest.raises(DeliveryError, match=f"status {status}, it points") as caught:
                    tell(webhook(server))
                assert KEY not in str(caught.value)

                backend = delivery(server)
                with pytest.raises(DeliveryError, match="a redirect is not followed"):
                    backend.post("/scores", {"text": "secret"})
                assert backend.offer("PUT", "/scores", {}) is False
                assert sender(server).send(b"secret") == (f"status_{status}", False, None, 0)

                way = way_to([SpansAddress(server.url, {"api-key": KEY}, {})])
                way.provider.get_tracer("t").start_span("secret", set_span_in_context(None)).end()
                with pytest.raises(DeliveryError):
                    way.send()
                way.provider.shutdown()
                assert len(server.requests) == 5
        assert other.requests == []


@pytest.mark.parametrize("say", LATE)
def test_what_does_not_answer_is_given_up_in_time_and_may_be_tried_again(say):
    with hostile(say) as server:
        hook = webhook(server, SHORT_S)
        for _ in range(2):
            with pytest.raises(NotTakenError, match=r"no answer \(ReadTimeout\)") as caught:
                tell(hook)
            assert KEY not in str(caught.value)
        assert sender(server, SHORT_S).send(b"x") == ("timeout", True, None, 0)


@pytest.mark.parametrize("body", [trickled_body, endless_body])
def test_a_status_stands_whatever_follows_it(body):
    """The rest of a body that is too slow or too long is not read, and its connection not used again."""
    with hostile(body(200)) as server:
        hook = webhook(server, SHORT_S)
        for _ in range(2):
            tell(hook)
        assert delivery(server, SHORT_S).post_once("/", {}) is None
        assert sender(server, SHORT_S).send(b"x").problem is None
    with hostile(body(500)) as server:
        with pytest.raises(NotTakenError, match="status 500"):
            tell(webhook(server, SHORT_S))
        assert sender(server, SHORT_S).send(b"x") == ("status_500", False, None, 0)
    with hostile(body(410)) as server, pytest.raises(DeliveryError, match="status 410"):
        tell(webhook(server, SHORT_S))


def test_no_more_is_read_of_an_answer_than_it_may_have(monkeypatch):
    read = bytearray()

    class Counting(bytearray):
        def __iadd__(self, part):
            read.extend(part)
            return super().__iadd__(part)

    monkeypatch.setattr(_bounded_http, "bytearray", Counting, raising=False)
    with hostile(endless_body(200)) as server:
        tell(webhook(server))
    assert _bounded_http.MOST_BYTES < len(read) < 2 * _bounded_http.MOST_BYTES


def test_a_compressed_answer_is_not_unpacked():
    """It was not asked for; what it says is not understood, and its status is."""
    bomb = gzip.compress(b"[" * 10_000_000)
    with hostile(answering(200, bomb, "Content-Encoding: gzip")) as server:
        backend = delivery(server)
        assert backend.post_once("/", {}) is None
        assert b"Accept-Encoding: identity" in server.requests[0]
    with hostile(answering(200, b"[" * 1_000_000)) as server:
        assert delivery(server).post_once("/", {}) is None


def test_a_connection_is_used_again_and_a_time_that_is_over_ends_no_later_request():
    with hostile(answering(200, b'{"a": 1}')) as server:
        backend = delivery(server)
        assert [backend.post_once("/", {}) for _ in range(3)] == [{"a": 1}] * 3
        connected = backend._client._socket
        backend.post_once("/", {})
        assert backend._client._socket is connected
    with hostile(lambda one, send: silence(one, send) if len(one.requests) == 1 else answering(200)(one, send)) as server:  # fmt: skip
        backend = delivery(server, SHORT_S)
        with pytest.raises(NotTakenError):
            backend.post_once("/", {})
        backend._client._timeout_s = 60.0
        assert [backend.post_once("/", {}) for _ in range(3)] == [None] * 3
        assert json.loads(server.requests[-1].partition(b"\r\n\r\n")[2]) == {}
