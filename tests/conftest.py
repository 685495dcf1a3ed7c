"""Fixtures that every test may use."""

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from ragmeter.guard import observed_errors

# Examples are small, machines are not always idle: hypothesis' own 200 ms per example fails a
# property, "flaky", whenever the processor was elsewhere, and so does its check of the generation.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")


@pytest.fixture(autouse=True)
def contained_errors(request: pytest.FixtureRequest) -> Iterator[list[tuple[str, Exception]]]:
    """Collect what ragmeter's guards contain; fail the test for it unless it asked for errors."""
    errors: list[tuple[str, Exception]] = []
    with observed_errors(lambda seam, error: errors.append((seam, error))):
        yield errors
    if errors and request.node.get_closest_marker("contains_errors") is None:
        raise AssertionError(f"ragmeter contained errors at {errors!r}") from errors[0][1]
