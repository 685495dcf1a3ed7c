"""One span and one log record, in the form that every reader here receives.

OTLP in protobuf or JSON (`otlp`) and the SDK's own objects (`_sdk`) are converted to the same record, so that
there is one reader per convention. Ids are lower-case hex, times nanoseconds since the epoch.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

UNREAD = object()
"""Placeholder: the convention of a span was not determined yet."""

_RANK = re.compile(r"\.\d+(?=\.|\Z)")
_BESIDE_TEXTS = 700
"""Approximate bytes of a record beside its texts."""
_BESIDE_A_VALUE = 140
"""Approximate bytes of an attribute beside the text that is its value."""


@dataclass(frozen=True, slots=True)
class SpanNote:
    """An event on a span."""

    name: str
    attributes: Mapping[str, Any]

    @property
    def kind(self) -> str:
        """Its name without the rank that some emitters have in it: ``result.0.metadata``."""
        return _RANK.sub("", self.name)


@dataclass(slots=True, kw_only=True)
class SpanRecord:
    """One ended span. Only `reading` and `rows` change; not frozen, because that makes creation slow."""

    trace_id: str
    """32 hex digits."""
    span_id: str
    """16 hex digits."""
    parent_id: str | None = None
    """16 hex digits, or None for the first span of a trace."""
    parent_is_remote: bool = False
    """Whether its parent is known to be another process's."""
    name: str = ""
    kind: str = "internal"
    """``internal``, ``server``, ``client``, ``producer``, ``consumer`` or ``unspecified``."""
    started_ns: int = 0
    """Start, nanoseconds since the epoch."""
    ended_ns: int = 0
    """End, likewise."""
    attributes: Mapping[str, Any] = field(default_factory=dict)
    """Its attributes, decoded: strings, numbers, lists, mappings."""
    events: tuple[SpanNote, ...] = ()
    failed: bool = False
    """Whether its status says error."""
    dropped: int = 0
    """Number of attributes removed by the SDK's limit."""
    is_linked: bool = False
    """Whether it has a link to a span of another trace."""
    scope: str = ""
    """Name of the instrumentation."""
    sampled: bool = True
    """Whether the trace is recorded by others, too."""
    resource: Mapping[str, str] = field(default_factory=dict)
    """The service it comes from, if that is another process: ``service.name`` and similar attributes."""
    deployed: Mapping[str, str] = field(default_factory=dict)
    """The resource's other data on its origin, such as the version of an index."""
    reading: Any = field(default=UNREAD, compare=False, repr=False)
    """The convention that reads it and its role, once `conventions.reading` was called."""
    rows: Any = field(default=UNREAD, compare=False, repr=False)
    """The passages that it has as events, once `conventions.hits_in` was called."""

    @property
    def service(self) -> str:
        """Its ``service.name``; empty if unknown."""
        return str(self.resource.get("service.name", ""))

    @property
    def is_entry(self) -> bool:
        """Whether a request entered this process here, from another one."""
        return self.kind in ("server", "consumer") or self.parent_is_remote

    @property
    def is_server_error(self) -> bool:
        """Whether its HTTP status is a server's error."""
        codes = map(self.attributes.get, ("http.response.status_code", "http.status_code"))
        return any(isinstance(code, int) and code >= 500 for code in codes)

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
        """Return its estimated bytes."""
        size = _BESIDE_TEXTS + _BESIDE_A_VALUE * len(self.attributes) + len(self.name)
        for key, value in self.attributes.items():
            size += len(key)
            if type(value) is str:
                size += 2 * len(value)
            elif isinstance(value, (bytes, list, tuple, dict)):
                size += 100 * len(value)
        return size + sum(_BESIDE_TEXTS + 2 * len(str(event.attributes)) for event in self.events)


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
        """Return its estimated bytes."""
        return _BESIDE_TEXTS + 2 * len(str(self.body)) + 2 * len(str(dict(self.attributes)))
