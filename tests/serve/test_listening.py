"""On a machine that others use: a socket that is this user's alone, or a token that a private file keeps."""

import os
import socket
import stat

import grpc
import httpx
import pytest
from served import FULL, PATIENCE_S, served, until

from ragmeter.metrics import ConfigurationError
from ragmeter.serve import ServeOptions
from ragmeter.serve._listening import token_of

BODY = FULL.read_bytes()
PROTOBUF = {"Content-Type": "application/x-protobuf"}
TRACES = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"


def test_a_unix_socket_takes_what_ports_take_and_is_this_users_alone(tmp_path):
    path = tmp_path / "here" / "socket"
    with served(uds=path) as server:
        for one in (path, path.with_name("socket.grpc")):
            assert stat.S_IMODE(one.stat().st_mode) == 0o600
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        assert server.server.address.startswith(f"OTLP/HTTP on unix:{path}, OTLP/gRPC on unix:{path}.grpc")
        transport = httpx.HTTPTransport(uds=str(path))
        with httpx.Client(transport=transport, base_url="http://localhost", timeout=60) as client:
            assert client.get("/healthz").json()["status"] == "ok"
            assert client.post("/v1/traces", content=BODY, headers=PROTOBUF).status_code == 200
            elsewhere = client.get("/api/overview", headers={"Host": "evil.example"})
            assert elsewhere.status_code == 421
        with grpc.insecure_channel(f"unix:{path}.grpc") as channel:
            assert channel.unary_unary(TRACES)(BODY, timeout=PATIENCE_S) == b""
        until(lambda: server.stats()["requests"] == {"scored": 1})
        with pytest.raises(ConfigurationError, match="another server"), served(uds=path):
            pass
        assert path.exists()
    assert not list(path.parent.iterdir())


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="this system has no IPv6")
def test_every_address_is_that_of_both_families_on_both_ports():
    with served(host="::") as server:
        for host in ("127.0.0.1", "[::1]"):
            assert httpx.get(f"http://{host}:{server.server.http_port}/healthz", timeout=60).status_code == 200
            with grpc.insecure_channel(f"{host}:{server.server.grpc_port}") as channel:
                with pytest.raises(grpc.RpcError) as refused:
                    channel.unary_unary(TRACES)(BODY, timeout=PATIENCE_S)
                assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED


def test_the_socket_of_a_killed_server_makes_room_and_nothing_else_does(tmp_path):
    path = tmp_path / "socket"
    dead = socket.socket(socket.AF_UNIX)
    dead.bind(str(path))
    dead.close()
    with served(uds=path):
        assert path.exists()
    path.write_text("my letters")
    with pytest.raises(ConfigurationError, match="no socket"), served(uds=path):
        pass
    assert path.read_text() == "my letters"
    with pytest.raises(ConfigurationError, match="100 characters"), served(uds=tmp_path / ("x" * 200)):
        pass


def test_a_token_is_made_once_and_kept_in_a_private_file(tmp_path):
    path = tmp_path / "here" / "token"
    with served(token_file=path) as server:
        token = path.read_text().strip()
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert server.server.url.endswith(f"?token={token}")
        answers = [
            httpx.post(
                f"http://127.0.0.1:{server.http_port}/v1/traces",
                content=BODY,
                headers=PROTOBUF | more,
                timeout=60,
            )
            for more in ({}, {"Authorization": f"Bearer {token}"})
        ]
        assert [answer.status_code for answer in answers] == [401, 200]
    with served(token_file=path) as server:
        assert server.access.token == token
        assert token not in server.server.url  # printed once


@pytest.mark.parametrize(
    ("mode", "words", "what"),
    [(0o644, "x" * 20, "chmod 600"), (0o600, "", "empty"), (0o600, "abc", "too short")],
)
def test_a_token_that_others_read_or_guess_is_none(tmp_path, mode, words, what):
    path = tmp_path / "token"
    path.write_text(words)
    path.chmod(mode)
    with pytest.raises(ConfigurationError, match=what), served(token_file=path):
        pass


def test_the_variable_is_for_those_without_a_file(tmp_path, monkeypatch):
    monkeypatch.setenv("RAGMETER_SERVE_TOKEN", "v" * 20)
    assert token_of(ServeOptions()) == ("v" * 20, True)
    assert token_of(ServeOptions(token_file=tmp_path / "t"))[0] != "v" * 20
    assert token_of(ServeOptions(token="given" * 4, token_file=tmp_path / "t"))[0] == "given" * 4
    assert os.environ["RAGMETER_SERVE_TOKEN"]
