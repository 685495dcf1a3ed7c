"""Workers on a private queue, and their counted work: one line per export, one per judge call."""

import json
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

from processes import wait_until

from ragmeter.fleet.queue import DEAD_TTL_S, MAX_BYTES, open_queue
from ragmeter.fleet.transport import TransportDownError, open_sender

PROGRAM = Path(__file__).with_name("counting_worker.py")


class Fleet:
    """A queue, workers whose work is counted, and the counts. Use as a context manager.

    Args:
        broker: The broker.
        folder: The folder of the workers' files.
        name: The test's, as the prefix of its queues.
    """

    def __init__(self, broker, folder, name):
        self.broker, self.folder = broker, folder
        self.prefix = re.sub(r"\W", "-", name)[:100]
        self.url = f"{broker.url}?queue={self.prefix}"
        self.exports, self.calls, self.log = folder / "exports", folder / "calls", folder / "log"
        self.gate = folder / "gate"  # held messages are released when this file exists
        self.workers = []

    def __enter__(self):
        self.queue = open_queue(self.url)
        self.queue.declare(max_bytes=MAX_BYTES, dead_ttl_s=DEAD_TTL_S)
        self.sender = open_sender(self.url, confirm_s=60.0)
        return self

    def __exit__(self, *_):
        self.sender.close(0)
        for worker in self.workers:
            self.kill(worker)

    def send(self, *ids):
        """Publish one message with these requests. `counting_worker.py` acts on their names."""
        body = json.dumps({"ids": ids}).encode()

        def sent():
            try:
                self.sender.send(body, count=len(ids))
            except TransportDownError:
                return False  # a busy machine did not connect in time
            return True

        wait_until(sent, 60, "the broker takes no message")

    def start(self, *options, processes=1, **variables):
        """Start a worker, in a separate process group."""
        env = {k: v for k, v in os.environ.items() if not k.startswith(("RAGMETER_", "CELERY_"))}
        env |= {"EXPORTS": str(self.exports), "CALLS": str(self.calls), "GATE": str(self.gate)}
        with self.log.open("ab") as log:
            worker = subprocess.Popen(
                [sys.executable, PROGRAM, str(processes), *options],
                env=env | {"QUEUE_URL": self.url, **variables},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.workers.append(worker)
        return worker

    def kill(self, worker):
        """Kill a worker with all its processes, and wait until it is gone."""
        if worker.poll() is None:
            os.killpg(worker.pid, signal.SIGKILL)
            worker.wait()

    def drain(self, worker):
        """End a worker like an orchestrator; return its exit code."""
        worker.terminate()
        return worker.wait(60)

    def children(self, worker):
        """Return the ids of a worker's processes."""
        found = Path(f"/proc/{worker.pid}/task/{worker.pid}/children").read_text()
        return [int(one) for one in found.split()]

    def exported(self):
        """Return the number of exports of each request."""
        return Counter(_lines(self.exports))

    def judged(self):
        """Return the number of judgements of each request."""
        return Counter(_lines(self.calls))

    def wait_exported(self, *ids, timeout_s=60):
        """Wait until each of these was exported."""
        wait_until(lambda: set(ids) <= set(self.exported()), timeout_s, self._told("exported"))

    def wait_judged(self, count, timeout_s=60):
        """Wait until that number of the judge's calls has begun."""
        wait_until(lambda: self.judged().total() >= count, timeout_s, self._told("judged"))

    def wait_dead(self, count, timeout_s=60):
        """Wait until that number of messages are dead letters."""
        wait_until(lambda: self.queue.status().dead == count, timeout_s, self._told("dead"))

    def _told(self, what):
        return f"not all is {what}; see {self.log}"


def _lines(path):
    # A line that is still being written does not count.
    text = path.read_text() if path.exists() else ""
    return text[: text.rfind("\n") + 1].split()
