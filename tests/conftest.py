"""Fixtures that every test may use."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from ragmeter._runtime.guard import observed_errors

# `python -m pytest` puts the checkout first on the path, where the rooms would be importable under
# their folders' names (`metrics`, `core`), here and in every worker that inherits the path.
_CHECKOUT = Path(__file__).resolve().parents[1]
sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != _CHECKOUT]

# Examples are small, machines are not always idle: hypothesis' own 200 ms per example fails a
# property, "flaky", whenever the processor was elsewhere, and so does its check of the generation.
_PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
# No chance decides a test: every run sees the same examples.  The search for new ones is a lane of
# its own (`.ci/search`), and what it finds becomes an `@example`.
settings.register_profile("fixed", _PATIENT, derandomize=True)
settings.register_profile("search", _PATIENT, max_examples=2_000, print_blob=True)
settings.load_profile(os.environ.get("RAGMETER_TEST_EXAMPLES", "fixed"))


@pytest.fixture(autouse=True)
def contained_errors(request: pytest.FixtureRequest) -> Iterator[list[tuple[str, Exception]]]:
    """Collect what ragmeter's guards contain; fail the test for it unless it asked for errors."""
    errors: list[tuple[str, Exception]] = []
    with observed_errors(lambda component, error: errors.append((component, error))):
        yield errors
    if errors and request.node.get_closest_marker("contains_errors") is None:
        raise AssertionError(f"ragmeter contained errors at {errors!r}") from errors[0][1]
