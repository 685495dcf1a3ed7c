"""The interface of exporters for changes of quality: `QualityChange` events, and current evidence.

Called by the watch over scores (`ragmeter.watch.watch`); an exporter with the methods of `ObservesChanges`
publishes them. Nothing here contains text of a request.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from .change_words import change_words

__all__ = [
    "ChangeEvidence",
    "ChangeNote",
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
    """A change was not accepted, but may be later.

    Args:
        message: Why, without secrets.
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


@dataclass(frozen=True, slots=True)
class ChangeNote:
    """A circumstance of a change; as a string, in English."""

    code: str
    """Such as ``mix``, ``again`` or ``harsher``."""
    values: tuple[str | int | float, ...] = ()
    """Means and shares from 0 to 1, counts and names, in the order of the text."""

    def text(self, language: str = "en") -> str:
        """Return it in a language of `LANGUAGES`."""
        return change_words(language, f"note_{self.code}", *self.values)

    def __str__(self) -> str:
        return self.text()


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSince:
    """A value that is new since a change: perhaps its cause."""

    name: str
    """Its name: ``service.version``, ``index_version``, ``judge``, ``definition of faithfulness``, ..."""
    value: str
    at: float
    """First seen, Unix seconds: start of the five minutes, or of the hour if long ago."""
    requests: int
    """Number of requests with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QualityChange:
    """A change of quality as an exporter sees it; see `ragmeter.watch.change.Change`."""

    score: str
    workflow: str
    """Name of the service; empty: unnamed."""
    since: float
    """Estimated start, Unix seconds."""
    at: float
    """Time of detection, Unix seconds."""
    before: MeanWithInterval
    now: MeanWithInterval
    evidence: float
    kind: str
    """``fell``, ``mix``, ``judge``, ``recovered`` or ``version``."""
    segment: str = ""
    """Empty: all of the workflow's requests."""
    service: str = ""
    """Empty: this process."""
    notes: tuple[ChangeNote, ...] = ()
    """Its circumstances, the most general first."""
    new: tuple[NewSince, ...] = ()
    """New values since then, most frequent first; empty: none, or unknown."""

    @property
    def note(self) -> str:
        """The notes in one line of English."""
        return self.note_in("en")

    def note_in(self, language: str) -> str:
        """Return the notes in one line, in a language of `LANGUAGES`."""
        return change_words(language, "stop").join(one.text(language) for one in self.notes)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeEvidence:
    """Evidence for a change of one score."""

    score: str
    """Name of the score."""
    workflow: str
    """Name of the workflow; empty: none, or all."""
    segment: str = ""
    """Segment of its requests; empty: all."""
    kind: str = "fell"
    """Kind of the change."""
    resource: Mapping[str, str] = field(default_factory=dict)
    """The resource of its service, if that is another process."""
    evidence: float
    """An alarm needs 1: above 1 during a change, else below."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeDrift:
    """Drift of the judge of one score, on the score's range scaled to 0 … 1."""

    score: str
    mean: float
    """Mean of new less old verdicts on the same requests; below 0: the judge became harsher."""
    lower: float
    """Lower end of its 95 % interval."""
    upper: float
    """Upper end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetrieverDifference:
    """Comparison of another retriever on the same live questions."""

    name: str
    """Name of the other retriever."""
    score: str
    mean: float
    """Mean of its score less that of the retriever in use, over the same requests."""
    lower: float
    """Lower end of its 95 % interval, valid at every look."""
    upper: float
    """Upper end."""


@runtime_checkable
class ObservesShadows(Protocol):
    """An exporter that also publishes comparisons of other retrievers."""

    def observe_shadow(self, differences: Callable[[], Sequence[RetrieverDifference]]) -> None:
        """Store `differences`, to be called when needed. Called once per shadow."""
        ...


@runtime_checkable
class ObservesDrift(Protocol):
    """An exporter that also publishes judge drift."""

    def observe_drift(self, drifts: Callable[[], Sequence[JudgeDrift]]) -> None:
        """Store `drifts`, to be called when needed."""
        ...


@runtime_checkable
class ObservesChanges(Protocol):
    """An exporter that also publishes changes of quality."""

    def observe_changes(self, evidence: Callable[[], Sequence[ChangeEvidence]]) -> None:
        """Store `evidence`, to be called when needed."""
        ...

    def changed(self, change: QualityChange, sentence: str, resource: Mapping[str, str]) -> None:
        """Publish a change. Called on a thread of the meter; must not block for long.

        Args:
            change: The change.
            sentence: The same in one sentence.
            resource: The resource of its service, if that is another process.
        """
        ...
