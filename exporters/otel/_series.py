"""Keeps every instrument below the number of series that OpenTelemetry's SDK keeps apart.

The SDK puts everything beyond 2,000 combinations of attributes into one nameless series, in
silence: a hundred workflows times twenty-eight scores are more.  Here the workflows that no longer
fit are counted together, as `OTHER`, each of them with all its scores or with none, and the
caller learns of it.
"""

from __future__ import annotations

from collections import Counter

from opentelemetry.metrics import MeterProvider
from opentelemetry.util.types import AttributeValue

from ragmeter.exporters import semconv
from ragmeter.exporters._foreign import ByIdentity
from ragmeter.metrics._process import fork

MAX_SERIES = 1_500
"""No workflow begins whose series would make more than that of an instrument."""
_LIMIT = 1_900
"""Nothing begins beyond; between the two there is room for what known workflows still turn up."""
OTHER = "other"
_PARTS = 1_250
"""Parts of a workflow's requests begin up to here: workflows that come later have room beside them."""
_DISPENSABLE = (
    semconv.ERROR_TYPE,
    semconv.VERDICT_CODE,
    semconv.GEN_AI_EVALUATION_SCORE_LABEL,
    semconv.STAGE,
    semconv.FRAMEWORK,
    semconv.GEN_AI_REQUEST_MODEL,
    semconv.GEN_AI_EVALUATION_NAME,
)
"""Attributes dropped next, in this order, if dropping the workflow does not suffice."""

Attributes = dict[str, AttributeValue]
_Key = tuple[tuple[str, AttributeValue], ...]


class _InstrumentSeries:
    """What one instrument has."""

    __slots__ = ("series", "sizes", "turned_away")

    def __init__(self) -> None:
        self.series: set[_Key] = set()
        self.sizes: Counter[AttributeValue] = Counter()
        self.turned_away: set[AttributeValue] = set()


class SeriesBound:
    """Admits new series until an instrument has enough of them. Thread-safe."""

    def __init__(self, most: int = MAX_SERIES, limit: int = _LIMIT) -> None:
        self._most = most
        self._limit = limit
        self._known: dict[str, _InstrumentSeries] = {}
        self._lock = fork.lock()

    @staticmethod
    def of(provider: MeterProvider) -> SeriesBound:
        """Return the provider's bound: exporters that share its instruments share their room."""
        return _bounds.get_or_make(provider, SeriesBound)

    def fit(self, instrument: str, attributes: Attributes) -> Attributes:
        """Return `attributes` or, where they would be a series too many, the same with `OTHER`."""
        known = self._known.get(instrument)
        if known is not None and tuple(attributes.items()) in known.series:
            return attributes
        with self._lock:
            return self._admit(self._known.setdefault(instrument, _InstrumentSeries()), attributes)

    def fit_part(self, instrument: str, attributes: Attributes) -> Attributes | None:
        """Return the attributes that a segment's series may have; its whole workflow was fitted before.

        Returns:
            None: there is no room for it, not even among the others; in the whole it is counted.
        """
        known = self._known.get(instrument)
        if known is not None and tuple(attributes.items()) in known.series:
            return attributes
        with self._lock:
            known = self._known.setdefault(instrument, _InstrumentSeries())
            workflow = attributes.get(semconv.GEN_AI_WORKFLOW_NAME)
            if workflow in known.turned_away:
                attributes = {**attributes, semconv.GEN_AI_WORKFLOW_NAME: OTHER}
            name = str(attributes[semconv.SEGMENT]).partition(":")[0]
            among_others = {**attributes, semconv.SEGMENT: f"{name}:{OTHER}"}
            for each, most in ((attributes, _PARTS), (among_others, self._most)):
                key = tuple(each.items())
                if key in known.series or len(known.series) < most:
                    known.series.add(key)
                    return each
            return None

    def _admit(self, known: _InstrumentSeries, attributes: Attributes) -> Attributes:
        workflow = attributes.get(semconv.GEN_AI_WORKFLOW_NAME)
        if workflow is not None and not self._begins(known, workflow):
            attributes = {**attributes, semconv.GEN_AI_WORKFLOW_NAME: OTHER}
        key = tuple(attributes.items())
        for spare in (None, semconv.GEN_AI_WORKFLOW_NAME, *_DISPENSABLE):
            if spare in attributes:
                attributes = {**attributes, spare: OTHER}
                key = tuple(attributes.items())
            if key in known.series:
                return attributes
            if len(known.series) < self._limit:
                break
        # If nothing more can be dropped, only a few statuses are left.
        known.series.add(key)
        known.sizes[attributes.get(semconv.GEN_AI_WORKFLOW_NAME, "")] += 1
        return attributes

    def _begins(self, known: _InstrumentSeries, workflow: AttributeValue) -> bool:
        if workflow in known.sizes or workflow == OTHER:
            return True
        # A new one is expected to get as many series as the largest so far.
        expected = max(known.sizes.values(), default=1)
        if workflow in known.turned_away or len(known.series) + expected > self._most:
            known.turned_away.add(workflow)
            return False
        return True


_bounds: ByIdentity[SeriesBound] = ByIdentity()
