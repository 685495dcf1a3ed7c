"""ragmeter beside each vendor's tracing, set up as the vendor's own page says; the vendors stand in `vendors/table.py`."""

import json
import os
import subprocess
import sys
from collections import Counter
from functools import lru_cache
from pathlib import Path

import pytest

HERE = Path(__file__).with_name("vendors")
TESTS = HERE.parents[1]
sys.path.insert(0, str(HERE))

from receiver import backend  # noqa: E402 -- beside the table, which vendors' own Pythons read, too
from table import VENDORS, WAYS  # noqa: E402

ENVIRONMENTS = os.environ.get("RAGMETER_TEST_VENDORS", "")
TEXTS = ("secret-question", "secret-answer", "secret-context")
ASKED = 2


def run(name, way, home):
    """Run the application of a vendor in a way; return what it printed and what arrived."""
    vendor = VENDORS[name]
    python = Path(ENVIRONMENTS, name, "bin", "python")
    with backend() as taken:
        variables = {
            key: value.format(url=taken.url, grpc_port=taken.grpc_port)
            for key, value in vendor.environment.items()
        }
        command = [str(python.with_name(one)) for one in vendor.command]
        done = subprocess.run(
            [*command, str(python), str(HERE / "app.py"), name, way],
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
            cwd=home,
            env={
                "PATH": f"{python.parent}:{os.environ['PATH']}",
                "PYTHONPATH": os.pathsep.join([str(HERE), str(TESTS)]),
                "HOME": str(home),
                "NO_PROXY": "*",
                **variables,
            },
        )
    printed = [line for line in done.stdout.splitlines() if line.startswith('{"traces"')]
    told = json.loads(printed[-1]) if printed and done.returncode == 0 else None
    return told, list(taken.arrived), done.stderr[-4000:]


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """What arrives from a vendor's application without ragmeter."""

    @lru_cache
    def arrived(name):
        told, found, said = run(name, "without", tmp_path_factory.mktemp("home"))
        assert told is not None, said
        assert set(told["traces"]) <= {one.trace for one in found if one.signal == "traces"}
        return found

    return arrived


def cells(*, closed):
    """Name the ways of each vendor that are closed, or those that are not; skipped where it is not installed."""
    return [
        pytest.param(
            name,
            way,
            id=f"{name}-{way}",
            marks=pytest.mark.skipif(
                not ENVIRONMENTS or not Path(ENVIRONMENTS, name).exists(),
                reason=f"no environment of {name}: .ci/vendors makes it",
            ),
        )
        for name, vendor in VENDORS.items()
        for way in WAYS
        if (way in vendor.cannot) is closed
    ]


@pytest.mark.parametrize(("name", "way"), cells(closed=True))
def test_a_closed_way_is_said(name, way, alone, tmp_path):
    """At construction, or request by request: each is counted as dropped, and the vendor's own goes on."""
    told, arrived, said = run(name, way, tmp_path)

    if told is None:
        assert "ragmeter.metrics.errors.ConfigurationError" in said
    else:
        stats = told["stats"]
        assert sum(stats["dropped"].values()) == stats["captured"] >= ASKED
        assert not _theirs(alone(name)) - _theirs(arrived)


@pytest.mark.parametrize(("name", "way"), cells(closed=False))
def test_scores_stand_on_the_vendors_own_trace(name, way, alone, tmp_path):
    """Every request is exported there, nothing of the vendor's is missing, and no text leaves unasked."""
    told, arrived, said = run(name, way, tmp_path)

    assert told is not None, said
    stats = told["stats"]
    assert told["flushed"], (stats, said)
    assert (stats["dropped"], stats["internal_errors"], stats["export_errors"]) == ({}, {}, {}), (
        said
    )
    assert stats["captured"] == stats["exported"] >= ASKED
    assert "ragmeter contained" not in said, said

    ours = [one for one in arrived if one.scope == "ragmeter"]
    verdicts = {
        one.trace for one in ours if one.signal == "traces" and "ragmeter.verdict" in one.attributes
    }
    assert verdicts >= set(told["traces"]), _shown(arrived)
    assert {one.signal for one in ours} == set(VENDORS[name].signals)
    assert not [one.text for one in ours if any(text in one.text for text in TEXTS)]
    missing = _theirs(alone(name)) - _theirs(arrived)
    assert not missing, f"with ragmeter these no longer arrive: {missing}"


def _theirs(arrived):
    """Count the spans of others by name and scope, and name their log records and metrics."""
    spans = Counter(
        (one.scope, one.name)
        for one in arrived
        if one.signal == "traces" and one.scope != "ragmeter"
    )
    rest = {
        (one.signal, one.scope, one.name)
        for one in arrived
        if one.signal != "traces" and one.scope != "ragmeter"
    }
    return spans + Counter(rest)


def _shown(arrived):
    return "\n".join(f"{one.signal} {one.scope} {one.name} {one.trace}" for one in arrived)
