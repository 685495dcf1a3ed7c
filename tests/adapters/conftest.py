"""Fixtures of all adapter tests."""

import gc
import warnings
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="module", autouse=True)
def collected(request: pytest.FixtureRequest) -> Iterator[None]:
    """Collect event loops and databases that LlamaIndex never closes: it would warn in any later test."""
    yield
    if "llama_index" in request.module.__name__:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            gc.collect()
