"""Every benchmark runs in its short form without peers, and says something that can be read."""

import json
import math
import sys
from pathlib import Path

import pytest
from python_process import run_python

pytestmark = pytest.mark.skipif(sys.version_info < (3, 11), reason="benchmarks need Python 3.11")
BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
NAMES = {
    "request_overhead_langchain": "langchain_core",
    "request_overhead_llama_index": "llama_index.core",
    "calls": "langchain_core",
    "rivals": "langchain_classic",
    "live_latency": "langchain_core",
    "waking_up": "openai",
    "deterministic_metrics": "ragmeter",
    "judged_metrics": "openai",
    "judged_throughput": "openai",
    "meter_capacity": "openai",
    "spans": "opentelemetry.proto",
    "receiving": "uvicorn",
    "publishing": "ragmeter",
    "shared_budget": "redis",
    "storing": "uvicorn",
    "first_paint": "uvicorn",
    "archive": "pyarrow",
    "footprint": "ragmeter",
    "estimates": "numpy",
    "shadow": "numpy",
    "traffic_views": "ragmeter",
    "alarms": "numpy",
    "alarm_rules": "numpy",
}


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", NAMES)
def test_a_short_run_without_peers_gives_readable_rows(name):
    """``--quick --no-peers --json`` prints rows with a name, a unit and finite numbers."""
    pytest.importorskip(NAMES[name])
    done = run_python(str(BENCHMARKS / f"{name}.py"), "--quick", "--no-peers", "--json")

    assert done.returncode == 0, done.stderr[-2000:]
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert rows
    for row in rows:
        assert row["benchmark"] == name
        assert row["what"]
        assert math.isfinite(row["ours"])
        assert row["ratio"] is None or math.isfinite(row["ratio"])
        assert row["met"] in (True, False, None)


def test_every_benchmark_is_in_the_table():
    """``run.py`` knows the benchmarks tested here, and no other."""
    listed = run_python("-c", "import results; print(*results.BENCHMARKS)", cwd=BENCHMARKS, check=True)

    assert listed.stdout.split() == list(NAMES)
