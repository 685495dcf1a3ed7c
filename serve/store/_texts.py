"""Remove texts from telemetry before it is stored.

Names, ids, numbers and ragmeter's own words remain. The application's metadata remains, too: it exists to
distinguish requests, and the application chose it for that.
"""

from __future__ import annotations

from dataclasses import replace

from ._parts import RequestPart, ScorePart
from ._received import Batch


def without_texts(batch: Batch) -> Batch:
    """Return a batch without questions, answers, chunks, and explanations that may quote them."""
    return batch._replace(
        requests=tuple(map(_request, batch.requests)),
        retrieved=tuple(
            found._replace(chunks=tuple(chunk._replace(text=None) for chunk in found.chunks))
            for found in batch.retrieved
        ),
    )


def _request(part: RequestPart) -> RequestPart:
    return replace(
        part, question=None, answer=None, scores={name: _score(score) for name, score in part.scores.items()}
    )


def _score(part: ScorePart) -> ScorePart:
    details = part.details
    if details is None or details.explanation == details.summary:
        return part
    return ScorePart(reported=part.reported, details=details._replace(explanation=None))
