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
    "NewValue",
    "NotTakenError",
    "ObservesChanges",
    "ObservesDrift",
    "QualityChange",
]


class NotTakenError(Exception):
    """A change was not taken, and may be later.

    Args:
        message: Why, without anything secret.
        pause_s: Seconds that were asked for; None: nothing was said.
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


class NewValue(Protocol):
    """What is new since a change; see `ragmeter.watch.change.NewSince`."""

    @property
    def name(self) -> str:
        """What of."""
        ...

    @property
    def value(self) -> str:
        """Its value."""
        ...

    @property
    def at(self) -> float:
        """When it was first seen; unix seconds."""
        ...

    @property
    def requests(self) -> int:
        """How many have it."""
        ...


class QualityChange(Protocol):
    """A change of quality as an exporter sees it; see `ragmeter.watch.change.Change`."""

    @property
    def score(self) -> str:
        """Name of the score."""
        ...

    @property
    def workflow(self) -> str:
        """Name of the workflow; empty: it has none."""
        ...

    @property
    def segment(self) -> str:
        """Which part of its requests; empty: all of them."""
        ...

    @property
    def service(self) -> str:
        """Name of the service; empty: this process."""
        ...

    @property
    def kind(self) -> str:
        """``fell``, ``mix``, ``judge`` or ``recovered``."""
        ...

    @property
    def since(self) -> float:
        """When it began, by estimate; unix seconds."""
        ...

    @property
    def at(self) -> float:
        """When it was noticed; unix seconds."""
        ...

    @property
    def before(self) -> MeanWithInterval:
        """The mean before."""
        ...

    @property
    def now(self) -> MeanWithInterval:
        """The mean since."""
        ...

    @property
    def evidence(self) -> float:
        """Evidence for it."""
        ...

    @property
    def new(self) -> Sequence[NewValue]:
        """What requests have since then, and had not before."""
        ...


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


class JudgeDrift(Protocol):
    """How much otherwise the judge of a score judges by now; see `ragmeter.watch.judge_drift.Drift`."""

    @property
    def score(self) -> str:
        """Name of the score."""
        ...

    @property
    def mean(self) -> float:
        """New verdicts less old ones, the mean over the same requests."""
        ...

    @property
    def lower(self) -> float:
        """Lower end of its 95 % interval."""
        ...

    @property
    def upper(self) -> float:
        """Upper end."""
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

    def changed(self, change: QualityChange, said: str, resource: Mapping[str, str]) -> None:
        """Tell of a change. Called on a thread of the meter's; must not block for long.

        Args:
            change: What changed.
            said: The same in one sentence.
            resource: The service that it is about, where that is another process.
        """
        ...
