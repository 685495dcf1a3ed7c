"""What tests of judged metrics share: a real local endpoint, and one way to score a sample."""

from collections.abc import Iterator

import pytest
from openai_server import OpenAIServer


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    """A judge's endpoint that answers true to everything until told otherwise."""
    with OpenAIServer() as running:
        yield running
