"""One span and one log record, in the form that every reader here is given.

OTLP in protobuf or JSON (`otlp`) and the SDK's own objects (`_sdk`) become the same record, so that a
reader of a convention is written once.  Ids are lower-case hex, times nanoseconds since the epoch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["UNREAD", "LogNote", "SpanNote", "SpanRecord"]

UNREAD = object()
"""The convention of a span was not determined yet."""

_BESIDE_TEXTS = 700
"""Bytes that a record takes beside its texts, about."""
_BESIDE_A_VALUE = 140
"""Bytes that an attribute takes beside the text that is its value, about."""


@dataclass(frozen=True, slots=True)
class SpanNote:
    """An event on a span."""

    name: str
    """Its name."""
    attributes: Mapping[str, Any]
    """Its attributes."""


@dataclass(slots=True, kw_only=True)
class SpanRecord:
    """One ended span. Nothing of it changes but `reading`; it is not frozen as that makes it slow to make."""

    trace_id: str
    """32 hex digits."""
    span_id: str
    """16 hex digits."""
    parent_id: str | None = None
    """16 hex digits, or None for the first span of a trace."""
    parent_is_remote: bool = False
    """Whether its parent is known to be another process's."""
    name: str = ""
    """Its name."""
    kind: str = "internal"
    """``internal``, ``server``, ``client``, ``producer``, ``consumer`` or ``unspecified``."""
    started_ns: int = 0
    """Start, nanoseconds since the epoch."""
    ended_ns: int = 0
    """End, likewise."""
    attributes: Mapping[str, Any] = field(default_factory=dict)
    """Its attributes, decoded: strings, numbers, lists, mappings."""
    events: tuple[SpanNote, ...] = ()
    """Its events."""
    failed: bool = False
    """Whether its status says error."""
    dropped: int = 0
    """Attributes that the SDK's limit took away."""
    scope: str = ""
    """Name of the instrumentation."""
    sampled: bool = True
    """Whether the trace is recorded by others, too."""
    resource: Mapping[str, str] = field(default_factory=dict)
    """The service it comes from, where that is another process: ``service.name`` and the like."""
    deployed: Mapping[str, str] = field(default_factory=dict)
    """What else the resource says of its origin, such as the version of an index."""
    reading: Any = field(default=UNREAD, compare=False, repr=False)
    """The convention that reads it and its role, once `conventions.reading` was asked."""

    @property
    def is_entry(self) -> bool:
        """Whether a request came in here from another process."""
        return self.kind in ("server", "consumer") or self.parent_is_remote

    @property
    def error_type(self) -> str | None:
        """The low-cardinality class of its error, if given."""
        named = self.attributes.get("error.type")
        if isinstance(named, str):
            return named
        for event in self.events:
            raised = event.attributes.get("exception.type") if event.name == "exception" else None
            if isinstance(raised, str):
                return raised.rpartition(".")[2] or None
        return "Error" if self.failed else None

    def size_bytes(self) -> int:
        """Return the bytes it takes up, estimated."""
        size = _BESIDE_TEXTS + _BESIDE_A_VALUE * len(self.attributes) + len(self.name)
        for key, value in self.attributes.items():
            size += len(key)
            if type(value) is str:
                size += 2 * len(value)
            elif isinstance(value, (bytes, list, tuple, dict)):
                size += 100 * len(value)
        return size


@dataclass(frozen=True, slots=True, kw_only=True)
class LogNote:
    """One log record that belongs to a span."""

    trace_id: str
    """32 hex digits."""
    span_id: str
    """16 hex digits."""
    event: str = ""
    """Name of the event it reports."""
    body: Any = None
    """Its body, decoded."""
    attributes: Mapping[str, Any] = field(default_factory=dict)
    """Its attributes, decoded."""
    scope: str = ""
    """Name of the instrumentation."""

    def size_bytes(self) -> int:
        """Return the bytes it takes up, estimated."""
        return _BESIDE_TEXTS + 2 * len(str(self.body)) + 2 * len(str(dict(self.attributes)))
