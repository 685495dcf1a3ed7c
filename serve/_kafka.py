"""`KafkaSource`: reads spans from a topic in the format of a Collector's Kafka exporter.

It is a member of a consumer group and asks for messages as far as there is room. Committed offsets stay
behind the oldest trace that is not scored and sent, so that the next reader after a kill reads every open
trace from its first span. An unreadable message is counted and skipped, so that it does not block the
partition.

All calls of the client library are made by one thread, which never waits for a broker.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

from ragmeter.adapters.opentelemetry.otlp import MalformedError, parse_json, parse_protobuf
from ragmeter.metrics import ConfigurationError, MissingDependencyError

from ._bodies import TooLargeError
from ._intake import BusyError, Intake
from ._ledger import Ledger
from ._limits import Limits
from ._offsets import Offsets, Partition
from ._spool import FORWARDED, Entry
from .kafka_options import KafkaOptions

try:
    from confluent_kafka import Consumer, KafkaException, TopicPartition
except ImportError:
    raise MissingDependencyError("confluent-kafka", "kafka", "ragmeter serve --kafka") from None

_BATCH = 64
"""Messages to ask for at a time."""
_POLL_S = 0.2
_LOOK_S = 1.0
"""Seconds between two measurements of the lag."""
_CONNECT_S = 3.0
"""Seconds for connecting before the brokers count as not answering."""
_GIVE_UP_S = 10.0
"""Seconds for scoring and sending the messages of a partition before another consumer takes it over."""
_OPEN_BRACE = b"{"
"""First byte of OTLP in JSON, with which no export request in protobuf begins."""
_WELL = ("joining", "reading", "full")
_PASSING = ("_PARTITION_EOF", "_TRANSPORT", "_ALL_BROKERS_DOWN")
"""Errors that only mean that nothing arrives at the moment; unreachable brokers are a state."""

_log = logging.getLogger("ragmeter")


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaHealth:
    """The state of reading."""

    state: str
    """``reading``; ``full``: no room, so no messages are requested; ``joining`` the group; ``away``: no
    broker answers; ``ended``."""
    error: str | None = None
    """Name of the brokers' last error that prevented reading, or None."""
    partitions: Sequence[str] = ()
    """The assigned partitions, as ``topic/number``."""
    lag: Mapping[str, int] = field(default_factory=dict)
    """By partition: number of messages that are not scored and sent, including unread ones."""

    @property
    def why_not(self) -> str | None:
        """Reason why no messages can arrive, or None."""
        if self.state in ("away", "joining", "ended"):
            return f"Kafka: {self.state}"
        return None if self.error is None else f"Kafka: {self.error}"


class KafkaSource:
    """Reads a topic into the intake. To be started and ended.

    Args:
        options: The topic, and the connection.
        intake: Accepts the messages.
        ledger: Makes the ledger of the offsets, which determines when a message is finished.
        forget: Drops traces that another process will read, by id.
        limits: Bounds the size of messages.
        guard: Contains the server's own errors.

    Raises:
        ConfigurationError: The client library rejects the properties.
    """

    def __init__(
        self,
        options: KafkaOptions,
        intake: Intake,
        ledger: Callable[[Offsets], Ledger],
        forget: Callable[[Iterable[str]], None],
        limits: Limits,
        guard: AbstractContextManager[object],
    ) -> None:
        self._options = options
        self._intake = intake
        self._offsets = Offsets()
        self.ledger = ledger(self._offsets)
        self._forget = forget
        self._limits = limits
        self._guard = guard
        self._lock = threading.Lock()
        self._messages: Counter[str] = Counter()
        self._lag: dict[str, int] = {}
        self._ours: tuple[str, ...] = ()
        self._joined = self._connected = self._is_late = False
        self._began = time.monotonic()
        self._error: str | None = None
        self._said = ""
        self._pending: deque[Any] = deque()
        self._paused: set[Partition] = set()
        self._looked = 0.0
        self._ending = threading.Event()
        self._stopped = threading.Event()
        self._finishing = threading.Event()
        self._consumer = self._connect()
        self._thread = threading.Thread(target=self._run, name="ragmeter-kafka", daemon=True)

    def start(self) -> None:
        """Begin to read as soon as a broker answers."""
        self.ledger.start()
        self._consumer.subscribe(
            [self._options.topic], on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost
        )
        self._thread.start()

    def stop_reading(self, timeout_s: float) -> None:
        """Stop reading, and drop incomplete traces: the next member of the group reads them again."""
        if self._ending.is_set():
            return
        self._ending.set()
        if self._thread.ident is not None:
            self._stopped.wait(timeout_s)
        self.ledger.look_soon(timeout_s)
        self._forget(self.ledger.forget_open())

    def finish(self, timeout_s: float, *, flushed: bool) -> None:
        """Commit the processed messages and leave the group.

        Args:
            timeout_s: Most seconds to take.
            flushed: Whether all scores of the read traces were sent; otherwise nothing is settled.
        """
        deadline = time.monotonic() + timeout_s
        self.ledger.end(0.5)
        if flushed:
            self.ledger.settle(timeout_s / 2)
        self._finishing.set()
        if self._thread.ident is None:
            self._leave()
        else:
            self._thread.join(max(0.5, deadline - time.monotonic()))

    def messages(self) -> Mapping[str, int]:
        """Return the number of messages read, by outcome."""
        with self._lock:
            return dict(self._messages)

    def health(self) -> KafkaHealth:
        """Return the state of reading."""
        with self._lock:
            return KafkaHealth(
                state=self._state(), error=self._error, partitions=self._ours, lag=dict(self._lag)
            )

    def _state(self) -> str:
        if self._ending.is_set():
            return "ended"
        if not self._connected:
            return "away" if self._is_late else "joining"
        if not self._joined:
            return "joining"
        return "full" if self._paused else "reading"

    def _connect(self) -> Any:
        given = dict(self._options.properties)
        settings: dict[str, Any] = {
            # All messages in the topic are to be scored, unless a property sets another start.
            "auto.offset.reset": "earliest",
            "client.id": "ragmeter",
            "log_level": 2,
            "queued.max.messages.kbytes": 16_384,
            "topic.metadata.refresh.interval.ms": 10_000,
            **given,
            "bootstrap.servers": self._options.servers,
            "group.id": self._options.group,
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "partition.assignment.strategy": "cooperative-sticky",
            "statistics.interval.ms": 1_000,
            "stats_cb": self._hear,
            "error_cb": self._hear_error,
            "on_commit": self._on_commit,
        }
        try:
            return Consumer(settings, logger=_log)
        except (KafkaException, ValueError, TypeError) as error:
            raise ConfigurationError(
                f"Kafka's client library does not take the properties: {_without(str(error), given.values())}"
            ) from None

    def _run(self) -> None:
        while not self._ending.is_set():
            with self._guard:
                self._round()
                continue
            self._ending.wait(_POLL_S)  # a persistent error must not keep a core busy
        self._stopped.set()
        self._finishing.wait()
        self._leave()

    def _leave(self) -> None:
        with self._guard:
            if self._connected:
                self._commit(wait=True)
        with self._guard:
            self._consumer.close()

    def _round(self) -> None:
        for message in self._consumer.consume(_BATCH, _POLL_S):
            if message.error() is None:
                self._pending.append(message)
            else:
                self._hear_error(message.error())
        while self._pending and not self._ending.is_set():
            if not self._take(self._pending[0]):
                break
            self._pending.popleft()
        self._pause_or_go_on()
        self._commit()
        now = time.monotonic()
        if now - self._looked >= _LOOK_S:
            self._looked = now
            self._look_ahead()

    def _take(self, message: Any) -> bool:
        """Accept a message; return whether there was room."""
        if self._intake.busy() is not None:
            return False
        partition = (message.topic(), message.partition())
        body = message.value()
        outcome = "error"
        position = self._offsets.read(partition, message.offset())
        with self._guard:
            try:
                outcome = self._admit(body, position)
            except BusyError:
                self._offsets.put_back(position)
                return False
            except TooLargeError:
                outcome = "too_large"
            except MalformedError:
                outcome = "malformed"
        with self._lock:
            self._messages[outcome] += 1
            self._error = None
        if outcome != "accepted":
            self._offsets.settle([position])
        if outcome not in ("accepted", "empty"):
            _log.warning(
                "Kafka: the message at offset %d of partition %d is skipped: %s",
                message.offset(),
                message.partition(),
                outcome,
            )
        return True

    def _admit(self, body: bytes | None, position: int) -> str:
        if not body:
            return "empty"  # in a compacted topic, the tombstone of a deleted key
        if len(body) > self._limits.body_bytes:
            raise TooLargeError(f"{len(body)} bytes")
        parse = parse_json if body.startswith(_OPEN_BRACE) else parse_protobuf
        request = parse("traces", body)
        # Other consumers read the topic, too, so nothing of it is forwarded.
        kept = Entry(position, "traces", b"", frozenset({FORWARDED}))
        self._intake.take("traces", request, kept=kept, ledger=self.ledger)
        return "accepted"

    def _pause_or_go_on(self) -> None:
        if self._pending and not self._paused:
            self._pause(self._consumer.assignment())
        elif not self._pending and self._paused:
            self._consumer.resume([TopicPartition(*one) for one in self._paused])
            with self._lock:
                self._paused = set()

    def _pause(self, partitions: Sequence[Any]) -> None:
        self._consumer.pause(partitions)
        with self._lock:
            self._paused |= _names(partitions)

    def _commit(self, *, wait: bool = False) -> None:
        due = self._offsets.due()
        if not due:
            return
        offsets = [TopicPartition(*partition, offset) for partition, offset in due.items()]
        try:
            self._consumer.commit(offsets=offsets, asynchronous=not wait)
        except KafkaException as error:
            self._hear_error(error.args[0])
        else:
            self._offsets.note_committed(due)

    def _on_commit(self, error: Any, partitions: Sequence[Any]) -> None:
        self._offsets.note_refused(
            (one.topic, one.partition) for one in partitions if error is not None or one.error is not None
        )
        if error is None:
            with self._lock:
                self._error = None

    def _look_ahead(self) -> None:
        lag: dict[str, int] = {}
        ours = self._consumer.assignment()
        for one in ours:
            partition = (one.topic, one.partition)
            behind = self._offsets.behind(partition)
            _, high = self._consumer.get_watermark_offsets(one, cached=True)
            if high >= 0 and behind is not None:
                lag[f"{one.topic}/{one.partition}"] = max(0, high - behind)
        with self._lock:
            self._lag = lag
            self._ours = tuple(sorted(f"{one.topic}/{one.partition}" for one in ours))
            state = self._state() if self._error is None else f"{self._state()}, {self._error}"
        if state != self._said:
            self._said = state
            _log.log(logging.INFO if state in _WELL else logging.WARNING, "Kafka: %s", state)

    def _on_assign(self, consumer: Any, partitions: Sequence[Any]) -> None:
        consumer.incremental_assign(partitions)
        with self._lock:
            self._error = None
        if self._paused:
            self._pause(partitions)

    def _on_revoke(self, _: Any, partitions: Sequence[Any]) -> None:
        """Commit the finished messages of partitions that another consumer will read, and drop the rest."""
        if self._finishing.is_set() or not partitions:
            return
        with self._guard:
            self.ledger.look_soon(_GIVE_UP_S)
            self.ledger.settle(_GIVE_UP_S)
            self._commit(wait=True)
        self._on_lost(None, partitions)

    def _on_lost(self, _: Any, partitions: Sequence[Any]) -> None:
        """Drop the partitions that another consumer has taken over."""
        if self._finishing.is_set():
            return
        gone = _names(partitions)
        with self._guard:
            self._pending = deque(one for one in self._pending if (one.topic(), one.partition()) not in gone)
            with self._lock:
                self._paused -= gone
            self._forget(self.ledger.forget(self._offsets.give_up(gone)))

    def _hear(self, text: str) -> None:
        with self._guard:
            statistics = json.loads(text)
            brokers = statistics.get("brokers", {}).values()
            connected = any(one.get("state") == "UP" for one in brokers)
            joined = statistics.get("cgrp", {}).get("join_state") == "steady"
            with self._lock:
                self._connected, self._joined = connected, joined
                self._is_late |= connected or time.monotonic() - self._began > _CONNECT_S

    def _hear_error(self, error: Any) -> None:
        if error.name() not in _PASSING:
            with self._lock:
                self._error = error.name()


def _names(partitions: Iterable[Any]) -> set[Partition]:
    return {(one.topic, one.partition) for one in partitions}


def _without(text: str, secrets: Iterable[str]) -> str:
    """Return the library's message without any secret value it was configured with."""
    for secret in sorted(filter(None, secrets), key=len, reverse=True):
        text = text.replace(secret, "...")
    return text
