"""A real OTLP receiver and real processes for the command line."""

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest


def _load(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, Path(__file__).parent.parent / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def otlp() -> Iterator[Any]:
    """An OTLP/HTTP receiver that decodes what it gets."""
    receiver = _load("otlp_receiver").OtlpReceiver()
    yield receiver
    receiver.close()


@pytest.fixture(autouse=True)
def no_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing in these tests may reach an endpoint of the developer's."""
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "RAGMETER_DEMO_MODEL"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def openai_server() -> Any:
    """The module with a server that speaks the OpenAI API."""
    return _load("openai_server")
