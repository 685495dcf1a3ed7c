"""Which span a score belongs to, and where sinks look it up.

Scores describe either the retrieval or the answer.  Retrieval scores belong to the
retrieval span when the request has exactly one, and to the request's own span when
it has several or none, as they describe all contexts together.  Answer scores always
belong to the request's span.  `SpanDirectory` remembers the spans of recent requests,
so that late scores and REST sinks find them; it is bounded and must never block longer
than it is told to.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import Protocol

from opentelemetry.trace import SpanContext

from ragmeter.metrics import ScoreTarget

from .run import RagRun

__all__ = ["JudgedSpans", "KnowsSpans", "SpanDirectory", "recorded_spans"]

MAX_REMEMBERED = 10_000


@dataclass(frozen=True, slots=True)
class JudgedSpans:
    """The spans that a request's scores are about."""

    request: SpanContext | None
    """The request's own span (workflow, query), or the application's span around it."""
    retrieval: SpanContext | None = None
    """The request's only retrieval span; None when it has none, several, or nobody recorded it."""

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
        self._max_runs = max_runs
        self._runs: OrderedDict[str, JudgedSpans] = OrderedDict()
        self._changed = threading.Condition()

    def __len__(self) -> int:
        return len(self._runs)

    def remember(self, run_id: str, spans: JudgedSpans) -> None:
        """Note the spans of a request."""
        with self._changed:
            self._runs[run_id] = spans
            self._runs.move_to_end(run_id)
            while len(self._runs) > self._max_runs:
                self._runs.popitem(last=False)
            self._changed.notify_all()

    def find(self, run_id: str, timeout_s: float = 0.0) -> JudgedSpans | None:
        """Return the spans of a request, waiting at most `timeout_s` seconds for them."""
        with self._changed:
            if timeout_s > 0:
                self._changed.wait_for(lambda: run_id in self._runs, timeout_s)
            return self._runs.get(run_id)

    def reset_after_fork(self) -> None:
        """Replace the lock, which a thread of the parent may have held."""
        self._changed = threading.Condition()
