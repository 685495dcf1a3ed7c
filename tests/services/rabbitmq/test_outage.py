"""Applications through an outage of the broker: what waits, what is counted, what the disk keeps."""

import os
import signal
from collections import Counter

import pytest
from processes import wait_until

from ragmeter import Limits, RagMeter, RagSample
from ragmeter.fleet._rabbitmq._address import BrokerAddress
from ragmeter.fleet._rabbitmq._connection import reachable
from ragmeter.fleet.payload import unpack
from ragmeter.fleet.publisher import FleetPublisher

ROOM, OVERFLOW = 500, 4_000
"""Requests that may wait in memory, and more than that."""


def application(fleet, spool=None):
    publisher = FleetPublisher(fleet.url, spool=spool, linger_s=0.0)
    return RagMeter(metrics=[], exporters=[publisher], limits=Limits(queue_size=ROOM))


def ask(meter, name, count):
    for number in range(count):
        meter.submit(RagSample(question=f"{name}-{number}", answer="a"))
    return {f"{name}-{number}" for number in range(count)}


def settled(meter):
    """Return the counters, once nothing is under way."""
    wait_until(lambda: meter.flush(1.0), 120, "something is still under way")
    stats = meter.stats()
    assert stats.in_flight == 0
    assert stats.captured == stats.exported + sum(stats.dropped.values())
    return stats


def published(fleet):
    """Return the questions in the queue, and how often each is there."""
    address, found = BrokerAddress.of(fleet.url), Counter()
    with reachable(address) as channel:
        while one := channel.basic_get(address.queue, no_ack=True):
            found.update(sent.run.sample.question for sent in unpack(bytes(one.body)).runs)
    return found


def killed_application(fleet, folder, name, count):
    """Run an application that keeps its requests on the disk, and kill it when they are there."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            meter = application(fleet, folder)
            ask(meter, name, count)
            while meter.stats().exported < count:
                meter.flush(0.1)
            os.write(writing, b".")
            signal.pause()
        finally:
            os._exit(1)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        assert pipe.read(1) == b"."
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return {f"{name}-{number}" for number in range(count)}


def test_a_shutdown_publishes_what_waits(fleet):
    meter = application(fleet)
    asked = ask(meter, "last", 100)
    meter.shutdown(60)
    assert meter.stats().dropped == {}
    assert published(fleet) == dict.fromkeys(asked, 1)


@pytest.mark.long_form
@pytest.mark.contains_errors
def test_what_fits_waits_and_the_rest_is_counted_and_with_a_spool_nothing_is_lost(broker, fleet, tmp_path):
    in_memory, on_disk = application(fleet), application(fleet, tmp_path / "a")
    before = ask(in_memory, "before", 50) | ask(on_disk, "before-disk", 50)
    settled(in_memory)
    settled(on_disk)
    broker.kill()
    kept = ask(on_disk, "disk", 300)
    late, late_on_disk = application(fleet), application(fleet, tmp_path / "b")
    kept |= ask(late, "late", 100) | ask(late_on_disk, "late-disk", 100)
    asked = ask(in_memory, "memory", OVERFLOW)
    wait_until(lambda: sum(in_memory.stats().dropped.values()) > 0, 60, "nothing overflows")
    kept |= killed_application(fleet, tmp_path / "c", "killed", 64)
    ending, ending_on_disk = application(fleet), application(fleet, tmp_path / "d")
    ask(ending, "ended", 10)
    kept |= ask(ending_on_disk, "ended-disk", 10)
    ending.shutdown(3)
    ending_on_disk.shutdown(30)
    assert sum(ending.stats().dropped.values()) == 10
    assert ending_on_disk.stats().dropped == {}
    broker.start()

    counted = settled(in_memory)
    for meter in (on_disk, late, late_on_disk):
        assert settled(meter).dropped == {}
        meter.shutdown(30)
    in_memory.shutdown(30)
    for folder in ("c", "d"):
        following = FleetPublisher(fleet.url, spool=tmp_path / folder)
        assert following.flush(60)
        following.shutdown(10)
    found = published(fleet)
    assert before | kept <= set(found)
    from_memory = {one for one in found if one.startswith("memory-")}
    assert from_memory <= asked
    # The newest are kept: what was dropped is older than what waited at the end.
    assert f"memory-{OVERFLOW - 1}" in from_memory
    assert len(from_memory) == counted.exported - 50
    assert len(asked) - len(from_memory) == sum(counted.dropped.values())
    assert not any(one.startswith("ended-") and not one.startswith("ended-disk") for one in found)
