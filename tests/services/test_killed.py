"""Killed at any moment while senders send, over HTTP and gRPC: all that was acknowledged is there afterwards, and none of it twice."""

import signal
import sqlite3
import time
from itertools import chain, count
from random import Random

import pytest
from overloading import Bodies, Child, Sender, over_grpc, over_http
from served import until
from stored import scored


def killed(folder, *, seed, kills):
    """Kill a server so often, and compare what was acknowledged with what is in the store in the end."""
    chance = Random(seed)
    bodies = Bodies(scored(1))
    numbers = [count(first, 4) for first in range(1, 5)]
    acknowledged, again = [set() for _ in numbers], [[] for _ in numbers]
    for _ in range(kills):
        server = Child(folder)
        senders = [
            Sender(
                (over_grpc(server.grpc) if n % 2 else over_http(server.http)),
                bodies.foreign if n < 2 else bodies.scored,
                chain(again[n], numbers[n]),
            )
            for n in range(4)
        ]
        goal = chance.randrange(1, 120)
        until(lambda: sum(len(sender.acknowledged) for sender in senders) >= goal)  # noqa: B023
        time.sleep(chance.random() / 20)  # in the middle of whatever it is doing
        server.end(signal.SIGKILL)
        for n, sender in enumerate(senders):
            sender.end()
            acknowledged[n] |= sender.acknowledged
            # Nobody was told whether this one was kept, so it comes again.
            again[n] = [] if sender.under_way is None else [sender.under_way]
    assert Child(folder).end() == "True"
    database = sqlite3.connect(folder / "serve.db")
    assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    kept = [int(n, 16) for (n,) in database.execute("SELECT hex(trace_id) FROM request")]
    answers = dict(
        database.execute(
            "SELECT hex(trace_id), count(*) FROM score JOIN request ON id = request GROUP BY 1"
        )
    )
    database.close()
    assert len(kept) == len(set(kept)), "some are there twice"
    foreign, told = acknowledged[0] | acknowledged[1], acknowledged[2] | acknowledged[3]
    assert foreign | told <= set(kept), "some are missing"
    # All of them are the same request, so they have as many scores, none of them lost and none twice.
    for some in filter(None, (foreign, told)):
        assert len({answers[f"{n:032X}"] for n in some}) == 1


def test_nothing_acknowledged_is_missing_or_twice_after_kills(tmp_path):
    killed(tmp_path, seed=17, kills=3)


@pytest.mark.long_form
@pytest.mark.timeout(1_800)
def test_nothing_acknowledged_is_missing_or_twice_after_many_kills(tmp_path):
    killed(tmp_path, seed=18, kills=50)
