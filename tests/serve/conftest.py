"""Both kinds of store, for tests of either, and the destination of scores."""

import pytest
from otlp_receiver import OtlpReceiver
from postgresql_server import postgresql
from warm_interpreter import WarmInterpreter

from ragmeter.serve import front
from ragmeter.serve._limits import Limits

__all__ = ["backend", "fresh", "limited", "postgresql", "warm"]

PREPARATION = """
import grpc
import httpx
import opentelemetry.exporter.otlp.proto.http.trace_exporter
import opentelemetry.exporter.otlp.proto.http._log_exporter
import opentelemetry.exporter.otlp.proto.http.metric_exporter
import ragmeter.cli.app
import ragmeter.cli.serve
from importlib import import_module
from pkgutil import walk_packages
import ragmeter.serve
for module in walk_packages(ragmeter.serve.__path__, "ragmeter.serve."):
    if "kafka" not in module.name and "postgresql" not in module.name:
        import_module(module.name)
from ragmeter.metrics import evaluate
evaluate([{"question": "How high?", "contexts": ["It is 4 m high."], "answer": "4 m.", "reference": {"answer": "4 m"}}])
"""


@pytest.fixture(scope="session")
def warm():
    """Yield an interpreter that has imported the server, and forks into one."""
    interpreter = WarmInterpreter(PREPARATION)
    yield interpreter
    interpreter.close()


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.service)])
def fresh(request, tmp_path_factory):
    """Return a function that returns a new place for a store each time: a file, or a database's address."""
    if request.param == "sqlite":
        return lambda: tmp_path_factory.mktemp("store") / "serve.db"
    return request.getfixturevalue("postgresql").database


@pytest.fixture
def limited(monkeypatch):
    """Return a function that sets bounds of the servers that are made later."""
    return lambda **bounds: monkeypatch.setattr(front, "Limits", lambda **given: Limits(**given | bounds))


@pytest.fixture
def backend(monkeypatch):
    """Yield a backend that the standard variables name."""
    for name in ("OTEL_SERVICE_NAME", "OTEL_RESOURCE_ATTRIBUTES", "RAGMETER_JSONL"):
        monkeypatch.delenv(name, raising=False)
    receiver = OtlpReceiver()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.url)
    yield receiver
    receiver.close()
