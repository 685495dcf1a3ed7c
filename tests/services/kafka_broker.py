"""A real Kafka broker for the tests: one process, on loopback, that can be stopped and restarted."""

import subprocess
from contextlib import contextmanager

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from processes import free_port, wait_until

STARTED_S = 180
"""Seconds within which a broker must start or act, on a busy machine."""


class Broker:
    """A broker with a private folder."""

    def __init__(self, java, jars, folder):
        self._java = [java, "-Xmx384m", "-XX:+UseSerialGC", "-cp", f"{jars}/*"]
        self._folder = folder
        self._process = None
        port, controller = free_port(), free_port()
        self.address = f"127.0.0.1:{port}"
        settings = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "listeners": f"PLAINTEXT://{self.address},CONTROLLER://127.0.0.1:{controller}",
            "advertised.listeners": f"PLAINTEXT://{self.address}",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": str(folder / "data"),
            "auto.create.topics.enable": "false",
            "group.initial.rebalance.delay.ms": "0",
            "offsets.topic.num.partitions": "1",
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "transaction.state.log.replication.factor": "1",
        }
        lines = "".join(f"{name}={value}\n" for name, value in settings.items())
        self._settings = folder / "kafka.properties"
        self._settings.write_text(lines, encoding="utf-8")
        storage = ["kafka.tools.StorageTool", "format", "-t", "MkU3OEVBNTcwNTJENDM2Qg", "-c"]
        subprocess.run([*self._java, *storage, str(self._settings)], check=True, capture_output=True)

    def start(self):
        """Start it, with its data; return when it answers."""
        log = self._folder / "log"
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [*self._java, "kafka.Kafka", str(self._settings)], stdout=output, stderr=output
            )

        def answers():
            assert self._process.poll() is None, f"the broker ended:\n{log.read_text()[-4000:]}"
            client = AdminClient({"bootstrap.servers": self.address, "log_level": 0})
            try:
                return client.list_topics(timeout=5).brokers
            except KafkaException:
                return None

        wait_until(answers, STARTED_S, "the broker does not answer")

    def stop(self):
        """Stop it; its data remains."""
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(60)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None

    def make(self, topic, partitions):
        """Create a topic."""
        client = AdminClient({"bootstrap.servers": self.address, "log_level": 0})
        [made] = client.create_topics([NewTopic(topic, partitions, 1)]).values()
        made.result(STARTED_S)

    def write(self, topic, messages):
        """Write messages, pairs of key and value; return partition and offset of each, once all are stored."""
        producer = Producer(
            {"bootstrap.servers": self.address, "acks": "all", "enable.idempotence": True, "log_level": 0}
        )
        places = {}

        def written(number):
            def note(why, message):
                assert why is None, why
                places[number] = message.partition(), message.offset()

            return note

        for number, (key, value) in enumerate(messages):
            producer.produce(topic, value, key, on_delivery=written(number))
            producer.poll(0)
        assert producer.flush(STARTED_S) == 0
        return [places[number] for number in sorted(places)]

    def committed(self, topic, partitions, group):
        """Return a group's committed offsets by partition; -1001: none yet."""
        asked = [TopicPartition(topic, number) for number in range(partitions)]
        client = Consumer({"bootstrap.servers": self.address, "group.id": group, "log_level": 0})
        try:
            return {one.partition: one.offset for one in client.committed(asked, STARTED_S)}
        finally:
            client.close()


@contextmanager
def broker_in(java, jars, folder):
    """Run a broker until the block ends."""
    broker = Broker(java, jars, folder)
    broker.start()
    try:
        yield broker
    finally:
        broker.stop()
