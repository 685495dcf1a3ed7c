"""What every test of an adapter is run with."""

import gc
import warnings
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="module", autouse=True)
def collected(request: pytest.FixtureRequest) -> Iterator[None]:
    """Collect what LlamaIndex opens and never closes, event loops and databases: it warns in whatever test comes next."""
    yield
    if "llama_index" in request.module.__name__:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            gc.collect()
