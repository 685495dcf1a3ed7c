"""What exporters learn of changes of quality: `QualityChange`, as it happens, and the evidence at any time.

The watch over scores (`ragmeter.watch.watch`) calls; an exporter that has the methods of `ObservesChanges`
publishes them.  Nothing here holds a text of a request.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

__all__ = [
    "ChangeEvidence",
    "JudgeDrift",
    "MeanWithInterval",
    "NewSince",
    "NotTakenError",
    "ObservesChanges",
    "ObservesDrift",
    "ObservesShadows",
    "QualityChange",
    "RetrieverDifference",
]


class NotTakenError(Exception):
    """A change was not taken, and may be later.

    Args:
        message: Why, without anything secret.
        pause_s: Seconds that were requested; None: unspecified.
    """

    def __init__(self, message: str, pause_s: float | None = None) -> None:
        super().__init__(message)
        self.pause_s = pause_s


class MeanWithInterval(Protocol):
    """A mean and its 95 % interval, on the score's range scaled to 0 … 1; see `ragmeter.Estimate`."""

    @property
    def mean(self) -> float | None:
        """The mean; None: too few values."""
        ...

    @property
    def lower(self) -> float:
        """Lower end."""
        ...

    @property
    def upper(self) -> float:
        """Upper end."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSince:
    """What requests have since a change, and had not before: perhaps its cause."""

    name: str
    """What of: ``service.version``, ``index_version``, ``judge``, ``definition of faithfulness``, ..."""
    value: str
    at: float
    """When it was first seen: the beginning of the five minutes, or of the hour, long ago; Unix seconds."""
    requests: int
    """How many have it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QualityChange:
    """A change of quality as an exporter sees it; see `ragmeter.watch.change.Change`."""

    score: str
    workflow: str
    """Empty: the application names none."""
    since: float
    """Estimated start, Unix seconds."""
    at: float
    """When it was noticed, Unix seconds."""
    before: MeanWithInterval
    now: MeanWithInterval
    evidence: float
    kind: str
    """``fell``, ``mix``, ``judge``, ``recovered`` or ``version``."""
    segment: str = ""
    """Empty: all of the workflow's requests."""
    service: str = ""
    """Empty: this process."""
    note: str = ""
    new: tuple[NewSince, ...] = ()
    """What is new since then, the commonest first; empty: nothing, or it is not known here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeEvidence:
    """How much speaks for a change of one score."""

    score: str
    """Name of the score."""
    workflow: str
    """Name of the workflow; empty: it has none, or all are meant."""
    segment: str = ""
    """Which part of its requests; empty: all of them."""
    kind: str = "fell"
    """What kind of change it is or would be."""
    resource: Mapping[str, str] = field(default_factory=dict)
    """The service that it is about, where that is another process."""
    evidence: float
    """1 is what an alarm takes: above 1 while a change is on, below it else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeDrift:
    """How much otherwise the judge of one score judges by now; on the score's range scaled to 0 … 1."""

    score: str
    mean: float
    """New verdicts less old ones, the mean over the same requests; below 0: it has become harsher."""
    lower: float
    """Lower end of its 95 % interval."""
    upper: float
    """Upper end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetrieverDifference:
    """How another retriever does on the same live questions."""

    name: str
    """The other retriever's."""
    score: str
    mean: float
    """Its score less that of the one in use, the mean over the same requests."""
    lower: float
    """Lower end of its 95 % interval, which holds at every look."""
    upper: float
    """Upper end."""


@runtime_checkable
class ObservesShadows(Protocol):
    """An exporter that also publishes how other retrievers do."""

    def observe_shadow(self, differences: Callable[[], Sequence[RetrieverDifference]]) -> None:
        """Remember `differences`; call it whenever it is wanted. Each shadow comes once."""
        ...


@runtime_checkable
class ObservesDrift(Protocol):
    """An exporter that also publishes whether judges judge as they did."""

    def observe_drift(self, drifts: Callable[[], Sequence[JudgeDrift]]) -> None:
        """Remember `drifts`; call it whenever it is wanted."""
        ...


@runtime_checkable
class ObservesChanges(Protocol):
    """An exporter that also publishes changes of quality."""

    def observe_changes(self, evidence: Callable[[], Sequence[ChangeEvidence]]) -> None:
        """Remember `evidence`; call it whenever it is wanted."""
        ...

    def changed(self, change: QualityChange, sentence: str, resource: Mapping[str, str]) -> None:
        """Tell of a change. Called on a thread of the meter's; must not block for long.

        Args:
            change: What changed.
            sentence: The same in one sentence.
            resource: The service that it is about, where that is another process.
        """
        ...
