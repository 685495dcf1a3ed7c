"""Killed at any moment while senders send, over HTTP and gRPC, or a Collector for them: all that was acknowledged is there afterwards, and none of it twice."""

import signal
import sqlite3
import time
from contextlib import closing
from itertools import chain, count
from random import Random

import pytest
from otel_collector import collecting, listening_here
from overloading import Bodies, Child, Sender, over_grpc, over_http
from processes import free_port
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
    compared(folder, acknowledged[0] | acknowledged[1], acknowledged[2] | acknowledged[3])


def compared(folder, foreign, told):
    """Compare what was acknowledged, foreign requests and scored ones, with what is in the store after an orderly end."""
    assert Child(folder).end() == "True"
    database = sqlite3.connect(folder / "serve.db")
    assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    kept = [int(n, 16) for (n,) in database.execute("SELECT hex(trace_id) FROM request")]
    answers = dict(
        database.execute("SELECT hex(trace_id), count(*) FROM score JOIN request ON id = request GROUP BY 1")
    )
    database.close()
    assert len(kept) == len(set(kept)), "some are there twice"
    assert foreign | told <= set(kept), "some are missing"
    # All of them are the same request, so they have as many scores, none of them lost and none twice.
    for some in filter(None, (foreign, told)):
        assert len({answers[f"{n:032X}"] for n in some}) == 1
    print(f"{len(foreign)} foreign and {len(told)} scored requests acknowledged, all found once")  # noqa: T201


def killed_behind(program, folder, way, *, seed, kills):
    """Kill a server so often that a Collector sends to, over `way`; senders have to do with the Collector alone."""
    chance, ports = Random(seed), (free_port(), free_port())
    exporter, endpoint = {
        "http": ("otlp_http", f"http://127.0.0.1:{ports[0]}"),
        "grpc": ("otlp_grpc", f"127.0.0.1:{ports[1]}"),
    }[way]
    config = {
        "receivers": {"otlp": {"protocols": {"http": {}, "grpc": {}}}},
        "exporters": {
            exporter: {
                "endpoint": endpoint,
                "tls": {"insecure": True},
                "retry_on_failure": {
                    "initial_interval": "50ms",
                    "max_interval": "500ms",
                    "max_elapsed_time": "0s",
                },
                "sending_queue": {"queue_size": 10_000, "block_on_overflow": True},
            }
        },
        "service": {"pipelines": {"traces": {"receivers": ["otlp"], "exporters": [exporter]}}},
    }
    http, grpc = listening_here(config, "otlp")
    bodies = Bodies(scored(1))
    with collecting(program, config, folder / "collector"):
        senders = [
            Sender(over_http(http), paced(bodies.foreign), count(1, 2)),
            Sender(over_grpc(grpc), paced(bodies.scored), count(2, 2)),
        ]
        for _ in range(kills):
            server = Child(folder, ports=ports)
            already = len(in_store(folder))
            until(lambda: len(in_store(folder)) > already)  # noqa: B023
            time.sleep(chance.random())  # in the middle of whatever it is doing
            server.end(signal.SIGKILL)
        for sender in senders:
            sender.end()
        foreign, told = (sender.acknowledged for sender in senders)
        server = Child(folder, ports=ports)
        until(lambda: foreign | told <= in_store(folder), what="some are missing")
        assert server.end() == "True"
    compared(folder, foreign, told)


def paced(body):
    """The same, after a pause: the Collector's queue stays short."""

    def made(number):
        time.sleep(0.02)
        return body(number)

    return made


def in_store(folder):
    with closing(sqlite3.connect(folder / "serve.db")) as database:
        return {int(n, 16) for (n,) in database.execute("SELECT hex(trace_id) FROM request")}


def test_nothing_acknowledged_is_missing_or_twice_after_kills(tmp_path):
    killed(tmp_path, seed=17, kills=3)


@pytest.mark.long_form
@pytest.mark.timeout(1_800)
def test_nothing_acknowledged_is_missing_or_twice_after_many_kills(tmp_path):
    killed(tmp_path, seed=18, kills=50)


@pytest.mark.parametrize("way", ["http", "grpc"])
def test_nothing_that_a_collector_took_is_missing_or_twice_after_kills(way, collector_program, tmp_path):
    killed_behind(collector_program, tmp_path, way, seed=19, kills=3)


@pytest.mark.long_form
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("way", ["http", "grpc"])
def test_nothing_that_a_collector_took_is_missing_or_twice_after_many_kills(way, collector_program, tmp_path):
    killed_behind(collector_program, tmp_path, way, seed=20, kills=25)
