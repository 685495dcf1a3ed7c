"""The page of one request: its scores beside the usual ones, its texts with marks."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple
from urllib.parse import urlsplit

from markupsafe import Markup, escape

from ragmeter.metrics import ScoreDirection
from ragmeter.serve.store import ChunkSentence
from ragmeter.serve.store.views import ContextView, RequestRow, RequestView, ScoreView

from ._drawings import Scale, standing
from ._numbers import count, number
from ._score_rows import direction
from ._words import Words

_LEADING = ("support", "lexical_groundedness", "faithfulness", "lexical_context_relevance", "context_count")
"""The score that represents each group, if none is worse than usual."""
MOST_ITEMS = 24
"""Most pieces of evidence to list for one score."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestScore:
    """A score of a request, ready for display."""

    stored: ScoreView
    group: str
    """As `ScoreGroup.name`."""
    direction: ScoreDirection
    text: str
    """The value as text; empty: its status has the reason."""
    bounds: tuple[str, str] | None
    """Bounds of a ``partial`` score."""
    usual: tuple[str, str] | None
    drawing: Markup | None
    standing: str
    """``bad``, ``good`` or ``flat``, compared with the usual range."""
    items: tuple[tuple[str, str, str], ...]
    """(id, sign, value) of each piece of evidence."""
    items_left_out: int


class ScoreGroup(NamedTuple):
    """Scores that are displayed together."""

    name: str
    """``support``, ``retrieval`` or ``rest``."""
    leading: RequestScore
    """The score that represents the group."""
    scores: tuple[RequestScore, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkView:
    """A retrieved chunk with its marks."""

    stored: ContextView
    words_found: int | None
    """Number of the question's words in it; None: not comparable."""
    sentences: tuple[tuple[ChunkSentence, Markup], ...]
    """Its sentences, each also with the question's words marked; empty: no text was captured."""
    judged: bool | None
    """Whether a judge called it relevant; None: not judged."""


def score_lines(view: RequestView) -> list[RequestScore]:
    """Return the scores: those worse than usual first, then other values, then scores without one."""
    lines = [_line(one) for one in view.scores]
    rank = {"bad": 0, "good": 1, "flat": 1}
    return sorted(
        lines, key=lambda one: (not one.text, rank[one.standing], one.direction == "none", one.stored.name)
    )


def _line(score: ScoreView) -> RequestScore:
    low, high = score.range
    scale = None
    if score.value is not None and low is not None and high is not None and high > low:
        way = direction(score.direction)
        scale = Scale(score.value, score.lower, score.upper, score.usual, way, low, high)

    def written(ends: tuple[float, float]) -> tuple[str, str]:
        return _written(ends[0], score), _written(ends[1], score)

    return RequestScore(
        stored=score,
        group=_group_of(score),
        direction=direction(score.direction),
        text="" if score.value is None else _written(score.value, score),
        bounds=None if score.lower is None or score.upper is None else written((score.lower, score.upper)),
        usual=None if score.usual is None else written(score.usual),
        drawing=None if scale is None else scale.svg(),
        standing="flat" if scale is None else standing(scale),
        items=tuple(
            (
                item.id,
                "" if item.verdict is None else "✓" if item.verdict else "✕",
                "" if item.value is None else number(item.value),
            )
            for item in score.items[:MOST_ITEMS]
        ),
        items_left_out=score.items_left_out + max(0, len(score.items) - MOST_ITEMS),
    )


def _group_of(score: ScoreView) -> str:
    if score.direction not in ("higher", "lower"):
        return "rest"
    return "support" if score.target == "answer" else "retrieval"


def _written(value: float, score: ScoreView) -> str:
    """Return a value of a score as text: a count, which has no upper end, without decimals."""
    is_count = score.range[1] is None and value == int(value)
    return count(value) if is_count else number(value)


def score_groups(lines: Sequence[RequestScore]) -> list[ScoreGroup]:
    """Return the scores in the page's groups, each with the score that its collapsed line shows."""
    groups: dict[str, list[RequestScore]] = {"support": [], "retrieval": [], "rest": []}
    for one in lines:
        groups[one.group].append(one)
    return [ScoreGroup(name, _leading(some), tuple(some)) for name, some in groups.items() if some]


def _leading(lines: Sequence[RequestScore]) -> RequestScore:
    """Return a score worse than usual, else one with a value; the first by `_LEADING`."""
    rank = {name: place for place, name in enumerate(_LEADING)}
    return min(
        lines, key=lambda one: (one.standing != "bad", not one.text, rank.get(one.stored.name, len(rank)))
    )


def why(view: RequestView, words: Words) -> str:
    """Return the sentence about the cause of a request's verdict."""
    cause = view.cause
    if cause.code == "verdict" and view.row.verdict_codes:
        return "; ".join(words.name("code", code) for code in view.row.verdict_codes)
    return words(
        f"why_{cause.code}",
        n=cause.chunks,
        words="–" if cause.words_found is None else str(cause.words_found),
        topics=cause.topic_words,
        missing=cause.missing,
        sentences=cause.sentences,
    )


def what_to_do(view: RequestView, words: Words) -> str:
    """Return the sentence with the advice about a request."""
    advice, same = view.advice, view.same
    of_gap = advice.code in ("write_document", "right_to_decline")
    return words(
        f"do_{advice.code}",
        k=advice.gap_bad if of_gap else same.n_bad_since,
        n=advice.gap_requests if of_gap else same.n_since,
        kb=same.n_bad - same.n_bad_since,
        nb=same.n - same.n_since,
        v=f"{view.row.service} {same.deployment}".strip(),
    )


def chunk_views(view: RequestView) -> list[ChunkView]:
    """Return the chunks with their marks and the judge's verdicts."""
    judged = _judged_chunks(view.scores)
    chunks = () if view.evidence is None else view.evidence.chunks
    marked = {
        one.number: one for one, stored in zip(chunks, view.contexts, strict=False) if stored.text is not None
    }
    return [
        ChunkView(
            stored=stored,
            words_found=None if marks is None else marks.words_found,
            sentences=tuple((one, _with_question_words(one)) for one in marks.sentences) if marks else (),
            judged=judged.get(f"chunk-{stored.number}"),
        )
        for stored in view.contexts
        for marks in (marked.get(stored.number),)
    ]


def _with_question_words(sentence: ChunkSentence) -> Markup:
    if not sentence.question_words:
        return escape(sentence.text)
    longest = sorted(sentence.question_words, key=len, reverse=True)
    pattern = re.compile("(" + "|".join(map(re.escape, longest)) + ")")
    parts = pattern.split(sentence.text)
    return Markup("").join(
        Markup("<b>{}</b>").format(part) if at % 2 else escape(part) for at, part in enumerate(parts)
    )


def _judged_chunks(scores: Sequence[ScoreView]) -> Mapping[str, bool]:
    for score in scores:
        found = {
            item.id: item.verdict
            for item in score.items
            if item.id.startswith("chunk-") and item.verdict is not None
        }
        if score.method == "llm" and score.target == "retrieval" and found:
            return found
    return {}


def trace_links(templates: Sequence[str], row: RequestRow) -> list[tuple[str, str]]:
    """Return (host, address) of each other viewer of the trace."""
    if row.trace_id is None:
        return []
    return [
        (
            urlsplit(template).netloc,
            template.replace("{trace_id}", row.trace_id).replace("{span_id}", row.span_id or ""),
        )
        for template in templates
    ]
