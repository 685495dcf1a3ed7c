"""The form in which things leave the process: texts, values, and the facts about a score.

Content (questions, contexts, answers, explanations) passes `outgoing`, once its caller has
checked that it may leave at all.  Names, ids, tags and summaries pass `clean` only.  One lone
surrogate would make the application's whole OTLP batch unencodable, so nothing skips both.
"""

from __future__ import annotations

from functools import lru_cache

from ragmeter.metrics import RagSample, Score

from . import semconv
from .protocol import ScoredRun

__all__ = [
    "annotator_kind",
    "clean",
    "clean_name",
    "explanation",
    "identifier",
    "missing_inputs",
    "outgoing",
]


MAX_TEXT_CHARS = 16_384
"""Longest text on a span or event, in characters; the rest is cut."""
MAX_NAME_CHARS = 1_024
"""Longest name, id, tag, summary or metadata value, likewise."""


def clean(text: str, limit: int = MAX_NAME_CHARS) -> str:
    """Return `text` cut to `limit` characters and without what UTF-8 cannot encode."""
    if len(text) > limit:
        text = text[: limit - 1] + "…"
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


clean_name = lru_cache(maxsize=1024)(clean)
"""The same for what metrics call themselves and their values: few and short, so each is cleaned once."""


def outgoing(text: str) -> str:
    """Return a text, which the meter has redacted long before, cut and encodable."""
    return clean(text, MAX_TEXT_CHARS)


def annotator_kind(score: Score) -> str:
    """Return who judged, in OpenInference's words: ``LLM``, ``HUMAN`` or ``CODE``."""
    if score.method == "llm":
        return str(semconv.ANNOTATOR_LLM)
    return str(semconv.ANNOTATOR_HUMAN if score.method == "human" else semconv.ANNOTATOR_CODE)


def identifier(score: Score) -> str:
    """Return what distinguishes this score from others of the same name on the same span.

    It changes with the definition, so that a score by a new formula stands beside the
    old one and the same score sent twice stands there once.
    """
    return f"{semconv.OWN}:{score.definition}"


def explanation(score: Score, *, texts: bool) -> str | None:
    """Return what a score says for itself: its explanation where texts may leave, else its summary."""
    if texts and score.explanation:
        return clean(score.explanation, MAX_TEXT_CHARS)
    return clean(score.summary) if score.summary else None


def missing_inputs(scored: ScoredRun) -> tuple[str, ...]:
    """Return the inputs that scores of a request lacked, each once, sorted.

    ``reference`` where there is none at all, ``reference.contexts`` where it lacks only those.
    That a retriever does not tell its scores is not among them: no one could supply them.
    """
    lacking = {s.missing for s in scored.scores.values() if s.status == "missing_input"}
    lacking.discard("contexts.score")
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
