"""The page is there before the rest of the server; what comes meanwhile waits for it."""

import socket
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from python_process import run_python

from ragmeter import ConfigurationError, RagMeter
from ragmeter.exporters.memory import InMemoryExporter
from ragmeter.serve import Front, ServeOptions, Server
from ragmeter.serve.store import StoreOptions

from .served import FULL, PATIENCE_S

LATE = ("grpc", "opentelemetry.sdk", "pydantic_settings", "ragmeter.adapters.reading", "ragmeter.meter")


@pytest.fixture
def front(tmp_path):
    path = tmp_path / "serve.sock"
    options = ServeOptions(uds=path, grace_s=0.0, idle_s=600.0, store=StoreOptions())
    made = Front(options)
    made.start()
    yield made
    made.abandon()


@pytest.fixture
def client(front):
    transport = httpx.HTTPTransport(uds=str(front.options.uds))
    with httpx.Client(transport=transport, base_url="http://localhost", timeout=PATIENCE_S) as client:
        yield client


def test_the_page_comes_first_and_says_that_the_server_starts(front, client):
    page = client.get("/")
    assert page.status_code == 200
    assert "starting" in page.text

    health, ready = client.get("/healthz"), client.get("/readyz")
    assert (health.status_code, health.json()) == (503, {"status": "starting"})
    assert (ready.status_code, ready.json()) == (503, {"ready": False, "why": "starting"})


def test_what_is_sent_meanwhile_is_taken_once_the_server_is_there(front, client):
    scored = InMemoryExporter()
    meter = RagMeter(exporters=[scored])
    with ThreadPoolExecutor() as senders:
        sent = senders.submit(
            client.post,
            "/v1/traces",
            content=FULL.read_bytes(),
            headers={"Content-Type": "application/x-protobuf"},
        )
        overview = senders.submit(client.get, "/api/overview")
        client.get("/")
        assert not sent.done()
        server = Server(meter=meter, front=front)
        server.start()
        assert sent.result(PATIENCE_S).status_code == 200
        assert overview.result(PATIENCE_S).status_code == 200
    assert client.get("/readyz").json() == {"ready": True, "why": None}
    assert server.stop(PATIENCE_S)
    meter.shutdown(PATIENCE_S)
    assert len(scored.results) == 1


def test_a_server_that_cannot_be_made_frees_its_port(front, monkeypatch):
    def refuse(*_):
        raise ConfigurationError("taken")

    monkeypatch.setattr("ragmeter.serve.server.bind_grpc", refuse)
    with pytest.raises(ConfigurationError, match="taken"):
        Server(front=front)
    with socket.socket(socket.AF_UNIX) as client, pytest.raises(OSError, match="refused"):
        client.connect(str(front.options.uds))


def test_the_page_needs_nothing_that_scores():
    code = f"import sys, ragmeter.serve.front; print(*[m for m in {LATE} if m in sys.modules])"
    assert run_python("-c", code, check=True).stdout.strip() == ""
