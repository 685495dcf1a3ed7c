"""Where threads are greenlets: nothing hangs, every request is scored, exits are clean."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path

import httpx
import pytest
from processes import free_port
from python_process import run_python

TESTS = Path(__file__).resolve().parent.parent
PATH = os.pathsep.join([str(TESTS), str(TESTS / "core"), str(TESTS / "faults")])

LIBRARIES = [
    pytest.param(
        name, marks=pytest.mark.skipif(find_spec(name) is None, reason=f"{name} is not installed here")
    )
    for name in ("eventlet", "gevent")
]
PATCH = {
    "eventlet": "import eventlet; eventlet.monkey_patch(); spawn = eventlet.spawn",
    "gevent": "from gevent import monkey; monkey.patch_all(); from gevent import spawn",
}

SCRIPT = """
import faulthandler, sys
faulthandler.dump_traceback_later(90, exit=True)
from fakes_worker import EchoJudge
from ragmeter import Limits, RagMeter
from ragmeter.exporters.jsonl import JsonlExporter
from ragmeter.metrics import RagSample
meter = RagMeter(
    metrics=["retrieval_health", "context_utilization"], judge=EchoJudge(), scoring=sys.argv[2],
    exporters=[JsonlExporter(sys.argv[1], include_content=True)], limits=Limits(shutdown_timeout_s=60),
)
def ask(number):
    meter.submit(RagSample(question=f"question {number}", contexts=["a"], answer="b"))
asking = [spawn(ask, number) for number in range(20)]
for one in asking:
    one.wait() if hasattr(one, "wait") else one.join()
assert meter.flush(60)
ask(20)  # at exit
"""


def scored(path):
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return [json.loads(line) for line in lines]


@pytest.mark.parametrize("scoring", ["thread", "process"])
@pytest.mark.parametrize("library", LIBRARIES)
def test_a_patched_script(tmp_path, library, scoring):
    path = tmp_path / "scores.jsonl"
    done = run_python(
        "-W",
        "ignore",
        "-c",
        PATCH[library] + textwrap.dedent(SCRIPT),
        str(path),
        scoring,
        env={**os.environ, "PYTHONPATH": PATH},
        timeout=120,
    )

    assert (done.returncode, done.stderr) == (0, "")
    rows = [row for row in scored(path) if not row.get("late")]
    assert Counter(row["question"] for row in rows) == Counter(f"question {n}" for n in range(21))


@pytest.mark.skipif(find_spec("gunicorn") is None, reason="gunicorn is not installed here")
@pytest.mark.parametrize("preload", [True, False])
@pytest.mark.parametrize("library", LIBRARIES)
def test_gunicorns_worker(tmp_path, library, preload):
    if not find_spec({"eventlet": "gunicorn.workers.geventlet"}.get(library, "gunicorn")):
        pytest.skip("this gunicorn has no worker for eventlet any more")
    port = free_port()
    path, log = tmp_path / "scores.jsonl", (tmp_path / "log").open("wb")
    server = subprocess.Popen(
        [
            sys.executable, "-W", "ignore", "-m", "gunicorn", "--worker-class", library,
            "--workers", "2", "--graceful-timeout", "25", *(["--preload"] if preload else []),
            "--bind", f"127.0.0.1:{port}", "green_app:app",
        ],
        cwd=TESTS / "faults",
        env={**os.environ, "SCORES": str(path), "PYTHONPATH": PATH},
        stdout=log, stderr=subprocess.STDOUT,
    )  # fmt: skip
    url = f"http://127.0.0.1:{port}"

    def answers():
        with contextlib.suppress(httpx.TransportError):
            return httpx.get(url, timeout=60).status_code == 200
        return False

    try:
        deadline = time.monotonic() + 60
        while not answers():
            assert time.monotonic() < deadline, (tmp_path / "log").read_text(encoding="utf-8")
            threading.Event().wait(0.1)
        once = httpx.Limits(max_keepalive_connections=0)  # a worker closes those it has kept
        with httpx.Client(timeout=30, limits=once) as client, ThreadPoolExecutor(8) as pool:
            replies = pool.map(lambda n: client.get(f"{url}/{n}").text, range(40))
            assert set(replies) == {"answered"}
        server.send_signal(signal.SIGTERM)
        assert server.wait(60) == 0
    finally:
        if server.poll() is None:
            server.kill()
            server.wait(60)
        log.close()

    asked = Counter(row["question"] for row in scored(path))
    assert asked == Counter(f"question {n}" for n in range(40))
