"""Build a request, look up its reference, redact it, and compute its free scores.

All on the scoring thread. `Preparation` builds a run from an adapter's record, adds the reference, and
applies the user's redaction hook before anything else sees the texts. `MetricSet` has the meter's metrics in
order and runs the free ones.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from ragmeter._runtime.guard import Guard
from ragmeter._runtime.stats import Capture, Counters
from ragmeter.exporters.protocol import RagRun, Suspects
from ragmeter.metrics import ComputedMetric, ConfigurationError, Metric, RagSample, Reference, Score
from ragmeter.metrics.protocol import compute_metric, lacks_input, reads_reference, scores_without_value
from ragmeter.quality.positions import POSITIONED, position_name
from ragmeter.requests.by_hand import RunBuilder
from ragmeter.requests.lone_retrieval import LoneRetrieval
from ragmeter.requests.references import ReferenceSource

from ._redaction import Redact, redacted_reference, redacted_run, redacted_scores, without_texts
from .sampling import Candidate

WORK_S = 0.0002
"""Seconds of scoring between two rests for other threads."""


class Offer(NamedTuple):
    """An offered request: its builder and its identity for sampling."""

    build: RunBuilder
    candidate: Candidate
    capture: Capture
    leave: Iterator[bool]
    """Yields one True: a request is dropped once, even if an interrupt repeats its drop."""
    alone: LoneRetrieval | None = None
    """The retrieval that the application called directly: a later call may belong to the same request."""
    size_bytes: int = 0
    """Bytes that it occupies while it waits."""


class UnseenRetrieval(NamedTuple):
    """A request whose retrieval was not seen."""

    framework: str
    reason: str
    look: Callable[[], Suspects]
    """Returns possible retrievers."""


class Preparation:
    """Builds requests, complete and redacted. For one thread.

    Args:
        references: Returns the reference of a question; None: no references.
        redact: The user's hook; None: no redaction.
    """

    def __init__(
        self,
        references: ReferenceSource | None,
        redact: Redact | None,
        counters: Counters,
        guard_for: Callable[[str], Guard],
    ) -> None:
        self._references = references
        self._redact = redact
        self._counters = counters
        self._reference_guard = guard_for("meter.reference")
        self._build_guard = guard_for("meter.build")
        self._redact_guard = guard_for("meter.redact")

    def build(self, offered: Offer) -> RagRun | None:
        """Return the run, complete and redacted; or None, counted, if there is no request."""
        run: RagRun | None = None
        done = False
        try:
            with self._build_guard:
                run = offered.build()
                if run is None:
                    self._counters.withdraw()
                else:
                    if self._references is not None:
                        run = self._with_reference(run, self._references)
                    if self._redact is not None:
                        run = redacted_run(run, self._redact)
                done = True
        finally:
            # Counted even if an exception ends this thread.
            if not done:
                self._counters.count_drop("error")
        return run if done else None

    def redact_reference(self, reference: Reference) -> Reference:
        """Redact a late reference."""
        if self._redact is None:
            return reference
        return redacted_reference(reference, self._redact)

    def redacted_scores(self, scores: Mapping[str, Score]) -> Mapping[str, Score]:
        """Return redacted scores; without any text if the hook fails. For any thread."""
        if self._redact is None:
            return scores
        with self._redact_guard:
            return redacted_scores(scores, self._redact)
        return without_texts(scores)

    def _with_reference(self, run: RagRun, references: ReferenceSource) -> RagRun:
        sample = run.sample
        if sample.reference is not None or sample.question is None:
            return run
        reference: Reference | None = None
        with self._reference_guard:
            reference = references(sample.question)
        if reference is None:
            return run
        return replace(run, sample=sample.model_copy(update={"reference": reference}))


class MetricSet:
    """The meter's metrics in order, split into computed ones and awaited (judged) ones.

    Args:
        metrics: The metrics.
        max_text_chars: Metrics skip longer texts.
        sparing: Inputs (``reference``, ``stages``): if a request lacks one, the metrics that read it are
            omitted, instead of scoring ``missing_input``.

    Raises:
        ConfigurationError: Two metrics would write the same score name.
    """

    batch = 1
    """Samples to compute at a time: more bring no gain here."""

    def __init__(
        self, metrics: Iterable[Metric], max_text_chars: int | None = None, *, sparing: Sequence[str] = ()
    ) -> None:
        self.max_text_chars = max_text_chars
        self.sparing = tuple(sparing)
        self.all = tuple(metrics)
        self.computed = tuple(m for m in self.all if isinstance(m, ComputedMetric))
        self.awaited = tuple(m for m in self.all if not isinstance(m, ComputedMetric))
        self.computed_again = tuple(m for m in self.computed if reads_reference(m))
        """The computed metrics that a reference makes possible."""
        self.awaiting_reference = tuple(m for m in self.awaited if reads_reference(m))
        """The awaited metrics that a reference makes possible."""
        self._spared: dict[tuple[bool, ...], tuple[tuple[ComputedMetric, ...], tuple[Metric, ...]]] = {}
        owners: dict[str, str] = {}
        for metric in self.all:
            for name in metric.score_names:
                if name in owners:
                    raise ConfigurationError(
                        f"metrics {owners[name]!r} and {metric.name!r} both write the score "
                        f"{name!r}; rename one with .prefixed('my_')"
                    )
                owners[name] = metric.name
        awaited = [name for metric in self.awaited for name in metric.score_names]
        # A position is known for requests that have the score.
        placed = [position_name(name) for name in awaited if name in POSITIONED]
        self.awaited_names = frozenset([*awaited, *placed])
        self._names = tuple(owners)

    def compute(
        self, samples: Sequence[RagSample], rest: Callable[[], None] | None = None
    ) -> list[dict[str, Score]]:
        """Run every computed metric; never raises, always one score per name and sample.

        Args:
            samples: The samples to score.
            rest: Called between two metrics after every `WORK_S` seconds of work.
        """
        return [self._compute(self.computed_for(sample), sample, rest) for sample in samples]

    def computed_for(self, sample: RagSample) -> tuple[ComputedMetric, ...]:
        """Return the computed metrics of a request."""
        return self._for(sample)[0] if self.sparing else self.computed

    def awaited_for(self, sample: RagSample) -> tuple[Metric, ...]:
        """Return the awaited metrics of a request."""
        return self._for(sample)[1] if self.sparing else self.awaited

    def _for(self, sample: RagSample) -> tuple[tuple[ComputedMetric, ...], tuple[Metric, ...]]:
        lacking = tuple([getattr(sample, name) is None for name in self.sparing])
        found = self._spared.get(lacking)
        if found is None:
            found = self._spared[lacking] = (
                tuple(m for m in self.computed if not lacks_input(m, sample, self.sparing)),
                tuple(m for m in self.awaited if not lacks_input(m, sample, self.sparing)),
            )
        return found

    def compute_again(self, sample: RagSample) -> dict[str, Score]:
        """Run the computed metrics that a reference makes possible."""
        return self._compute(self.computed_again, sample)

    def _compute(
        self, metrics: Iterable[ComputedMetric], sample: RagSample, rest: Callable[[], None] | None = None
    ) -> dict[str, Score]:
        scores: dict[str, Score] = {}
        began = time.perf_counter()
        for metric in metrics:
            if rest is not None and time.perf_counter() - began > WORK_S:
                rest()
                began = time.perf_counter()
            for score in compute_metric(metric, sample, self.max_text_chars):
                scores[score.name] = score
        return scores

    @staticmethod
    def skipped_scores(metrics: Iterable[Metric], reason: str) -> tuple[Score, ...]:
        """Return a ``skipped`` score for every name of these metrics."""
        return tuple(
            score
            for metric in metrics
            for score in scores_without_value(metric, "skipped", f"not judged: {reason}")
        )

    def in_order(self, scores: Mapping[str, Score]) -> dict[str, Score]:
        """Return `scores` in the order of the metrics; scores of no metric are last."""
        ordered = {name: scores[name] for name in self._names if name in scores}
        return ordered if len(ordered) == len(scores) else {**ordered, **scores}
