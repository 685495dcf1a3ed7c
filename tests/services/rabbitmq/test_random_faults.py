"""Workers, their processes and the broker killed at random moments while requests come: none is lost."""

import os
import random
import signal
import sys
import time

import pytest
from processes import wait_until

FAULTS = 10
BATCH = 8


@pytest.mark.long_form
@pytest.mark.timeout(600)
def test_nothing_is_lost_through_random_faults(broker, fleet):
    seed = int(os.environ.get("RAGMETER_TEST_SEED", "1"))
    sys.stdout.write(f"RAGMETER_TEST_SEED={seed}\n")
    chance = random.Random(seed)
    workers = [fleet.start(processes=2), fleet.start(processes=1)]
    wait_until(lambda: fleet.queue.status().workers == 2, 60)
    sent, killed = [], 0

    def work(seconds):
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            batch = [f"r{len(sent) + number}" for number in range(BATCH)]
            fleet.send(*batch)
            sent.extend(batch)
            time.sleep(0.02)

    for _ in range(FAULTS):
        work(chance.uniform(0.2, 2.0))
        what, which = chance.choice(["process", "worker", "end", "broker"]), chance.randrange(2)
        sys.stdout.write(f"{what} {which}\n")
        if what == "process":
            found = fleet.children(workers[which])
            if found:
                os.kill(chance.choice(found), signal.SIGKILL)
            killed += 1
        elif what == "worker":
            killed += len(fleet.children(workers[which]))
            fleet.kill(workers[which])
            workers[which] = fleet.start(processes=2)
        elif what == "end":
            assert fleet.drain(workers[which]) == 0
            workers[which] = fleet.start(processes=2)
        else:
            killed += 3  # messages at hand are finished, and handed out again
            broker.kill()
            broker.start()
    fleet.wait_exported(*sent, timeout_s=120)
    wait_until(lambda: fleet.queue.status().waiting == 0, 60)
    judged = fleet.judged().total() - len(sent)
    twice = fleet.exported().total() - len(sent)
    sys.stdout.write(f"{len(sent)} requests, {killed} killed, {judged} judged again, {twice} twice\n")
    assert set(fleet.exported()) == set(sent)
    assert fleet.queue.status().dead == 0
