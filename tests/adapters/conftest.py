"""Fixtures of all adapter tests; warnings that only a framework can fix are ignored."""

import gc
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from langchain_fakes import Watch


def pytest_itemcollected(item: Any) -> None:
    """Let LlamaIndex deprecate its own parts, and leave files and loops open, in its tests."""
    if "test_llama_index" in item.module.__name__:
        ignored = ("ResourceWarning", "DeprecationWarning", "pytest.PytestUnraisableExceptionWarning")
        item.add_marker(pytest.mark.filterwarnings(*[f"ignore::{name}" for name in ignored]))


@pytest.fixture(scope="module", autouse=True)
def collected(request: pytest.FixtureRequest) -> Iterator[None]:
    """Collect event loops and databases that LlamaIndex never closes: it would warn in any later test."""
    yield
    if "llama_index" in request.module.__name__:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            gc.collect()


@pytest.fixture
def watch() -> Iterator["Watch"]:
    """Yield a watch that must end without any run in memory."""
    from langchain_fakes import Watch

    made = Watch()
    yield made
    made.close()
    assert made.state == 0


@pytest.fixture
def chain() -> Any:
    """Return the chain of every tutorial."""
    from langchain_fakes import FixedRetriever, docs, lcel

    return lcel(FixedRetriever(found=docs("a", "b")))
