"""Much more than it can take: senders are told when to come again, memory stays, and nothing acknowledged is missing."""

import sqlite3
import time
from itertools import count

import httpx
import pytest
from overloading import Bodies, Child, Sender, over_grpc, over_http
from served import PATIENCE_S, until
from stored import scored

OFTEN = 10
"""Times as much is offered as is scored."""
ROOM_MB = 32.0
"""What it may grow by once it is full: what a body takes while it is read, and the allocator's rest."""


def overloaded(folder, seconds, before=0):
    """Overload a server for so long; return its memory when it was full, and the most that it had later.

    Before that it scores so many requests as they come: it remembers some of the last ones, in bounds.
    """
    slow = folder / "slow"
    server = Child(folder, "slow")
    bodies = Bodies(scored(1))
    numbers = [count(first, 8) for first in range(1, 9)]
    try:
        usual = [Sender(over_http(server.http), bodies.foreign, numbers[n]) for n in range(2)]
        until(lambda: sum(len(sender.acknowledged) for sender in usual) >= before)
        for sender in usual:
            sender.end()
        until(lambda: server.health()["requests"].get("in_flight", 0) == 0)
        slow.touch()
        # What was under way when they ended was refused.
        refused_before = sum(sender.refused for sender in usual)
        senders = [
            *(Sender(over_http(server.http), bodies.foreign, numbers[n]) for n in range(3)),
            *(Sender(over_grpc(server.grpc), bodies.foreign, numbers[n]) for n in range(3, 6)),
            Sender(over_http(server.http), bodies.scored, numbers[6]),
            Sender(over_grpc(server.grpc), bodies.scored, numbers[7]),
        ]
        until(lambda: all(sender.refused >= 20 for sender in senders), what="each sender is refused")
        full_mb = most_mb = server.memory_mb()
        began = time.monotonic()

        def is_enough():
            nonlocal most_mb
            most_mb = max(most_mb, server.memory_mb())
            scored_so_far = len((folder / "scored.txt").read_text().split())
            offered = sum(sender.offered for sender in senders)
            assert server.process.poll() is None
            done = scored_so_far - sum(len(sender.acknowledged) for sender in usual)
            return time.monotonic() - began >= seconds and offered >= OFTEN * done

        until(is_enough, seconds + PATIENCE_S, "it scores as fast as they send")
        for sender in senders:
            sender.end()
        refused = refused_before + sum(sender.refused for sender in senders)
        health = server.health()
        assert health["exports"]["busy"] == refused
        assert sum(one["refused"] for one in health["overloads"]) == refused
        page = httpx.get(f"{server.http}/?lang=en", timeout=PATIENCE_S).text
        assert f"{refused:,} exports were asked to come again" in page
        slow.unlink()
        assert server.end() == "True"
    finally:
        server.process.kill()
        server.process.wait(PATIENCE_S)
    acknowledged = [{f"{n:032x}" for n in sender.acknowledged} for sender in senders]
    found = (folder / "scored.txt").read_text().split()
    earlier = [{f"{n:032x}" for n in sender.acknowledged} for sender in usual]
    assert sorted(found) == sorted(set().union(*earlier, *acknowledged[:6]))
    database = sqlite3.connect(folder / "serve.db")
    kept = [trace for (trace,) in database.execute("SELECT lower(hex(trace_id)) FROM request")]
    database.close()
    assert sorted(kept) == sorted(set().union(*acknowledged[6:]))
    return full_mb, most_mb


def test_overload_is_refused_in_words_that_bring_senders_back_and_nothing_is_lost(tmp_path):
    full_mb, most_mb = overloaded(tmp_path, 2.0)
    assert most_mb - full_mb < ROOM_MB


@pytest.mark.long_form
def test_a_minute_of_overload_leaves_memory_where_it_is(tmp_path):
    full_mb, most_mb = overloaded(tmp_path, 60.0, before=2_000)
    assert most_mb - full_mb < ROOM_MB
