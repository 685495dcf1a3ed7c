"""What every destination says about where a score comes from, in the same words."""

from __future__ import annotations

from typing import Any

from ragmeter.metrics import RagSample, Score

from . import semconv
from .run import ScoredRun

__all__ = ["annotator_kind", "identifier", "missing_inputs", "score_metadata"]


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
    """Return definition, method, range, direction, status, bounds; no text of the request is in it."""
    metadata: dict[str, Any] = {
        "definition": score.definition,
        "method": score.method,
        "range": list(score.range),
        "direction": score.direction,
        "status": score.status,
    }
    if score.lower is not None:
        metadata["lower"] = score.lower
    if score.upper is not None:
        metadata["upper"] = score.upper
    return metadata


def missing_inputs(scored: ScoredRun) -> tuple[str, ...]:
    """Return the inputs that scores of a request lacked, each once, sorted.

    ``reference`` where there is none at all, ``reference.contexts`` where it lacks only those.
    """
    lacking = {s.missing for s in scored.scores.values() if s.status == "missing_input"}
    if not lacking:
        return ()
    return tuple(sorted({_input(field, scored.sample) for field in lacking}))


def _input(field: str | None, sample: RagSample) -> str:
    if field is None:
        return "unknown"
    # A metric that takes either of two inputs ("a|b") lacks the first that it would have read.
    field = field.split("|")[0]
    whole = field.split(".")[0]
    return whole if getattr(sample, whole, None) is None else field
