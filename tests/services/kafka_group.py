"""A consumer group of `ragmeter serve --kafka` processes on a private topic, and their results."""

from collections import Counter, defaultdict
from contextlib import ExitStack

import httpx
from kafka_traffic import trace_of
from otel_collector import spans_of
from otlp_receiver import OtlpReceiver
from processes import wait_until
from serving import serving

PARTITIONS = 8
SCORED_S = 240
OPEN = ("--idle", "3600")
"""Seconds to wait for an incomplete trace, sufficient for a slow machine."""


class Group:
    """A private topic, its consumers, and their results."""

    def __init__(self, broker, folder, topic):
        self.broker = broker
        self.topic = topic
        self.receiver = OtlpReceiver()
        self.folder = folder
        self._started = 0
        self._stack = ExitStack()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._stack.close()
        self.receiver.close()

    def join(self, *options):
        """Start one more consumer."""
        self._started += 1
        folder = self.folder / f"{self.topic}-{self._started}"
        folder.mkdir(parents=True)
        properties = folder / "properties"
        properties.write_text("# so that others soon go on for who died\nsession.timeout.ms = 6000\n")
        given = ["--kafka", self.broker.address, "--topic", self.topic, "--no-store", *OPEN]
        given += ["--kafka-config", str(properties), *options]
        quick = {"OTEL_BSP_SCHEDULE_DELAY": "100", "RAGMETER_EVENTS": "off"}
        return self._stack.enter_context(serving(folder, self.receiver.url, *given, **quick))

    def verdicts(self):
        """Return the number of judgements of each trace."""
        return Counter(span.trace_id for span in spans_of(self.receiver) if span.verdict)

    def wait_for(self, names):
        """Wait until each of these requests was judged."""
        wanted = {trace_of(name) for name in names}
        wait_until(lambda: self.verdicts().keys() >= wanted, SCORED_S, "not every request was scored")
        assert self.verdicts().keys() == wanted

    def scores(self):
        """Return the scores of each span, by trace and span id: a list, as a span may arrive again."""
        found = defaultdict(list)
        for span in spans_of(self.receiver):
            if span.scores:
                found[span.trace_id, span.span_id].append(span.scores)
        return found

    def committed(self):
        return self.broker.committed(self.topic, PARTITIONS, "ragmeter")

    def wait_until_done(self, count):
        """Wait until the group needs none of `count` messages again."""
        wait_until(
            lambda: sum(max(0, offset) for offset in self.committed().values()) == count,
            SCORED_S,
            "not every message is done",
        )


def health(server):
    """Return a server's health report."""
    return httpx.get(f"{server.http}/healthz", timeout=60).json()


def read(*servers):
    """Return the number of messages that servers have read."""
    return sum(sum(health(server)["messages"].values()) for server in servers)


def joined(*servers):
    """Return whether servers read, each some of the partitions and together all."""
    told = [health(server)["kafka"] for server in servers]
    partitions = [set(one["partitions"]) for one in told]
    return (
        all(one["state"] == "reading" for one in told)
        and all(partitions)
        and sum(map(len, partitions)) == PARTITIONS
    )
