"""`ragmeter serve --kafka` as a process, against a real broker: every request is scored, whoever dies or comes meanwhile."""

import os
import random
import time
from collections import Counter

import httpx
import pytest
from kafka_broker import broker_in
from kafka_group import PARTITIONS, SCORED_S, Group, health, joined, read
from kafka_traffic import messages_of, trace_of
from otlp_bodies import as_json
from processes import wait_until

SHORT = bool(os.environ.get("RAGMETER_TEST_SHORT"))
long = pytest.mark.skipif(SHORT, reason="part of the long form: RAGMETER_TEST_SHORT is set")
COUNT = 40 if SHORT else 1_000
pytestmark = pytest.mark.timeout(900)


@pytest.fixture
def group(kafka, tmp_path, request):
    topic = request.node.name.replace("_", "-").replace("[", "-").rstrip("]")
    kafka.make(topic, PARTITIONS)
    with Group(kafka, tmp_path, topic) as group:
        yield group


def mingled(names, chance):
    """Return the messages of requests and the name of each one's: each request's in order, those of 60 mingled."""
    coming = {name: iter(messages_of(name, number)) for number, name in enumerate(names)}
    turns = []
    for first in range(0, len(names), 60):
        some = [name for name in names[first : first + 60] for _ in range(3)]
        chance.shuffle(some)
        turns += some
    return turns, [next(coming[name]) for name in turns]


def test_who_joins_goes_on_with_open_requests_and_each_is_scored_once_and_whole(group):
    """Open at the change are all of them. Between the messages stand some that nobody can read."""
    names = [f"open-{number}" for number in range(COUNT)]
    lines = [messages_of(name, number) for number, name in enumerate(names)]
    begun = [message for line in lines for message in line[:2]]
    ended = [line[2] for line in lines]
    bad = [(b"k", b"\xff no spans"), (b"k", b'{"resourceSpans": 7}'), (b"k", None)]
    key, body = ended[0]
    ended[0] = (key, as_json("traces", body))  # as the exporter's encoding otlp_json has it

    one = group.join()
    places = group.broker.write(group.topic, begun[:COUNT] + bad + begun[COUNT:])[COUNT:][:3]
    wait_until(lambda: read(one) == len(begun + bad), SCORED_S, "they are not read")
    two = group.join()
    wait_until(lambda: joined(one, two), SCORED_S, "the second does not join")
    group.broker.write(group.topic, ended)
    group.wait_for(names)
    group.wait_until_done(len(begun + bad + ended))

    assert set(group.verdicts().values()) == {1}
    assert all(len(said) == 1 for said in group.scores().values())
    assert health(one)["spans"]["revoked"] > 0
    counted = Counter(health(one)["messages"]) + Counter(health(two)["messages"])
    assert counted["malformed"] == 2
    assert counted["empty"] == 1
    log = one.log.read_text() + two.log.read_text()
    for partition, offset in places[:2]:
        assert f"offset {offset} of partition {partition} is skipped: malformed" in log
    assert "no spans" not in log
    assert [one.drain(), two.drain()] == [0, 0]


@long
def test_two_consumers_score_each_request_once(group):
    one, two = group.join(), group.join()
    wait_until(lambda: joined(one, two), SCORED_S, "they do not join")
    names = [f"once-{number}" for number in range(COUNT)]

    _, messages = mingled(names, random.Random(1))
    group.broker.write(group.topic, messages)
    group.wait_for(names)
    codes = [one.drain(), two.drain()]

    assert codes == [0, 0]
    assert set(group.verdicts().values()) == {1}
    assert all(len(said) == 1 for said in group.scores().values())
    assert sum(group.committed().values()) == len(messages)
    told = [server.log.read_text().rsplit("draining", 1)[1] for server in (one, two)]
    assert all("messages" in text for text in told)


@long
def test_what_a_killed_consumer_had_open_is_scored_by_the_others(group, record_property):
    """At random moments; what comes again was open then, and comes under the same ids with the same scores."""
    seed = os.environ.get("RAGMETER_TEST_KAFKA_SEED", "1")
    record_property("seed", seed)
    chance = random.Random(seed)
    names = [f"killed-{number}" for number in range(COUNT)]
    owners, messages = mingled(names, chance)
    servers = [group.join(), group.join()]
    wait_until(lambda: joined(*servers), SCORED_S, "they do not join")
    places = []
    allowed = set()
    steps = sorted(chance.sample(range(1, len(messages)), 3))
    for first, last in zip([0, *steps], [*steps, len(messages)], strict=True):
        places += group.broker.write(group.topic, messages[first:last])
        if last == len(messages):
            break
        time.sleep(chance.uniform(0, 6))
        done = group.committed()
        servers.pop(chance.randrange(len(servers))).process.kill()
        open_then = {
            owner
            for owner, (partition, offset) in zip(owners, places, strict=False)
            if offset >= done[partition]
        }
        allowed |= {trace_of(name) for name in open_then}
        servers.append(group.join())
    group.wait_for(names)
    group.wait_until_done(len(messages))

    repeated = {trace for trace, count in group.verdicts().items() if count > 1}
    record_property("scored again", len(repeated))
    assert repeated <= allowed, f"RAGMETER_TEST_KAFKA_SEED={seed}"
    for said in group.scores().values():
        assert all(one == said[0] for one in said)
    spans = Counter(trace for trace, _ in group.scores())
    assert set(spans.values()) == {2}  # of the request, and of its retrieval


@long
def test_a_broker_that_is_away_is_waited_for(kafka_jars, tmp_path):
    import shutil

    names = [f"away-{number}" for number in range(20)]
    with broker_in(shutil.which("java"), kafka_jars, tmp_path) as broker:
        broker.make("away", PARTITIONS)
        broker.stop()
        with Group(broker, tmp_path, "away") as group:
            server = group.join()
            ready = f"{server.http}/readyz"
            assert health(server)["status"] == "ok"
            wait_until(lambda: health(server)["kafka"]["state"] == "away", SCORED_S, "it does not notice")
            assert httpx.get(ready, timeout=60).status_code == 503

            for part in (names[:10], names[10:]):
                broker.start()
                wait_until(lambda: joined(server), SCORED_S, "it does not come back")
                assert httpx.get(ready, timeout=60).json() == {"ready": True, "why": None}
                for name in part:
                    broker.write("away", messages_of(name))
                group.wait_for(names[: names.index(part[-1]) + 1])
                group.wait_until_done(3 * (names.index(part[-1]) + 1))
                broker.stop()
                wait_until(lambda: health(server)["kafka"]["state"] == "away", SCORED_S, "it does not notice")
            assert httpx.get(ready, timeout=60).json()["why"] == "Kafka: away"
            assert server.drain() == 0
        assert set(group.verdicts().values()) == {1}
        assert "Kafka: away" in server.log.read_text()


@long
def test_what_comes_faster_than_it_is_scored_waits_in_the_topic(group):
    """The smallest room: the consumer asks for nothing while it is full, stays in the group, and loses nothing."""
    names = [f"full-{number}" for number in range(COUNT)]
    _, messages = mingled(names, random.Random(2))
    group.broker.write(group.topic, messages)
    server = group.join("--max-held-mib", "16")
    group.wait_for(names)
    group.wait_until_done(len(messages))
    assert set(group.verdicts().values()) == {1}
    assert health(server)["kafka"]["lag"] == {f"{group.topic}/{number}": 0 for number in range(PARTITIONS)}
