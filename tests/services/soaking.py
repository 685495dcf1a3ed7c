"""A fleet under random faults: real applications, workers, broker and Redis, and each request's outcome."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict
from pathlib import Path

from fleet_of_workers import Fleet
from otlp_receiver import OtlpReceiver, attributes_of
from processes import wait_until
from soak_app import POISON, SHIFT

from ragmeter.fleet.payload import unpack
from ragmeter.fleet.publisher import FleetPublisher

PROGRAM = Path(__file__).with_name("soak_app.py")
METRICS = f"""
import os, signal
from ragmeter.metrics import metric

@metric(needs=("answer",), target="answer")
def may_kill(sample):
    if sample.question == {POISON!r}:
        os.kill(os.getpid(), signal.SIGKILL)
    return 1.0
"""
FAULTS = (
    "a worker's process is killed",
    "a worker is killed",
    "a worker is told to end",
    "an application is killed",
    "an application ends",
    "the broker is killed",
    "the broker is stopped",
    "the broker has no memory",
    "the broker closes all connections",
    "redis hangs",
    "redis is killed",
)
NOISE = ("RAGMETER_", "CELERY_", "OTEL_", "PYTHONPATH")


class Soak(Fleet):
    """Applications and workers on a private queue. Use as a context manager.

    Args:
        broker: The broker.
        redis: A Redis for the marks of finished requests.
        folder: The folder of all files.
        name: The prefix of the queues.
        seed: The seed of the faults.
        poison_every: Number of an application's requests of which one ends the process that scores it.
    """

    def __init__(self, broker, redis, folder, name, *, seed, poison_every):
        super().__init__(broker, folder, name)
        self.folder, self.redis, self.poison_every = folder, redis, poison_every
        self.chance = random.Random(seed)
        self.received = OtlpReceiver()
        self.log = folder / "log"
        self.killed, self.ended, self.counters, self.deaths = set(), set(), {}, 0
        self._applications, self._started = {}, 0
        info = folder / "packages" / "may_kill-1.dist-info"
        info.mkdir(parents=True)
        (info.parent / "may_kill.py").write_text(METRICS)
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: may-kill\nVersion: 1\n")
        (info / "entry_points.txt").write_text("[ragmeter.metrics]\nmay_kill = may_kill:may_kill\n")

    def __exit__(self, *_):
        for process in self._applications.values():
            process.kill()
            process.communicate()
        super().__exit__()
        self.received.close()

    def start(self, processes=2):
        """Start `ragmeter worker`, in a separate process group."""
        env = {k: v for k, v in os.environ.items() if not k.startswith(NOISE)} | {
            "PYTHONPATH": str(self.folder / "packages"),
            "RAGMETER_QUEUE_URL": self.url,
            "RAGMETER_METRICS": "may_kill",
            "RAGMETER_WORKER_DEDUPE_URL": self.redis.url,
            "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": f"{self.received.url}/v1/traces",
        }
        with self.log.open("ab") as log:
            worker = subprocess.Popen(
                [sys.executable, "-m", "ragmeter", "worker", "--processes", str(processes)],
                env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        self.workers.append(worker)
        return worker

    def start_application(self):
        """Start one more application."""
        self._started += 1
        env = {k: v for k, v in os.environ.items() if not k.startswith(NOISE)}
        command = [sys.executable, str(PROGRAM), str(self._started), str(self.folder)]
        with self.log.open("ab") as log:
            self._applications[self._started] = subprocess.Popen(
                [*command, str(self.poison_every)], env=env | {"QUEUE_URL": self.url},
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log,
            )  # fmt: skip
        asked = self.folder / f"asked-{self._started}"
        wait_until(asked.exists, 60, f"the application does not start; see {self.log}")

    def end_applications(self, *numbers):
        """Let applications end normally, and store their counters."""
        for number in numbers:
            self._applications[number].terminate()
        for number in numbers:
            process = self._applications.pop(number)
            told, _ = process.communicate(timeout=120)
            assert process.returncode == 0, self.log.read_text()
            self.counters[number] = json.loads(told)
            self.ended.add(number)

    def drawn(self, count):
        """Return that number of random faults."""
        return [self.chance.choice(FAULTS) for _ in range(count)]

    def run(self, faults, *, pause_s=3.0, applications=3, workers=2):
        """Apply faults at random moments, then let all end."""
        for _ in range(applications):
            self.start_application()
        running = [self.start() for _ in range(workers)]
        wait_until(lambda: self.queue.status().workers == workers, 120, f"see {self.log}")
        for fault in faults:
            time.sleep(self.chance.uniform(0.2, pause_s))
            self._strike(fault, running)
        self.end_applications(*self._applications)
        # Data left on the disk is sent by the next worker.
        following = FleetPublisher(self.url, spool=self.folder / "spool")
        assert following.flush(120), "the spool does not get empty"
        following.shutdown(10)
        wait_until(self.is_settled, 240, f"not all is scored; see {self.log}")
        codes = [self.drain(worker) for worker in running]
        assert codes == [0] * workers, f"{codes}, see {self.log}"

    def _strike(self, fault, running):
        which = self.chance.randrange(len(running))
        number = self.chance.choice(sorted(self._applications))
        rest_s = self.chance.uniform(0.0, 4.0)
        if fault == "a worker's process is killed":
            children = self.children(running[which])
            if children:
                os.kill(self.chance.choice(children), signal.SIGKILL)
        elif fault == "a worker is killed":
            self.kill(running[which])
            running[which] = self.start()
        elif fault == "a worker is told to end":
            # A worker that was just started ends like any program.
            assert self.drain(running[which]) in (0, -signal.SIGTERM)
            running[which] = self.start()
        elif fault == "an application is killed":
            process = self._applications.pop(number)
            process.kill()
            process.communicate()
            self.killed.add(number)
            self.start_application()
        elif fault == "an application ends":
            self.end_applications(number)
            self.start_application()
        elif fault == "the broker is killed":
            self.broker.kill()
            time.sleep(rest_s)
            self.broker.start()
        elif fault == "the broker is stopped":
            self.broker.end()
            time.sleep(rest_s)
            self.broker.start()
        elif fault == "the broker has no memory":
            with self.broker.memory_alarm():
                time.sleep(rest_s)
        elif fault == "the broker closes all connections":
            self.broker.ctl("close_all_connections", "a test")
        elif fault == "redis hangs":
            self.redis.hang()
            time.sleep(rest_s)
            self.redis.go_on()
        else:
            self.redis.kill()
            time.sleep(rest_s)
            self.redis.start()

    def asked(self, number=None):
        """Return the requests that applications sent, in order; `number`: those of one application."""
        return self._noted("asked", number)

    def safe(self, number=None):
        """Return those that the broker or the disk confirmed."""
        return self._noted("safe", number)

    def _noted(self, what, number):
        numbers = range(1, self._started + 1) if number is None else [number]
        files = [self.folder / f"{what}-{one}" for one in numbers]
        return [int(line, 16) for file in files if file.exists() for line in file.read_text().split()]

    def scored(self):
        """Return request -> (id of an evaluation span -> number of arrivals)."""
        found = defaultdict(Counter)
        for span in self.received.spans:
            if "gen_ai.evaluation.name" in attributes_of(span) or span.name.startswith("evaluat"):
                found[int.from_bytes(span.trace_id)][span.span_id] += 1
        return found

    def dead(self):
        """Return the dead letters' requests, a list for each letter."""
        return [
            [(one.run.trace_id, one.run.sample.question) for one in unpack(letter.body).runs]
            for letter in self.queue.dead(10_000)
        ]

    def is_settled(self):
        """Return whether nothing waits and every confirmed request is scored or dead."""
        there = self.queue.status()
        gone = {trace_id for letter in self.dead() for trace_id, _ in letter}
        return not there.waiting and set(self.safe()) <= set(self.scored()) | gone

    def check(self):
        """Fail unless every request is accounted for; return the figures."""
        scored, letters = self.scored(), self.dead()
        asked, safe = set(self.asked()), set(self.safe())
        dead = {trace_id for letter in letters for trace_id, _ in letter}
        assert len(asked) == len(self.asked())
        assert set(scored) | dead <= asked
        assert safe <= set(scored) | dead, "what was confirmed is lost"
        # Dead requests are those that kill, each alone, and none of those was scored.
        assert all(len(letter) == 1 for letter in letters)
        assert {question for letter in letters for _, question in letter} <= {POISON}
        assert not any((one & (1 << SHIFT) - 1) % self.poison_every == 0 for one in scored)
        # Only requests in the memory of a killed application are missing: its newest ones.
        missing = asked - set(scored) - dead
        for number in self.killed:
            confirmed, said = self.safe(number), self.asked(number)
            assert confirmed == said[: len(confirmed)]
        assert {one >> SHIFT for one in missing} <= self.killed
        # Applications that ended normally counted all their requests, and lost none.
        for number in self.ended:
            count = len(self.asked(number))
            assert self.counters[number] == {"captured": count, "exported": count, "dropped": {}}
            assert len(self.safe(number)) == count
        # Repeated spans had the same id.
        assert all(len(ids) == 1 for ids in scored.values())
        twice = sum(ids.total() - 1 for ids in scored.values())
        assert self.queue.status().waiting == 0
        return {
            "asked": len(asked),
            "scored": len(scored),
            "dead": len(dead),
            "in memory of a killed application": len(missing),
            "spans again": twice,
        }
