"""Encrypted ports for both protocols, and a token that is enough to look and for nothing else."""

import shutil
import socket
import ssl
from pathlib import Path

import grpc
import httpx
import pytest
from served import FULL, PATIENCE_S, served, until

from ragmeter.metrics import ConfigurationError
from ragmeter.serve.store import StoreOptions

CERTIFICATES = Path(__file__).parent / "certificates"
BODY = FULL.read_bytes()
PROTOBUF = {"Content-Type": "application/x-protobuf"}
TRACES = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
TOKEN, VIEW = "token-of-senders-1", "token-of-viewers-1"


@pytest.fixture
def pair(tmp_path):
    """A certificate and its key, which the test may replace."""
    for kind in ("pem", "key"):
        shutil.copy(CERTIFICATES / f"first.{kind}", tmp_path / f"server.{kind}")
    return {"tls_cert": tmp_path / "server.pem", "tls_key": tmp_path / "server.key"}


def trusting(name):
    return ssl.create_default_context(cafile=str(CERTIFICATES / f"{name}.pem"))


def test_both_ports_are_encrypted_and_a_plain_sender_gets_nothing(pair):
    with served(**pair, store=StoreOptions()) as server:
        http = f"https://localhost:{server.http_port}"
        assert server.server.url == http.replace("localhost", "127.0.0.1") + "/"
        with httpx.Client(verify=trusting("first"), timeout=60) as client:
            assert client.post(f"{http}/v1/traces", content=BODY, headers=PROTOBUF).status_code == 200
            assert client.get(f"{http}/api/overview").status_code == 200
        root = grpc.ssl_channel_credentials((CERTIFICATES / "first.pem").read_bytes())
        with grpc.secure_channel(f"localhost:{server.grpc_port}", root) as channel:
            assert channel.unary_unary(TRACES)(BODY, timeout=PATIENCE_S) == b""
        with pytest.raises(httpx.HTTPError):
            httpx.post(f"http://localhost:{server.http_port}/v1/traces", content=BODY)
        with pytest.raises(grpc.RpcError), grpc.insecure_channel(server.grpc) as channel:
            channel.unary_unary(TRACES)(BODY, timeout=5)


def test_a_renewed_certificate_is_shown_without_a_restart_and_a_broken_one_is_not(pair, caplog):
    with served(**pair) as server:
        http = f"https://localhost:{server.http_port}/healthz"
        (pair["tls_cert"]).write_bytes((CERTIFICATES / "second.pem").read_bytes())
        for _ in range(2):  # the key is not there yet
            server._certificate.renew()
        assert httpx.get(http, verify=trusting("first")).status_code == 200
        assert len([one for one in caplog.messages if "certificate" in one]) == 1
        (pair["tls_key"]).write_bytes((CERTIFICATES / "second.key").read_bytes())
        server._certificate.renew()
        assert httpx.get(http, verify=trusting("second")).status_code == 200
        root = grpc.ssl_channel_credentials((CERTIFICATES / "second.pem").read_bytes())
        with grpc.secure_channel(f"localhost:{server.grpc_port}", root) as channel:
            assert channel.unary_unary(TRACES)(BODY, timeout=PATIENCE_S) == b""


def test_a_handshake_that_never_comes_is_ended(pair):
    with (
        served(**pair, header_timeout_s=0.3) as server,
        socket.create_connection(("127.0.0.1", server.http_port), timeout=PATIENCE_S) as wire,
    ):
        assert wire.recv(1) == b""


@pytest.mark.parametrize(
    ("cert", "key", "more", "what"),
    [
        ("first.pem", None, {}, "belong together"),
        (None, "first.key", {}, "belong together"),
        ("first.pem", "second.key", {}, "mismatch"),
        ("first.key", "first.key", {}, "PEM"),
        ("nowhere.pem", "first.key", {}, "no such file"),
        ("first.pem", "first.key", {"uds": Path("s")}, "leave it out"),
    ],
)
def test_what_cannot_be_used_is_said_at_the_start(cert, key, more, what):
    given = {"tls_cert": cert and CERTIFICATES / cert, "tls_key": key and CERTIFICATES / key}
    with pytest.raises(ConfigurationError, match=what), served(**given, **more):
        pass


def test_the_token_of_viewers_looks_and_does_nothing_else(monkeypatch):
    monkeypatch.setenv("RAGMETER_SERVE_VIEW_TOKEN", VIEW)
    with (
        served(token=TOKEN, store=StoreOptions()) as server,
        httpx.Client(base_url=server.url, timeout=60) as client,
    ):
        viewer = {"Authorization": f"Bearer {VIEW}"}
        assert server.server.view_url.endswith(f"/?token={VIEW}")
        for path in ("/", "/api/overview", "/api/openapi.json"):
            assert client.get(path).status_code == 401
            assert client.get(path, headers=viewer).status_code == 200, path
        for method, path in [
            *(("POST", f"/v1/{signal}") for signal in ("traces", "logs", "metrics")),
            ("POST", "/api/marks"),
            ("POST", "/api/changes/accept"),
            ("POST", "/api/gaps/state"),
            ("POST", "/golden"),
            ("PUT", "/"),
            ("DELETE", "/api/overview"),
        ]:
            answer = client.request(method, path, content=BODY, headers=viewer | PROTOBUF)
            assert answer.status_code == 403, path
            assert "looking" in answer.json()["error"]
        with grpc.insecure_channel(server.grpc) as channel, pytest.raises(grpc.RpcError) as error:
            channel.unary_unary(TRACES)(
                BODY, timeout=PATIENCE_S, metadata=[("authorization", f"Bearer {VIEW}")]
            )
        assert error.value.code() is grpc.StatusCode.UNAUTHENTICATED

        entered = client.get(f"/?token={VIEW}")
        assert entered.status_code == 303
        assert VIEW in entered.headers["set-cookie"]
        assert TOKEN not in entered.headers["set-cookie"]
        assert client.get("/").status_code == 200
        assert client.post("/api/marks", json={}).status_code == 403
        sender = {"Authorization": f"Bearer {TOKEN}"}
        assert client.post("/v1/traces", content=BODY, headers=sender | PROTOBUF).status_code == 200
        until(lambda: server.stats()["requests"] == {"scored": 1})


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ({"view_token": VIEW}, "another one for senders"),
        ({"view_token": VIEW, "token": VIEW}, "another one for senders"),
        ({"view_token": "short", "token": TOKEN}, "RAGMETER_SERVE_VIEW_TOKEN is too short"),
    ],
)
def test_a_token_of_viewers_that_would_hold_no_viewer_back_is_refused(given, what):
    with pytest.raises(ConfigurationError, match=what), served(**given):
        pass


def test_the_token_of_viewers_may_be_kept_in_a_file(tmp_path):
    path = tmp_path / "view"
    with served(token=TOKEN, view_token_file=path) as server:
        assert server.access.view_token == path.read_text().strip()
        assert TOKEN not in repr(server.options)
