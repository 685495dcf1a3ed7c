"""`ragmeter serve` under one random fault after another, while senders keep account: what was acknowledged is found, once.

Marked slow: each fault once; ``RAGMETER_SOAK_S=600 make soak`` goes on for so many seconds and prints its figures.
"""

import os
import threading
import time
from collections import Counter
from itertools import count, cycle
from random import Random

import grpc
import pytest
from acknowledged import Setup, set_up
from overloading import EXPORT
from served import PATIENCE_S, traced_as, until

LASTS_S = float(os.environ.get("RAGMETER_SOAK_S") or 0)
SENDERS = 4
PAUSE_S = 0.1


class Sender(threading.Thread):
    """Sends requests of its own, each until it is acknowledged, to whichever server runs.

    Args:
        setup: Whose server.
        first: The first number; those of others lie between.
        way: ``http`` or ``grpc``.
    """

    def __init__(self, setup, first, way):
        super().__init__(daemon=True)
        self.setup, self.numbers = setup, count(first, SENDERS)
        self.once = {"http": self.over_http, "grpc": self.over_grpc}[way]
        self.acknowledged, self.again, self.failure = set(), 0, None
        self.ended = threading.Event()
        self.start()

    def run(self):
        try:
            for number in self.numbers:
                while not (taken := self.once(number)):
                    self.again += 1
                    if self.ended.wait(PAUSE_S):
                        return
                self.acknowledged |= taken
                if self.ended.wait(PAUSE_S):
                    return
        except BaseException as error:
            self.failure = error
            raise

    def end(self):
        self.ended.set()
        self.join(PATIENCE_S)
        assert self.failure is None

    def over_http(self, number):
        return self.setup.send([number])

    def over_grpc(self, number):
        body, trace = traced_as(number)
        with grpc.insecure_channel(self.setup.server.grpc) as channel:
            answer = channel.unary_unary(EXPORT).future(body, timeout=PATIENCE_S)
            assert answer.code() in (
                grpc.StatusCode.OK,
                grpc.StatusCode.CANCELLED,
                grpc.StatusCode.RESOURCE_EXHAUSTED,
                grpc.StatusCode.UNAVAILABLE,
            )
            return {trace} if answer.code() is grpc.StatusCode.OK else set()


@pytest.mark.slow
@pytest.mark.timeout(LASTS_S + 600)
def test_what_was_acknowledged_is_found_once_whatever_goes_wrong(tmp_path):
    chance, faults = Random(27), Counter()
    with set_up(Setup, tmp_path, size=1 << 30) as setup:
        setup.start()
        ends = time.monotonic() + LASTS_S
        senders = [Sender(setup, n, "grpc" if n % 2 else "http") for n in range(1, SENDERS + 1)]
        for name in cycle(sorted(setup.faults)):
            if faults[name] and time.monotonic() > ends:
                break
            if faults[name]:
                name = chance.choice(sorted(setup.faults))  # noqa: PLW2901 -- each once, then at random
            with setup.faults[name]():
                time.sleep(3 * chance.random())
            faults[name] += 1
            until(lambda: setup.health()["status"] == "ok", what=f"after {name}: {setup.said()[-2000:]}")
            time.sleep(2 * chance.random())
        for sender in senders:
            sender.end()
        acknowledged = set().union(*(sender.acknowledged for sender in senders))
        assert acknowledged
        until(lambda: setup.found() >= acknowledged, what="acknowledged and not found")
        setup.stop()
        assert setup.found() >= acknowledged
        again = sum(sender.again for sender in senders)
        print(  # noqa: T201
            f"{len(acknowledged)} acknowledged, {again} sent again, all found once; faults: {dict(faults)}"
        )
