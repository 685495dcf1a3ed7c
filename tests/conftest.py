"""Fixtures that every test may use."""

import os
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from ragmeter.guard import observed_errors

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
    with observed_errors(lambda seam, error: errors.append((seam, error))):
        yield errors
    if errors and request.node.get_closest_marker("contains_errors") is None:
        raise AssertionError(f"ragmeter contained errors at {errors!r}") from errors[0][1]
