"""What a request is annotated with where people look at requests: chosen, ordered and folded.

- The verdict comes first: its word, and the reasons in words.
- A score says itself and, as its explanation, what it saw; without texts unless they may leave.
- What judges nothing is left out: counts, and scores of which neither way is better.
- What measures the retrieval's health is said when it is not as usual, and then as a word: a mean over the
  unusual ones alone would mislead.
- A verdict on a chunk goes to the document; several scores that say the same of all chunks say it once.

Pure functions of a `ScoredRun`; `_span_targets` finds the spans.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any, Literal

from ragmeter.metrics import Score, ScoreItem, ScoreTarget

from . import semconv
from ._evidence import chunk_items, score_metadata
from ._format import annotator_kind, clean, explanation, identifier, outgoing
from .protocol import ScoredRun

__all__ = [
    "HEALTH",
    "Annotation",
    "chunk_annotations",
    "chunk_verdicts",
    "is_shown",
    "request_annotations",
    "verdict_annotation",
]

HEALTH: Mapping[str, float] = {
    "empty_retrieval": 0.0,
    "duplicate_ratio": 0.0,
    "repeated_context_ratio": 0.25,
}
"""Measurements of the retrieval's health, and the value up to which each is as usual: overlapping chunks
repeat some of each other's words."""
ABNORMAL = "abnormal"
"""The label of a health measurement that is not as usual and has no word of its own."""
MAX_CHUNK_ANNOTATIONS = 200
"""The largest number of annotations of a request's documents."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Annotation:
    """One thing said about a request, its retrieval, or one of the chunks."""

    name: str
    """The score's name, or the verdict's."""
    target: ScoreTarget | Literal["request"]
    """What it is about."""
    kind: str
    """Who judged: ``LLM``, ``CODE`` or ``HUMAN``."""
    value: float | None = None
    """The number, if any."""
    label: str | None = None
    """The word, if any; one of both is there."""
    explanation: str | None = None
    """One sentence for people, as it may leave."""
    identifier: str = ""
    """Distinguishes it from others of the same name on the same span."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """More about it, in JSON's types, without texts of the request."""
    chunk: int | None = None
    """The place of the chunk it is about, from 0 in the order of the sample; None: not about one."""


def is_shown(score: Score, chosen: AbstractSet[str] | None = None) -> bool:
    """Return whether people are shown a score by itself.

    Args:
        score: The score.
        chosen: The names that the user asked for; None: those that judge something, see above.
    """
    if score.value is None and score.label is None:
        return False
    if chosen is not None:
        return score.name in chosen
    if score.name in HEALTH:
        return score.value is not None and score.value > HEALTH[score.name]
    # "3 contexts" is no judgement: a backend that averages and ranks scores has no use for it.
    return score.range[1] is not None and score.direction != "none"


def request_annotations(
    scored: ScoredRun, chosen: AbstractSet[str] | None = None, *, texts: bool = False
) -> Iterator[Annotation]:
    """Yield what is said about the request and its retrieval, the verdict first.

    Args:
        scored: The request and its scores.
        chosen: As for `is_shown`; the verdict is one of the names.
        texts: Whether explanations, which quote texts, may leave.
    """
    verdict = verdict_annotation(scored)
    if verdict is not None and (chosen is None or verdict.name in chosen):
        yield verdict
    for score in scored.scores.values():
        if is_shown(score, chosen):
            word = score.label or ABNORMAL if chosen is None and score.name in HEALTH else None
            yield Annotation(
                name=score.name,
                target=score.target,
                kind=annotator_kind(score),
                value=score.value if word is None else None,
                label=word or score.label,
                explanation=explanation(score, texts=texts),
                identifier=identifier(score),
                metadata=score_metadata(score),
            )


def verdict_annotation(scored: ScoredRun) -> Annotation | None:
    """Return the verdict as it is said: its word, and the reasons in words; None without one."""
    verdict = scored.verdict
    if verdict is None:
        return None
    return Annotation(
        name=str(semconv.VERDICT),
        target="request",
        kind=str(semconv.ANNOTATOR_CODE),
        label=verdict.word,
        explanation=clean(verdict.explanation) or None,
        identifier=f"{semconv.OWN}:verdict",
        metadata={"codes": list(verdict.codes)},
    )


def chunk_annotations(
    scored: ScoredRun, chosen: AbstractSet[str] | None = None, *, texts: bool = False
) -> Iterator[Annotation]:
    """Yield what scores say about single chunks; arguments as for `request_annotations`."""
    for score, items in chunk_verdicts(scored, chosen):
        for place, item in items.items():
            verdict = None if item.verdict is None else float(item.verdict)
            reason = (item.reason or item.evidence) if texts else None
            yield Annotation(
                name=score.name,
                target="retrieval",
                kind=annotator_kind(score),
                value=verdict if item.value is None else item.value,
                label=None if item.verdict is None else "yes" if item.verdict else "no",
                explanation=outgoing(reason) if reason else None,
                metadata={"definition": score.definition, "method": score.method},
                chunk=place,
            )


def chunk_verdicts(
    scored: ScoredRun, chosen: AbstractSet[str] | None = None
) -> Iterator[tuple[Score, Mapping[int, ScoreItem]]]:
    """Yield the scores that say something of chunks, and what, by the chunk's place from 0.

    Of several that say the same of all chunks the first; `chosen` as for `is_shown`.
    """
    said: set[tuple[tuple[int, bool | None, float | None], ...]] = set()
    room = MAX_CHUNK_ANNOTATIONS
    for score in scored.scores.values():
        # Which chunks the answer used is worth knowing although using more of them is neither better nor worse.
        wanted = score.name not in HEALTH if chosen is None else score.name in chosen
        items = chunk_items(score) if score.items and wanted and score.value is not None else None
        if not items or len(items) > room:
            continue
        same = tuple([(place, item.verdict, item.value) for place, item in items.items()])
        if same not in said:
            said.add(same)
            room -= len(items)
            yield score, items
