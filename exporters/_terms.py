"""Types of telemetry names and instruments, for `ragmeter.exporters.semconv`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Status = Literal["stable", "development", "own"]
"""``stable``, ``development``: according to the convention; ``own``: ragmeter's, changed with notice."""


class Term(str):
    """A name as emitted, with its source and status.

    Attributes:
        source: The convention that defines it, or ``ragmeter``.
        status: Its stability according to the source.
    """

    __slots__ = ("source", "status")
    source: str
    status: Status

    def __new__(cls, name: str, source: str, status: Status) -> Term:
        """Create the string and store its source."""
        term = super().__new__(cls, name)
        term.source = source
        term.status = status
        return term

    def __getnewargs__(self) -> tuple[str, str, Status]:  # type: ignore[override]
        """Support copying and pickling, as the SDK's console exporter does with attributes."""
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
    """Its kind in the OpenTelemetry API."""
    unit: str
    """UCUM unit; annotations in braces."""
    description: str
    """One sentence for people."""
    attributes: tuple[Term, ...] = ()
    """The attributes it may carry; all of low cardinality."""
    buckets: tuple[float, ...] = ()
    """Advised upper bounds of a histogram's buckets."""
