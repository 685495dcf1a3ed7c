"""One request: its scores beside what is usual, and its texts with their marks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from markupsafe import Markup

from ragmeter.metrics import ScoreDirection
from ragmeter.serve.store import ContextView, RequestRow, RequestView, ScoreView

from ._drawings import Scale, standing
from ._evidence import Chunk, Evidence, evidence
from ._numbers import money, number
from ._overview import direction

__all__ = [
    "ChunkView",
    "RequestScore",
    "chunk_views",
    "marks",
    "row_scales",
    "score_lines",
    "trace_links",
]

MOST_ITEMS = 24
"""Pieces of evidence listed for one score."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestScore:
    """A score of a request, ready to be shown."""

    name: str
    direction: ScoreDirection
    text: str
    """The value; empty: `status` says why there is none."""
    status: str
    label: str | None
    bounds: tuple[str, str] | None
    """Of a ``partial`` one."""
    usual: tuple[str, str] | None
    drawing: Markup | None
    standing: str
    """``bad``, ``good`` or ``flat``, against what is usual here."""
    method: str
    definition: str
    said: str
    """What it saw."""
    error: str
    items: tuple[tuple[str, str, str], ...]
    """(id, sign, value) of its pieces of evidence."""
    items_left_out: int
    calls: int
    tokens: int
    cost: str
    """What the judge cost for it; empty: not known."""
    judge: str
    """Who judged; empty: nobody, or it is not told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkView:
    """A chunk, as retrieved and as marked."""

    stored: ContextView
    marked: Chunk | None
    """Its sentences; None: no text was captured."""
    judged: bool | None
    """Whether a judge called it relevant; None: none said."""


def score_lines(view: RequestView) -> list[RequestScore]:
    """Return the scores: those worse than usual first, then those with a value, then the rest."""
    lines = [_line(one) for one in view.scores]
    rank = {"bad": 0, "good": 1, "flat": 1}
    return sorted(
        lines, key=lambda one: (not one.text, rank[one.standing], one.direction == "none", one.name)
    )


def _line(score: ScoreView) -> RequestScore:
    scale = _scale(score.value, score.lower, score.upper, score)
    return RequestScore(
        name=score.name,
        direction=direction(score.direction),
        text="" if score.value is None else number(score.value),
        status=score.status,
        label=score.label,
        bounds=None
        if score.lower is None or score.upper is None
        else (number(score.lower), number(score.upper)),
        usual=None if score.usual is None else (number(score.usual[0]), number(score.usual[1])),
        drawing=None if scale is None else scale.svg(),
        standing="flat" if scale is None else standing(scale),
        method=score.method or "",
        definition=score.definition or "",
        said=score.explanation or score.summary or "",
        error=score.error_type or "",
        items=tuple(
            (
                item.id,
                "" if item.verdict is None else "✓" if item.verdict else "✕",
                "" if item.value is None else number(item.value),
            )
            for item in score.items[:MOST_ITEMS]
        ),
        items_left_out=score.items_left_out + max(0, len(score.items) - MOST_ITEMS),
        calls=score.judge_calls,
        tokens=score.input_tokens + score.output_tokens,
        cost="" if score.cost is None else money(score.cost),
        judge=" · ".join(part for part in (score.judge, score.endpoint) if part),
    )


def _scale(
    value: float | None, lower: float | None, upper: float | None, score: ScoreView
) -> Scale | None:
    """Return the scale of a value; None: there is none, or its range has no ends to draw."""
    low, high = score.range
    if value is None or low is None or high is None or high <= low:
        return None
    return Scale(value, lower, upper, score.usual, direction(score.direction), low, high)


def marks(view: RequestView) -> Evidence | None:
    """Return the marks in a request's texts; None: no text was captured."""
    texts = [context.text for context in view.contexts if context.text is not None]
    if view.answer is None and not texts:
        return None
    # Chunks without a text keep their place: marks name chunks by rank.
    return evidence(
        view.row.question, view.answer, [context.text or "" for context in view.contexts]
    )


def chunk_views(view: RequestView, marked: Evidence | None) -> list[ChunkView]:
    """Return the chunks with their marks and what a judge said of them."""
    judged = _judged_chunks(view.scores)
    return [
        ChunkView(
            stored=stored,
            marked=None
            if marked is None or stored.text is None or at >= len(marked.chunks)
            else marked.chunks[at],
            judged=judged.get(f"chunk-{stored.number}"),
        )
        for at, stored in enumerate(view.contexts)
    ]


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


def row_scales(row: RequestRow, names: Sequence[str]) -> list[tuple[str, str, str]]:
    """Return (name, value, status) of a list's columns; both empty where the request has no such score."""
    cells: list[tuple[str, str, str]] = []
    for name in names:
        score = row.scores.get(name)
        if score is None:
            cells.append((name, "", ""))
        else:
            cells.append((name, "" if score.value is None else number(score.value), score.status))
    return cells


def trace_links(templates: Sequence[str], row: RequestRow) -> list[tuple[str, str]]:
    """Return (host, address) of where the trace can be looked at elsewhere."""
    if row.trace_id is None:
        return []
    return [
        (
            urlsplit(template).netloc,
            template.replace("{trace_id}", row.trace_id).replace("{span_id}", row.span_id or ""),
        )
        for template in templates
    ]
