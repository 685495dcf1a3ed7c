"""Export changes of quality: an event for each, a counter of alarms, and the evidence as gauges.

`ChangeBoard` reads the evidence of every meter that reports to one meter provider, `DriftBoard` how their
judges have moved; `StatsBoard` holds both and says why there is one per provider.  `ChangeWriter` writes what
happens.  None of them sees a text of a request.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timezone
from itertools import chain
from typing import ClassVar

from opentelemetry._logs import Logger, LogRecord, SeverityNumber
from opentelemetry.metrics import Meter
from opentelemetry.util.types import AttributeValue

from ragmeter.exporters import semconv
from ragmeter.exporters._format import clean
from ragmeter.exporters.changes import (
    ChangeEvidence,
    JudgeDrift,
    QualityChange,
    RetrieverDifference,
)

from ._series import Attributes, SeriesBound
from ._sources import Reading, WeakSources

_ENDS = ("mean", "lower", "upper")
_GOOD_NEWS = "recovered"
_NS = 1_000_000_000


class ChangeBoard(WeakSources[Sequence[ChangeEvidence]]):
    """Publishes the evidence of all meters that publish to one meter provider.

    Args:
        bound: Keeps the number of series below the SDK's limit.
    """

    def __init__(self, bound: SeriesBound) -> None:
        super().__init__()
        self._bound = bound

    def values(self, instrument: semconv.Instrument) -> Reading:
        """Return the evidence for each change: the most that a meter has."""
        found: dict[tuple[tuple[str, AttributeValue], ...], float] = {}
        for one in chain.from_iterable(self.read()):
            named = _attributes_of(one.score, one.workflow, one.segment, one.kind)
            key = tuple(self._bound.fit(instrument.name, named).items())
            found[key] = max(found.get(key, 0.0), one.evidence)
        for key, value in found.items():
            yield value, dict(key)


class DriftBoard(WeakSources[Sequence[JudgeDrift | RetrieverDifference]]):
    """Publishes how much otherwise the judges of all meters judge by now: the mean and its interval.

    Args:
        bound: Keeps the number of series below the SDK's limit.
    """

    fields: ClassVar[Mapping[semconv.Instrument, str]] = dict(
        zip(semconv.DRIFT_INSTRUMENTS, _ENDS, strict=True)
    )

    def __init__(self, bound: SeriesBound) -> None:
        super().__init__()
        self._bound = bound

    def values(self, instrument: semconv.Instrument) -> Reading:
        """Return one of the three for each score."""
        for one in chain.from_iterable(self.read()):
            named: Attributes = {str(semconv.GEN_AI_EVALUATION_NAME): clean(one.score, 256)}
            if isinstance(one, RetrieverDifference):
                named[str(semconv.SHADOW)] = clean(one.name, 256)
            yield getattr(one, self.fields[instrument]), self._bound.fit(instrument.name, named)


class ShadowBoard(DriftBoard):
    """Likewise, how other retrievers do on the same requests."""

    fields: ClassVar[Mapping[semconv.Instrument, str]] = dict(
        zip(semconv.SHADOW_INSTRUMENTS, _ENDS, strict=True)
    )


class ChangeWriter:
    """Writes an event and counts an alarm for every change.

    Args:
        logger: Returns the logger in force; None: no events are wanted.
        meter: Makes the counter; None: no metrics are wanted.
        bound: Keeps the number of series below the SDK's limit.
    """

    def __init__(
        self,
        logger: Callable[[], Logger] | None,
        meter: Callable[[], Meter] | None,
        bound: SeriesBound,
    ) -> None:
        self._logger = logger
        self._bound = bound
        alarms = semconv.CHANGE_ALARMS
        self._alarms = (
            None
            if meter is None
            else meter().create_counter(str(alarms.name), alarms.unit, alarms.description)
        )

    def write(self, change: QualityChange, sentence: str) -> None:
        """Write a change; `sentence` is the same in one sentence."""
        if self._alarms is not None and change.kind != _GOOD_NEWS:
            named = _attributes_of(change.score, change.workflow, change.segment, change.kind)
            self._alarms.add(1, self._bound.fit(semconv.CHANGE_ALARMS.name, named))
        if self._logger is None:
            return
        is_good = change.kind == _GOOD_NEWS
        at = int(change.at * _NS)
        self._logger().emit(
            LogRecord(
                timestamp=at,
                observed_timestamp=at,
                severity_number=SeverityNumber.INFO if is_good else SeverityNumber.WARN,
                severity_text="INFO" if is_good else "WARN",
                body=clean(sentence),
                attributes=change_attributes(change),
                event_name=str(semconv.EVENT_CHANGE),
            )
        )


def change_attributes(change: QualityChange) -> dict[str, AttributeValue]:
    """Return the attributes of a change's event."""
    attributes: dict[str, AttributeValue] = {
        **_attributes_of(change.score, change.workflow, change.segment, change.kind),
        semconv.CHANGE_SINCE: datetime.fromtimestamp(change.since, timezone.utc).isoformat(
            timespec="seconds"
        ),
        semconv.CHANGE_EVIDENCE.name: float(change.evidence),
        semconv.CHANGE_BEFORE_LOWER: change.before.lower,
        semconv.CHANGE_BEFORE_UPPER: change.before.upper,
        semconv.CHANGE_NOW_LOWER: change.now.lower,
        semconv.CHANGE_NOW_UPPER: change.now.upper,
    }
    if change.before.mean is not None:
        attributes[semconv.CHANGE_BEFORE] = change.before.mean
    if change.now.mean is not None:
        attributes[semconv.CHANGE_NOW] = change.now.mean
    return attributes


def _attributes_of(score: str, workflow: str, segment: str, kind: str) -> Attributes:
    named = {
        semconv.GEN_AI_EVALUATION_NAME: score,
        semconv.GEN_AI_WORKFLOW_NAME: workflow,
        semconv.SEGMENT: segment,
        semconv.CHANGE_KIND: kind,
    }
    return {str(key): clean(value, 256) for key, value in named.items() if value}
