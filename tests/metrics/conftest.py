"""Shared parts of tests of judged metrics: a real local endpoint, and one way to score a sample."""

from collections.abc import Iterator

import pytest
from openai_server import OpenAIServer


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    """Yield a judge's endpoint that answers true to everything by default."""
    with OpenAIServer() as running:
        yield running
