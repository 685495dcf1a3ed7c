"""A metric that hangs in `ragmeter worker` costs its own request and no other."""

import json
import os
import subprocess
import sys

import pytest

from ragmeter import RagMeter, RagSample
from ragmeter.fleet.payload import unpack
from ragmeter.fleet.publisher import FleetPublisher
from ragmeter.fleet.queue import open_queue

METRICS = """
import time
from ragmeter.metrics import metric

@metric(needs=("answer",), target="answer")
def may_hang(sample):
    if "HANG" in sample.question:
        time.sleep(3600)
    return 1.0
"""


@pytest.fixture
def package(tmp_path):
    """A folder with an installed package that registers the metric."""
    folder = tmp_path / "packages"
    info = folder / "may_hang-1.dist-info"
    info.mkdir(parents=True)
    (folder / "may_hang.py").write_text(METRICS)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: may-hang\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[ragmeter.metrics]\nmay_hang = may_hang:may_hang\n")
    return folder


@pytest.mark.long_form
def test_after_the_limit_it_is_tried_alone_and_put_aside(package, tmp_path):
    url, out = f"spool://{tmp_path}/queue", tmp_path / "scores.jsonl"
    names = {str(number) for number in range(5)}
    with RagMeter(metrics=[], exporters=[FleetPublisher(url)]) as meter:
        for name in (*sorted(names), "HANG"):
            meter.submit(RagSample(question=name, answer="a", name=name))
        assert meter.flush(60)
    env = {k: v for k, v in os.environ.items() if not k.startswith(("RAGMETER_", "OTEL_"))} | {
        "PYTHONPATH": str(package),
        "RAGMETER_QUEUE_URL": url,
        "RAGMETER_JSONL": str(out),
        "RAGMETER_METRICS": "may_hang",
        "RAGMETER_WORKER_LIMIT_S": "10",
    }
    command = [sys.executable, "-m", "ragmeter", "worker", "--once", "--processes", "1"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=250, check=False)
    assert done.returncode == 0, done.stderr
    scored = [json.loads(line) for line in out.read_text().splitlines()]
    assert {one["name"] for one in scored} == names
    [dead] = open_queue(url).dead(5)
    assert [one.run.sample.question for one in unpack(dead.body).runs] == ["HANG"]
    assert dead.deaths == 4
    assert "(a message took too long)" in done.stderr
    assert "requests are tried for the 2. time" in done.stderr
