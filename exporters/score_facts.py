"""What every destination says about where a score comes from, in the same words."""

from __future__ import annotations

from typing import Any

from ragmeter.metrics import Score

from . import semconv

__all__ = ["annotator_kind", "identifier", "score_metadata"]


def annotator_kind(score: Score) -> str:
    """Return who judged, in OpenInference's words: ``LLM`` or ``CODE``."""
    return str(semconv.ANNOTATOR_LLM if score.method == "llm" else semconv.ANNOTATOR_CODE)


def identifier(score: Score) -> str:
    """Return what tells this score from another one of the same name on the same span.

    It changes with the definition, so that a score by a new formula stands beside the
    old one and the same score sent twice stands there once.
    """
    return f"{semconv.OWN}:{score.definition}"


def score_metadata(score: Score) -> dict[str, Any]:
    """Return definition, method, range, status and bounds; no text of the request is in it."""
    metadata: dict[str, Any] = {
        "definition": score.definition,
        "method": score.method,
        "range": list(score.range),
        "status": score.status,
    }
    if score.lower is not None:
        metadata["lower"] = score.lower
    if score.upper is not None:
        metadata["upper"] = score.upper
    return metadata
