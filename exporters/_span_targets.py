"""Which span a score belongs to, and where sinks that attach scores by span id look it up.

Retrieval scores belong to the retrieval span when the request has exactly one, and to the request's
own span when it has several or none, as they describe all contexts together. Answer scores always
belong to the request's span. `SpanDirectory` remembers the spans of recent requests; it is bounded
and never blocks longer than its time limit.

A sink sees a run at about the same time as the exporter that writes its spans, on
another thread, so it asks that exporter and waits a little.  Spans that others recorded
are known from the run itself.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from opentelemetry.trace import SpanContext

from ragmeter.metrics import ConfigurationError, Score, ScoreTarget
from ragmeter.metrics import _fork as fork
from ragmeter.metrics._tables import BoundedTable

from ._format import outgoing
from ._http import DeliveryError
from .protocol import MayLackDestination, RagRun, ScoredRun

__all__ = [
    "JudgedSpans",
    "KnowsSpans",
    "PlacedScore",
    "Placement",
    "SpanDirectory",
    "recorded_spans",
]


PATIENCE_S = 5.0
"""Seconds to wait for the spans of a run, as long as that has been worth it."""
LITTLE_PATIENCE_S = 0.05
"""Seconds to wait once it was not, so that a wrong wiring does not fill the queue."""


@dataclass(frozen=True, slots=True)
class PlacedScore:
    """A score that says something, and the span it belongs to."""

    score: Score
    """Has a value or a label."""
    span: SpanContext
    """A sampled span: one that reaches the backend."""
    explanation: str | None
    """What may be sent of the explanation: None without an opt-in."""


class Placement:
    """Which score goes where.

    Args:
        sink: The sink's name in messages.
        spans: Who writes the spans; None: only spans recorded by others are known.
        scores: Names of the scores to send; None: all that have an upper bound, i.e. no mere counts.
        include_explanations: Whether explanations, which quote contexts, may leave.

    Raises:
        ConfigurationError: `scores` is a string.
    """

    def __init__(
        self,
        sink: str,
        spans: KnowsSpans | None,
        *,
        scores: Iterable[str] | None,
        include_explanations: bool,
    ) -> None:
        if isinstance(scores, str):
            raise ConfigurationError(f"scores={scores!r}: pass a list of names, e.g. [{scores!r}]")
        self._chosen = None if scores is None else frozenset(scores)
        self._sink = sink
        self._spans = spans
        self._include_explanations = include_explanations
        self._patience_s = PATIENCE_S

    def delivers(self) -> bool:
        """Return whether the spans that scores are to be attached to are written at all."""
        return not isinstance(self._spans, MayLackDestination) or self._spans.delivers()

    def place(
        self, batch: Sequence[ScoredRun]
    ) -> tuple[list[list[PlacedScore]], DeliveryError | None]:
        """Return the scores with a span, run by run, and the error to raise for runs without one."""
        placed: list[list[PlacedScore]] = []
        unknown = 0
        for scored in batch:
            spans = self._find(scored.run)
            if spans.request is None and spans.retrieval is None:
                unknown += 1
            else:
                placed.append(list(self._of(scored, spans)))
        if not unknown:
            return placed, None
        fix = (
            "pass spans=, the OpenTelemetryExporter that writes them"
            if self._spans is None
            else "the exporter given as spans= has not written them; is it one of the meter's?"
        )
        return placed, DeliveryError(f"{self._sink}: {unknown} requests have no known span; {fix}")

    def _find(self, run: RagRun) -> JudgedSpans:
        if self._spans is None:
            return recorded_spans(run)
        found = self._spans.judged_spans(run, self._patience_s)
        self._patience_s = LITTLE_PATIENCE_S if found is None else PATIENCE_S
        return found or recorded_spans(run)

    def _of(self, scored: ScoredRun, spans: JudgedSpans) -> Iterator[PlacedScore]:
        for score in scored.scores.values():
            span = spans.carrier(score.target)
            # An unsampled span never reaches the backend: its scores would wait there forever.
            if span is None or not span.trace_flags.sampled:
                continue
            if self._is_sent(score) and (score.value is not None or score.label is not None):
                yield PlacedScore(score, span, self._explanation(score))

    def _is_sent(self, score: Score) -> bool:
        if self._chosen is not None:
            return score.name in self._chosen
        # "3 contexts" is no judgement: a backend that averages and ranks scores has no use for it.
        return score.range[1] is not None

    def _explanation(self, score: Score) -> str | None:
        if not self._include_explanations or not score.explanation:
            return None
        return outgoing(score.explanation)


MAX_REMEMBERED = 10_000


@dataclass(frozen=True, slots=True)
class JudgedSpans:
    """The spans that a request's scores are about."""

    request: SpanContext | None
    """The request's own span (workflow, query), or the application's span around it."""
    retrieval: SpanContext | None = None
    """The request's only retrieval span; None when it has none, several, or none was recorded."""

    def carrier(self, target: ScoreTarget) -> SpanContext | None:
        """Return the span that scores about `target` belong to, or None when there is none."""
        if target == "retrieval" and self.retrieval is not None:
            return self.retrieval
        return self.request or self.retrieval


class KnowsSpans(Protocol):
    """Where a sink asks for the spans of a request; `OpenTelemetryExporter` is one."""

    def judged_spans(self, run: RagRun, timeout_s: float = 0.0) -> JudgedSpans | None:
        """Return the spans of `run`, waiting at most `timeout_s` seconds; None: unknown."""
        ...


def recorded_spans(run: RagRun) -> JudgedSpans:
    """Return the spans that other instrumentations recorded for `run`, as far as known."""
    retrieval = run.retrievals[0].target if len(run.retrievals) == 1 else None
    return JudgedSpans(request=_valid(run.target), retrieval=_valid(retrieval))


def _valid(span: SpanContext | None) -> SpanContext | None:
    return span if span is not None and span.is_valid else None


class SpanDirectory:
    """The spans of the most recent requests, by run id. Thread-safe and bounded.

    Args:
        max_runs: At most so many requests are remembered; the oldest is forgotten first.
    """

    def __init__(self, max_runs: int = MAX_REMEMBERED) -> None:
        self._runs: BoundedTable[str, JudgedSpans] = BoundedTable(max_entries=max_runs)
        self._changed = threading.Condition(fork.lock())

    def __len__(self) -> int:
        return len(self._runs)

    def remember(self, run_id: str, spans: JudgedSpans) -> None:
        """Note the spans of a request."""
        with self._changed:
            self._runs.put(run_id, spans)
            self._changed.notify_all()

    def find(self, run_id: str, timeout_s: float = 0.0) -> JudgedSpans | None:
        """Return the spans of a request, waiting at most `timeout_s` seconds for them."""
        with self._changed:
            if timeout_s > 0:
                self._changed.wait_for(lambda: run_id in self._runs, timeout_s)
            return self._runs.peek(run_id)
