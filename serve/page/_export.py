"""Export of a view's requests, one JSON object per line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ragmeter.metrics._files.json_lines import as_line
from ragmeter.serve.store import Reader
from ragmeter.serve.store.views import Filters, RequestView, ScoreView

MOST_EXPORTED = 10_000
"""Most requests in one file."""
_PAGE = 200


def lines(reader: Reader, filters: Filters, sort: str) -> Iterator[bytes]:
    """Yield the requests in order, with the field names of the JSONL exporter.

    They include texts if the store has them.
    """
    cursor: str | None = None
    left = MOST_EXPORTED
    while left > 0:
        page = reader.requests(filters, sort=sort, limit=min(_PAGE, left), cursor=cursor)
        for row in page.requests:
            view = reader.as_stored(row.trace_id or row.run_id, row.span_id)
            if view is not None:
                yield as_line(_record(view), compact=True)
        left -= len(page.requests)
        cursor = page.next
        if cursor is None or not page.requests:
            return


def _record(view: RequestView) -> dict[str, Any]:
    row = view.row
    started_ns = row.at_ms * 1_000_000
    return {
        "run_id": row.run_id,
        "name": row.workflow or None,
        "service": row.service or None,
        "framework": row.framework,
        "status": row.status,
        "started_ns": started_ns,
        "ended_ns": None if row.duration_ms is None else started_ns + int(row.duration_ms * 1e6),
        "trace_id": row.trace_id,
        "span_id": row.span_id,
        "conversation_id": view.conversation_id,
        "user_id": view.user_id,
        "metadata": dict(view.metadata),
        "segments": dict(row.segments),
        "sample_rate": view.sample_rate,
        "judge_sample_rate": view.judge_sample_rate,
        "selection": view.selection,
        "verdict": None
        if row.verdict is None
        else {"word": row.verdict, "codes": list(row.verdict_codes), "reasons": list(view.verdict_reasons)},
        "context_count": len(view.contexts),
        "scores": {score.name: _score(score) for score in view.scores},
        "question": row.question,
        "contexts": [{"text": one.text, "id": one.id, "score": one.score} for one in view.contexts],
        "answer": view.answer,
    }


_OF_SCORE = (
    "value", "status", "method", "definition", "target", "label", "explanation", "summary", "lower", "upper",
    "direction", "error_type", "judge_calls", "input_tokens", "output_tokens", "cache_hits",
)  # fmt: skip


def _score(score: ScoreView) -> dict[str, Any]:
    return {name: getattr(score, name) for name in _OF_SCORE} | {
        "range": list(score.range),
        "judge_cost": score.cost,
        "judge_model": score.judge,
        "items": [{"id": one.id, "verdict": one.verdict, "value": one.value} for one in score.items],
    }
