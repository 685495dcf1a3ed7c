"""`PhoenixAnnotations`: scores as span annotations in Arize Phoenix.

Phoenix shows and averages annotations only; score attributes on spans are just
attributes to it.  The annotations go through its REST API, after the fact, and find their
spans by id; Phoenix keeps those whose span has not arrived yet and attaches them later.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from . import semconv
from ._format import annotator_kind, identifier, score_metadata
from ._http import Delivered, Delivery
from ._span_targets import KnowsSpans, PlacedScore, Placement
from .protocol import ScoredRun

__all__ = ["PhoenixAnnotations"]

PER_REQUEST = 200
"""Annotations sent in one request, at most."""
_RESERVED = "note"


class PhoenixAnnotations:
    """Annotates the judged spans in Phoenix. Needs the extra ``sinks`` (httpx).

    Sending the same score twice leaves one annotation: Phoenix updates the one of the same span,
    name and identifier, and the identifier is the score's definition.  Scores without a value or
    label, and scores of spans that were not sampled, are not sent.

    Args:
        endpoint: Phoenix's address, e.g. ``http://127.0.0.1:6006``.
        api_key: Its API key, when authentication is on.
        spans: The `OpenTelemetryExporter` that writes the spans; None: only spans that other
            instrumentations recorded are annotated.
        scores: Names of the scores to send. None: all but mere counts, such as ``context_count``.
        trace_annotations: Annotate the trace as well, so that retrieval scores count in the
            averages of Phoenix's default view, which shows root spans and traces only.
        include_explanations: Whether to send explanations, which quote contexts.
        timeout_s: Seconds for one attempt.
        deadline_s: Seconds for all attempts of one request.

    Raises:
        ConfigurationError: `endpoint` is not an address, or `scores` is a string.
        MissingDependencyError: httpx is not installed.
    """

    def __init__(
        self,
        endpoint: str,
        api_key: str | None = None,
        *,
        spans: KnowsSpans | None = None,
        scores: Iterable[str] | None = None,
        trace_annotations: bool = False,
        include_explanations: bool = False,
        timeout_s: float = 10.0,
        deadline_s: float = 60.0,
    ) -> None:
        headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self._delivery = Delivery(
            "Phoenix", endpoint, headers, timeout_s=timeout_s, deadline_s=deadline_s
        )
        self._placement = Placement(
            "Phoenix",
            spans,
            scores=scores,
            include_explanations=include_explanations,
        )
        self._trace_annotations = trace_annotations

    def __repr__(self) -> str:
        return f"PhoenixAnnotations({self._delivery.shown_address!r})"

    def export(self, batch: Sequence[ScoredRun]) -> None:
        """Annotate the spans of `batch`.

        Raises:
            DeliveryError: What could not be sent; a `PartlyDeliveredError` when some runs were taken.
        """
        with Delivered(batch) as delivered:
            placed, unknown = self._placement.place(batch)
            together: list[PlacedScore] = []
            runs = 0
            for number, run in enumerate(placed, start=1):
                together += run
                runs += 1
                last = number == len(placed)
                if last or len(together) + len(placed[number]) > PER_REQUEST:
                    self._send(together)
                    for _ in range(runs):
                        delivered.add()
                    together, runs = [], 0
            if unknown is not None:
                raise unknown

    def _send(self, placed: Sequence[PlacedScore]) -> None:
        for start in range(0, len(placed), PER_REQUEST):
            some = placed[start : start + PER_REQUEST]
            self._delivery.post(
                "/v1/span_annotations",
                {"data": [{"span_id": f"{p.span.span_id:016x}", **_annotation(p)} for p in some]},
            )
            if self._trace_annotations:
                self._delivery.post(
                    "/v1/trace_annotations",
                    {
                        "data": [
                            {"trace_id": f"{p.span.trace_id:032x}", **_annotation(p)} for p in some
                        ]
                    },
                )

    def delivers(self) -> bool:
        """Return whether there are spans to attach scores to."""
        return self._placement.delivers()

    def flush(self, timeout_s: float) -> bool:
        """Nothing is buffered here: `export` returns when Phoenix has taken the annotations."""
        del timeout_s
        return True

    def shutdown(self, timeout_s: float) -> None:
        """Give up what is being retried and close the connections."""
        del timeout_s
        self._delivery.close()


def _annotation(placed: PlacedScore) -> dict[str, Any]:
    score = placed.score
    result = {
        "score": score.value,
        "label": score.label,
        "explanation": placed.explanation,
    }
    return {
        # Phoenix keeps this one name for people's notes.
        "name": f"{semconv.OWN}_{_RESERVED}" if score.name == _RESERVED else score.name,
        "annotator_kind": annotator_kind(score),
        "identifier": identifier(score),
        "result": {key: value for key, value in result.items() if value is not None},
        "metadata": score_metadata(score),
    }
