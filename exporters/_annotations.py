"""Select and order the annotations of a request for backends where people read requests.

- The verdict comes first: its word, and the reasons in words.
- A score has its explanation, or its summary if texts must not be exported.
- Scores that judge nothing are left out: counts, and scores without a better direction.
- Health measurements of the retrieval are included only if abnormal, and as a word: a mean over abnormal
  values alone would mislead.
- A verdict on a chunk goes to the document; scores with the same verdicts on all chunks are exported once.

Pure functions of a `ScoredRun`; `_span_targets` finds the spans.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any, Literal

from ragmeter.metrics import Score, ScoreItem, ScoreTarget

from . import semconv
from ._format import ANNOTATOR_KINDS, clean, explanation, identifier, outgoing, score_metadata
from .protocol import ScoredRun

HEALTH: Mapping[str, float] = {"empty_retrieval": 0.0, "duplicate_ratio": 0.0, "repeated_context_ratio": 0.25}
"""Health measurements of the retrieval, and the largest normal value of each: overlapping chunks repeat some
of each other's words."""
ABNORMAL = "abnormal"
"""The label of an abnormal health measurement without a label."""
_CHUNK = re.compile(r"chunk-([1-9]\d{0,8})")
MAX_CHUNK_ANNOTATIONS = 200
"""The largest number of annotations of a request's documents."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Annotation:
    """An annotation of a request, its retrieval, or one of the chunks."""

    name: str
    """The score's name, or the verdict's."""
    target: ScoreTarget | Literal["request"]
    """What it annotates."""
    kind: str
    """Who judged: ``LLM``, ``CODE`` or ``HUMAN``."""
    value: float | None = None
    """The number, if any."""
    label: str | None = None
    """The word, if any; one of both is there."""
    explanation: str | None = None
    """One sentence for people, safe to export."""
    identifier: str = ""
    """Distinguishes it from others of the same name on the same span."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """Details in JSON's types, without texts of the request."""
    chunk: int | None = None
    """Index of its chunk, from 0 in the order of the sample; None: not about a chunk."""


def shown_scores(
    scores: Iterable[Score], chosen: AbstractSet[str] | None = None, *, also: Collection[str] = ()
) -> list[Score]:
    """Return the scores to show to people.

    Args:
        scores: The scores.
        chosen: The names chosen by the user; None: scores that judge something, see above.
        also: Names to show in any case.
    """
    shown: list[Score] = []
    for score in scores:
        name, value = score.name, score.value
        if value is None and score.label is None:
            wanted = False
        elif chosen is not None:
            wanted = name in chosen
        elif name in HEALTH:
            wanted = value is not None and value > HEALTH[name]
        else:
            # "3 contexts" is not a judgement: useless to a backend that averages and ranks scores.
            wanted = score.range[1] is not None and score.direction != "none"
        if wanted or name in also:
            shown.append(score)
    return shown


def request_annotations(
    scored: ScoredRun, chosen: AbstractSet[str] | None = None, *, texts: bool = False
) -> Iterator[Annotation]:
    """Yield annotations of the request and its retrieval, the verdict first.

    Args:
        scored: The request and its scores.
        chosen: As for `shown_scores`; the verdict is one of the names.
        texts: Whether to export explanations, which quote texts.
    """
    verdict = scored.verdict
    if verdict is not None and (chosen is None or semconv.VERDICT in chosen):
        yield Annotation(
            name=str(semconv.VERDICT),
            target="request",
            kind=str(semconv.ANNOTATOR_CODE),
            label=verdict.word,
            explanation=clean(verdict.explanation) or None,
            identifier=f"{semconv.OWN}:verdict",
            metadata={"codes": list(verdict.codes)},
        )
    for score in shown_scores(scored.scores.values(), chosen):
        word = score.label or ABNORMAL if chosen is None and score.name in HEALTH else None
        yield Annotation(
            name=score.name,
            target=score.target,
            kind=ANNOTATOR_KINDS[score.method],
            value=score.value if word is None else None,
            label=word or score.label,
            explanation=explanation(score, texts=texts),
            identifier=identifier(score),
            metadata=score_metadata(score),
        )


def chunk_annotations(
    scored: ScoredRun, chosen: AbstractSet[str] | None = None, *, texts: bool = False
) -> Iterator[Annotation]:
    """Yield annotations of single chunks; arguments as for `request_annotations`."""
    for score, items in chunk_verdicts(scored, chosen):
        for place, item in items.items():
            verdict = None if item.verdict is None else float(item.verdict)
            reason = (item.reason or item.evidence) if texts else None
            yield Annotation(
                name=score.name,
                target="retrieval",
                kind=ANNOTATOR_KINDS[score.method],
                value=verdict if item.value is None else item.value,
                label=None if item.verdict is None else "yes" if item.verdict else "no",
                explanation=outgoing(reason) if reason else None,
                metadata={"definition": score.definition, "method": score.method},
                chunk=place,
            )


def chunk_verdicts(
    scored: ScoredRun, chosen: AbstractSet[str] | None = None
) -> list[tuple[Score, dict[int, ScoreItem]]]:
    """Return the scores with verdicts on whole chunks, and these by the chunk's index from 0.

    Of scores with the same verdicts on all chunks only the first; `chosen` as for `shown_scores`.
    """
    found: dict[tuple[Any, ...], tuple[Score, dict[int, ScoreItem]]] = {}
    room = MAX_CHUNK_ANNOTATIONS
    for score in scored.scores.values():
        # Which chunks the answer used is useful, although using more of them is neither better nor worse.
        wanted = score.name not in HEALTH if chosen is None else score.name in chosen
        if not (wanted and score.items and score.value is not None):
            continue
        items: dict[int, ScoreItem] = {}
        signature: list[object] = []
        for item in score.items:
            if item.verdict is None and item.value is None:
                continue
            if (chunk := _CHUNK.fullmatch(item.id)) is not None:
                items[int(chunk[1]) - 1] = item
                signature += (chunk[1], item.verdict, item.value)
        same = tuple(signature)
        if items and len(items) <= room and same not in found:
            room -= len(items)
            found[same] = score, items
    return list(found.values())
