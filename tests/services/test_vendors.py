"""ragmeter beside each vendor's tracing, set up as the vendor's own page says; the vendors stand in `vendors/table.py`."""

import json
import os
import subprocess
import sys
from collections import Counter
from functools import lru_cache
from pathlib import Path

import pytest
from serving import serving

HERE = Path(__file__).with_name("vendors")
TESTS = HERE.parents[1]
sys.path.insert(0, str(HERE))

from receiver import backend  # noqa: E402 -- beside the table, which vendors' own Pythons read, too
from table import VENDORS, WAYS  # noqa: E402

ENVIRONMENTS = os.environ.get("RAGMETER_TEST_VENDORS", "")
TEXTS = ("secret-question", "secret-answer", "secret-context")
ASKED = 2


def run(name, way, home, **environment):
    """Run the application of a vendor in a way; return what it printed, what arrived and what it said."""
    with backend() as taken:
        told, said = application(name, way, home, taken.url, taken.grpc_port, environment)
    return told, list(taken.arrived), said


def application(name, way, home, url, grpc_port, environment):
    """Run it with a backend at an address; return what it printed and what it said."""
    vendor = VENDORS[name]
    python = Path(ENVIRONMENTS, name, "bin", "python")
    variables = {key: value.format(url=url, grpc_port=grpc_port) for key, value in vendor.environment.items()}
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
            **environment,
        },
    )
    printed = [line for line in done.stdout.splitlines() if line.startswith('{"traces"')]
    told = json.loads(printed[-1]) if printed and done.returncode == 0 else None
    return told, done.stderr[-8000:]


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


def installed(name):
    """Return the mark that skips what needs the environment of a vendor that has none."""
    return pytest.mark.skipif(
        not ENVIRONMENTS or not Path(ENVIRONMENTS, name).exists(),
        reason=f"no environment of {name}: .ci/vendors makes it",
    )


def cells(*, closed):
    """Name the ways of each vendor that are closed, or those that are not; skipped where it is not installed."""
    return [
        pytest.param(name, way, id=f"{name}-{way}", marks=installed(name))
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


@pytest.mark.parametrize("name", [pytest.param(name, marks=installed(name)) for name in ("ddtrace", "mlflow")])
def test_where_a_way_is_closed_the_server_scores_what_it_passes_on(name, tmp_path):
    """As docs/backends.md says: the vendor sends to ``ragmeter serve --forward``, and nothing is attached."""
    with (
        backend() as taken,
        serving(tmp_path / "serve", taken.url, "--forward", "--no-store", "--no-spool") as server,
    ):
        told, said = application(name, "without", tmp_path, server.http, 0, {})
        assert told is not None, said
        assert server.drain() == 0
    passed_on = {one.trace for one in taken.arrived if one.scope != "ragmeter"}
    scored = {one.trace for one in taken.arrived if "ragmeter.verdict" in one.attributes}
    assert passed_on >= set(told["traces"])
    assert scored >= set(told["traces"]), server.log.read_text()


@pytest.mark.parametrize(("name", "way"), cells(closed=False))
def test_scores_stand_on_the_vendors_own_trace(name, way, alone, tmp_path):
    """Every request is exported there, nothing of the vendor's is missing, and no text leaves unasked."""
    told, arrived, said = run(name, way, tmp_path)

    assert told is not None, said
    stats = told["stats"]
    assert told["flushed"], (stats, said)
    assert (stats["dropped"], stats["internal_errors"], stats["export_errors"]) == ({}, {}, {}), said
    assert stats["captured"] == stats["exported"] >= ASKED
    assert "ragmeter contained" not in said, said

    ours = [one for one in arrived if one.scope == "ragmeter"]
    verdicts = {one.trace for one in ours if one.signal == "traces" and "ragmeter.verdict" in one.attributes}
    assert verdicts >= set(told["traces"]), _shown(arrived)
    assert {one.signal for one in ours} == set(VENDORS[name].signals)
    assert not [one.text for one in ours if any(text in one.text for text in TEXTS)]
    missing = _theirs(alone(name)) - _theirs(arrived)
    assert not missing, f"with ragmeter these no longer arrive: {missing}"


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=installed(name))
        for name, vendor in VENDORS.items()
        if "instrument" not in vendor.cannot
    ],
)
def test_the_doctor_names_what_is_set_up_and_what_became_of_requests(name, tmp_path):
    told, _, said = run(name, "instrument", tmp_path, RAGMETER_DOCTOR="1")

    assert told is not None, said
    vendor = VENDORS[name]
    for words in (*vendor.named, "requests: 2 captured (by langchain), 2 exported"):
        assert words in said, said
    failed = [line for line in said.splitlines() if "FAIL " in line]
    assert all(vendor.unsent and vendor.unsent in line for line in failed), said


def _theirs(arrived):
    """Count the spans of others by name and scope, and name their log records and metrics."""
    spans = Counter(
        (one.scope, one.name) for one in arrived if one.signal == "traces" and one.scope != "ragmeter"
    )
    rest = {
        (one.signal, one.scope, one.name)
        for one in arrived
        if one.signal != "traces" and one.scope != "ragmeter"
    }
    return spans + Counter(rest)


def _shown(arrived):
    return "\n".join(f"{one.signal} {one.scope} {one.name} {one.trace}" for one in arrived)
