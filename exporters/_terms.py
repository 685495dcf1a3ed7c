"""Types of telemetry names and instruments, for `ragmeter.exporters.semconv`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Status = Literal["stable", "development", "own"]
"""``stable``, ``development``: as the convention says; ``own``: ours, changed with notice."""


class Term(str):
    """A name as emitted, with its source and status.

    Attributes:
        source: The convention that defines it, or ``ragmeter``.
        status: How stable the source calls it.
    """

    __slots__ = ("source", "status")
    source: str
    status: Status

    def __new__(cls, name: str, source: str, status: Status) -> Term:
        """Make the string and note where it comes from."""
        term = super().__new__(cls, name)
        term.source = source
        term.status = status
        return term

    def __getnewargs__(self) -> tuple[str, str, Status]:  # type: ignore[override]
        """Let it be copied and pickled, as the SDK's console exporter does with attributes."""
        return str(self), self.source, self.status


InstrumentKind = Literal[
    "histogram", "counter", "observable_counter", "observable_updowncounter", "observable_gauge"
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Instrument:
    """One metric instrument: its name, unit, attributes and bucket advice."""

    name: Term
    """The name, with its source and status."""
    kind: InstrumentKind
    """What it is in the OpenTelemetry API."""
    unit: str
    """UCUM unit; annotations in braces."""
    description: str
    """One sentence for people."""
    attributes: tuple[Term, ...] = ()
    """The attributes it may carry; all of low cardinality."""
    buckets: tuple[float, ...] = ()
    """Advised upper bounds of a histogram's buckets."""
