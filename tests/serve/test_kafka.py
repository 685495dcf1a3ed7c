"""Spans from a topic, with the client library's own broker in this process; a real one is in tests/services/test_kafka.py."""

import builtins
import re
import sys

import httpx
import pytest
from otlp_bodies import as_json, spans_of
from served import FULL, served, traced_as, until

from ragmeter import RagMeter
from ragmeter.metrics import ConfigurationError, MissingDependencyError
from ragmeter.metrics.errors import install_command
from ragmeter.serve import KafkaOptions, ServeOptions, Server
from ragmeter.serve.kafka_options import read_properties

confluent_kafka = pytest.importorskip("confluent_kafka")
TOPIC = "otlp_spans"


class Topic:
    """A topic of which one partition is written to."""

    def __init__(self):
        # A client that is told so brings brokers of its own, which other clients can reach, too.
        self._producer = confluent_kafka.Producer(
            {"bootstrap.servers": "127.0.0.1", "test.mock.num.brokers": 1, "log_level": 0}
        )
        [broker] = self._producer.list_topics(timeout=60).brokers.values()
        self.address = f"{broker.host}:{broker.port}"
        self.write()

    def options(self, **more):
        return KafkaOptions(servers=self.address, topic=TOPIC, **more)

    def write(self, *bodies):
        for body in bodies:
            self._producer.produce(TOPIC, body, partition=0)
        if not bodies:
            self._producer.list_topics(TOPIC, timeout=60)  # which makes it
        assert self._producer.flush(60) == 0

    def committed(self, group="ragmeter"):
        asked = [confluent_kafka.TopicPartition(TOPIC, 0)]
        settings = {"bootstrap.servers": self.address, "group.id": group, "log_level": 0}
        client = confluent_kafka.Consumer(settings)
        try:
            return client.committed(asked, 60)[0].offset
        finally:
            client.close()


@pytest.fixture
def topic():
    return Topic()


def kafka_of(server):
    return httpx.get(f"{server.url}/healthz", timeout=60).json()["kafka"]


def test_requests_in_a_topic_are_scored_and_their_messages_are_done(topic):
    body, other = traced_as(1)[0], traced_as(2)[0]
    topic.write(body, as_json("traces", other))
    with served(kafka=topic.options(), settle_s=0.1) as server:
        until(lambda: server.stats()["requests"].get("scored") == 2)
        until(lambda: topic.committed() == 2)
        until(lambda: kafka_of(server)["lag"] == {f"{TOPIC}/0": 0})
        until(lambda: kafka_of(server)["state"] == "reading")
        told = kafka_of(server)
        assert (told["state"], told["error"]) == ("reading", None)
        assert f"{TOPIC}/0" in told["partitions"]
        assert server.stats()["messages"] == {"accepted": 2}
        ready = httpx.get(f"{server.url}/readyz", timeout=60)
        assert (ready.status_code, ready.json()) == (200, {"ready": True, "why": None})
        assert {result.run.trace_id for result in server.drained()} == {1, 2}
        assert server.why_not_ready() == "ended"


def test_a_message_that_cannot_be_read_is_counted_and_passed_over(topic, caplog):
    body, _ = traced_as(1)
    nobody = spans_of(b"\x01" * 3).SerializeToString()
    topic.write(b"\xff secret", b'{"resourceSpans": "secret"}', None, b"x" * 4096, nobody, body)
    options = {"kafka": topic.options(), "settle_s": 0.1, "max_body_bytes": len(body)}
    with served(**options) as server:
        until(lambda: server.stats()["requests"].get("scored") == 1)
        until(lambda: topic.committed() == 6)
        counts = server.stats()
    assert counts["messages"]["empty"] == 1
    assert counts["messages"]["malformed"] >= 2
    assert sum(counts["messages"].values()) == 6
    assert counts["spans"]["invalid"] == 1
    assert "offset 0 of partition 0 is skipped: malformed" in caplog.text
    assert "secret" not in caplog.text


def test_what_is_open_at_the_end_is_not_scored_and_read_again_by_the_next(topic):
    body, _ = traced_as(1)
    half = spans_of(b"\x07" * 8, trace=b"\x02" * 16, parent_span_id=b"\x09" * 8)
    topic.write(half.SerializeToString(), body)
    # This broker does not hear that a member leaves the group: it waits until the member is silent for long enough.
    soon = topic.options(properties={"session.timeout.ms": "6000"})
    with served(kafka=soon, settle_s=0.1) as server:
        until(lambda: server.stats()["requests"].get("scored") == 1)
        results = server.drained()
        assert [one.run.trace_id for one in results] == [1]
        assert server.stats()["spans"] == {"read": 11, "revoked": 1}
        assert server.health()["kafka"]["state"] == "ended"
    assert topic.committed() == 0
    with served(kafka=soon, settle_s=0.1) as server:
        until(lambda: server.stats()["messages"].get("accepted") == 2)
        until(lambda: server.stats()["requests"].get("scored") == 1)
        assert server.health()["held"]["traces"] == 1


def test_no_broker_is_a_state_and_not_an_error(caplog):
    with served(kafka=KafkaOptions(servers="127.0.0.1:1")) as server:
        until(lambda: "Kafka: away" in caplog.text)
        state = httpx.get(f"{server.url}/healthz", timeout=60)
        assert (state.status_code, state.json()["kafka"]["state"]) == (200, "away")
        ready = httpx.get(f"{server.url}/readyz", timeout=60)
        assert (ready.status_code, ready.json()["why"]) == (503, "Kafka: away")
        # What is sent is taken all the same.
        sent = httpx.post(
            f"{server.url}/v1/traces",
            content=FULL.read_bytes(),
            headers={"Content-Type": "application/x-protobuf"},
            timeout=60,
        )
        assert sent.status_code == 200
        assert len(server.drained()) == 1


def made(**options):
    meter = RagMeter(exporters=[])
    try:
        return Server(ServeOptions(http_port=0, grpc_port=0, kafka=KafkaOptions(**options)), meter=meter)
    finally:
        meter.shutdown(60)


@pytest.mark.parametrize(
    ("properties", "says"),
    [
        ({"sasl.secret": "hunter2"}, "No such configuration property"),
        ({"security.protocol": "hunter2"}, "security.protocol"),
    ],
)
def test_a_wrong_property_is_named_and_no_value_is_shown(properties, says):
    with pytest.raises(ConfigurationError) as raised:
        made(servers="127.0.0.1:1", properties=properties)
    assert says in str(raised.value)
    assert "hunter2" not in str(raised.value)


@pytest.mark.parametrize(
    "options",
    [
        {"servers": " "},
        {"servers": "h:1", "topic": ""},
        {"servers": "h:1", "group": ""},
        {"servers": "h:1", "topic": "^.*"},
        {"servers": "h:1", "properties": {"enable.auto.commit": "true"}},
        {"servers": "h:1", "properties": {"partition.assignment.strategy": "range"}},
    ],
)
def test_what_makes_no_sense_is_refused(options):
    with pytest.raises(ConfigurationError):
        KafkaOptions(**options)


def test_properties_are_read_from_a_file_and_never_shown(tmp_path):
    file = tmp_path / "kafka.properties"
    file.write_text("# ours\n\nsasl.username = us=er\nsasl.password=pass=word #1\n")
    properties = read_properties(file)
    assert properties == {"sasl.username": "us=er", "sasl.password": "pass=word #1"}
    assert "pass" not in repr(KafkaOptions(servers="h:1", properties=properties))
    file.write_text("sasl.username=user\nhunter2\n")
    with pytest.raises(ConfigurationError, match="line 2") as raised:
        read_properties(file)
    assert "hunter2" not in str(raised.value)
    with pytest.raises(ConfigurationError, match="cannot be read"):
        read_properties(tmp_path / "absent")


def test_the_extra_is_named_where_the_client_library_is_absent(monkeypatch):
    imported = builtins.__import__

    def absent(name, *args, **kwargs):
        if name == "confluent_kafka":
            raise ImportError(name)
        return imported(name, *args, **kwargs)

    monkeypatch.delitem(sys.modules, "ragmeter.serve._kafka", raising=False)
    monkeypatch.setattr(builtins, "__import__", absent)
    with pytest.raises(MissingDependencyError, match=re.escape(install_command("kafka"))):
        made(servers="h:1")
