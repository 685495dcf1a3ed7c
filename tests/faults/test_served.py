"""Under gunicorn with preloaded, forked workers: every score arrives, none twice."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from processes import free_port

pytest.importorskip("gunicorn")
pytest.importorskip("fastapi")
pytest.importorskip("uvicorn_worker")

TESTS = Path(__file__).resolve().parent.parent


class Served:
    """The application under gunicorn, on loopback."""

    def __init__(self, tmp_path: Path, workers: int = 4) -> None:
        port = free_port()
        self.scores = tmp_path / "scores.jsonl"
        self.url = f"http://127.0.0.1:{port}"
        self.log = tmp_path / "log"
        self._log = self.log.open("wb")
        self.process = subprocess.Popen(
            [
                sys.executable, "-m", "gunicorn", "--preload", "--workers", str(workers),
                "--worker-class", "uvicorn_worker.UvicornWorker", "--graceful-timeout", "25",
                "--bind", f"127.0.0.1:{port}", "served_app:app",
            ],
            cwd=TESTS / "faults",
            env={
                **os.environ,
                "SCORES": str(self.scores),
                "PYTHONPATH": os.pathsep.join([str(TESTS), str(TESTS / "faults")]),
            },
            stdout=self._log, stderr=subprocess.STDOUT,
        )  # fmt: skip
        self._wait()

    def _wait(self) -> None:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            with contextlib.suppress(httpx.TransportError):
                if httpx.get(f"{self.url}/openapi.json", timeout=60).status_code == 200:
                    return
            threading.Event().wait(0.1)
        raise AssertionError(self.log.read_text(encoding="utf-8"))

    def load(self, numbers: range) -> dict[int, int]:
        """Ask one question per number from 16 threads; return which worker answered which.

        A request that the restarting server itself cut off is left out.
        """

        def ask(number: int) -> tuple[int, int] | None:
            path = "ask-async" if number % 2 else "ask"
            try:
                reply = client.get(f"{self.url}/{path}/{number}").json()
            except httpx.TransportError:
                return None
            assert reply["answer"].startswith("The secret-answer")
            return number, reply["worker"]

        # No kept-alive connections: a restarting worker closes those between two requests.
        once = httpx.Limits(max_keepalive_connections=0)
        with httpx.Client(timeout=60, limits=once) as client, ThreadPoolExecutor(16) as pool:
            return dict(filter(None, pool.map(ask, numbers)))

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(60)
        self._log.close()

    def scored(self) -> Counter[str]:
        lines = self.scores.read_text(encoding="utf-8").splitlines()
        return Counter(json.loads(line)["question"] for line in lines)


@pytest.fixture
def served(tmp_path):
    served = Served(tmp_path)
    yield served
    served.close()


def test_every_workers_scores_arrive_once_when_the_server_stops(served):
    answered = served.load(range(200))

    assert served.stop() == 0
    assert len(set(answered.values())) > 1
    assert served.scored() == Counter(f"question {number}" for number in range(200))


def test_a_graceful_restart_loses_nothing(served):
    answered = served.load(range(60))
    before = set(answered.values())
    served.process.send_signal(signal.SIGHUP)
    deadline = time.monotonic() + 60
    newest: dict[int, int] = {}
    while time.monotonic() < deadline and (not newest or before & set(newest.values())):
        newest = served.load(range(1_000 * len(answered), 1_000 * len(answered) + 16))
        answered |= newest

    assert served.stop() == 0
    assert not before & set(newest.values())
    scored = served.scored()
    assert {f"question {number}" for number in answered} <= set(scored)
    assert set(scored.values()) == {1}
