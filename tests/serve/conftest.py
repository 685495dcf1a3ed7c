"""Both kinds of store, for the tests that are about either, and where scores are sent."""

import pytest
from otlp_receiver import OtlpReceiver
from postgresql_server import postgresql

__all__ = ["backend", "fresh", "postgresql"]


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.service)])
def fresh(request, tmp_path_factory):
    """Return where a new store can be kept, each time another place: a file, or the address of a database."""
    if request.param == "sqlite":
        return lambda: tmp_path_factory.mktemp("store") / "serve.db"
    return request.getfixturevalue("postgresql").database


@pytest.fixture
def backend(monkeypatch):
    """A backend that the standard variables name."""
    for name in ("OTEL_SERVICE_NAME", "OTEL_RESOURCE_ATTRIBUTES", "RAGMETER_JSONL"):
        monkeypatch.delenv(name, raising=False)
    receiver = OtlpReceiver()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.url)
    yield receiver
    receiver.close()
