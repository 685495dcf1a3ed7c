"""`KafkaOptions`: topic, brokers and connection properties for reading spans."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ragmeter.metrics import ConfigurationError
from ragmeter.metrics.errors import loggable

_OURS = ("enable.auto.commit", "enable.auto.offset.store", "group.protocol", "partition.assignment.strategy")
"""Properties that must not be set: traces would be read in part, or messages lost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaOptions:
    """A topic to read from.

    Raises:
        ConfigurationError: A name is empty, or a property must not be set.
    """

    servers: str
    """Bootstrap brokers as ``host:port``, separated by commas."""
    topic: str = "otlp_spans"
    """The topic with the spans, keyed by trace id."""
    group: str = "ragmeter"
    """The consumer group: its members share the partitions."""
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Further properties of librdkafka: TLS, SASL, ``auto.offset.reset``. Never printed, as some are
    secrets."""

    def __post_init__(self) -> None:
        for option, value in (
            ("--kafka", self.servers), ("--topic", self.topic), ("--group", self.group),
        ):  # fmt: skip
            if not value.strip():
                raise ConfigurationError(f"{option} is empty; give it a value")
        if self.topic.startswith("^"):
            raise ConfigurationError("--topic is one topic's name, not a pattern")
        for name in _OURS:
            if name in self.properties:
                raise ConfigurationError(
                    f"the property {name} of --kafka-config is ragmeter's own to set; leave it out"
                )


def read_properties(path: Path) -> dict[str, str]:
    """Return the properties in a file of lines ``name=value``; ``#`` begins a comment.

    Raises:
        ConfigurationError: The file cannot be read, or a line is invalid. The message does not quote it.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeError) as error:
        raise ConfigurationError(f"--kafka-config {path} cannot be read ({loggable(error)})") from None
    found: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise ConfigurationError(f"line {number} of --kafka-config {path} is no property; write name=value")
        found[name.strip()] = value.strip()
    return found
