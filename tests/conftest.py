"""Fixtures for all tests."""

import gc
import os
import random
import secrets
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

# Tests start hundreds of processes. Where Python may not store compiled modules, each of them compiles all
# modules again, which is most of its start.
if os.environ.pop("PYTHONDONTWRITEBYTECODE", None):
    sys.dont_write_bytecode = False

# Examples are small, machines are not always idle: hypothesis' own 200 ms per example fails a
# property, "flaky", whenever the processor was elsewhere, and so does its check of the generation.
_PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
# Tests are deterministic: every run has the same examples. The search for new ones is a separate lane
# (`.ci/search`), and its findings become `@example`s.
settings.register_profile("fixed", _PATIENT, derandomize=True, max_examples=25)
settings.register_profile("search", _PATIENT, max_examples=2_000, print_blob=True)
settings.load_profile(os.environ.get("RAGMETER_TEST_EXAMPLES", "fixed"))

# Ids of traces and requests are random numbers, and what is sampled is a function of them.  They are
# the same in every run as well, so that what fails on one machine fails on all; `.ci/search` has others.
_SEED = os.environ.get("RAGMETER_TEST_SEED", "1")
_urandom = os.urandom
_token_bytes = secrets.token_bytes


class _Bytes:
    """`os.urandom` of one test: the same bytes in every run; those of the system in a forked child."""

    def __init__(self, seed: str) -> None:
        self._random = random.Random(seed)
        self._process = os.getpid()

    def __call__(self, size: int | None = None, /) -> bytes:
        size = 32 if size is None else size  # as `secrets.token_bytes` has it
        # A child that continued to draw from a copy would create its parent's ids again.
        if os.getpid() != self._process:
            return _urandom(size)
        return self._random.randbytes(size)


def pytest_collection_finish() -> None:
    """Leave modules and tests out of garbage collection: tests that collect pay for their own objects only."""
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def state_of_the_tests(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep servers of tests out of the user's state folder, and out of each other's."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield


@pytest.fixture(autouse=True)
def same_chance(request: pytest.FixtureRequest) -> Iterator[None]:
    """Set the random numbers, `uuid4`s and trace ids of the test to the same ones in every run."""
    test = request.node.nodeid
    request.node.add_report_section("call", "chance", f"RAGMETER_TEST_SEED={_SEED}")
    random.seed(f"{_SEED} {test}")
    os.urandom = _Bytes(f"{_SEED} bytes {test}")
    # Ids in a judge's prompts come from here: of 3,375, two asks have the same in one run of so many.
    secrets.token_bytes = _Bytes(f"{_SEED} secrets {test}")
    yield
    os.urandom, secrets.token_bytes = _urandom, _token_bytes


@pytest.fixture(autouse=True)
def contained_errors(request: pytest.FixtureRequest) -> Iterator[list[tuple[str, Exception]]]:
    """Collect errors contained by ragmeter's guards; fail the test for them unless marked `contains_errors`."""
    errors: list[tuple[str, Exception]] = []
    with observed_errors(lambda component, error: errors.append((component, error))):
        yield errors
    if errors and request.node.get_closest_marker("contains_errors") is None:
        raise AssertionError(f"ragmeter contained errors at {errors!r}") from errors[0][1]
