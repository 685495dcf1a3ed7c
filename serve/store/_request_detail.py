"""One request, with everything the store has about it."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ragmeter.exporters._format import clean
from ragmeter.quality.measurement import measurement_of

from ._appearances import deployments_in
from ._cells import WHOLE, Cell
from ._database import Database
from ._evidence import Evidence, evidence, unknown_sentences
from ._guidance import SameQuestion, advice, cause, is_refused
from ._lists import means_before, rows_of
from ._measured import MeasuredScore
from ._overview import Selection, usual_of
from ._received import CARRIED, home_of
from ._rows import SLOT_MS
from ._stages import documents_of, stages_of
from ._sums import Sums
from .views import ContextView, Filters, GapView, ItemView, RequestRow, RequestView, ScoreView

MAX_SIBLINGS = 50
_MOST_SAME = 5_000
"""Most requests with the same question to count, the newest."""
_WIDEST_USUAL = 0.6
"""Share of a score's range; a wider usual range says nothing."""


def one_request(
    database: Database, sums: Sums, key: str, span_id: str | None, gap_of: Callable[[str], GapView | None]
) -> RequestView | None:
    """Return a request by its trace id or its own id; see `Reader.request`."""
    found = as_stored(database, key, span_id)
    if found is None:
        return None
    row, answer, contexts = found.row, found.answer, found.contexts
    number, stages, question = database.execute(
        "SELECT id, stages, question FROM request WHERE run_id = ?", (row.run_id,)
    ).fetchone()
    slot = row.at_ms // SLOT_MS * SLOT_MS
    place = row.service, row.workflow
    means = {kind: mean for _, _, kind, mean in means_before(database, sums, slot, slot + SLOT_MS, place)}
    turned = database.execute(
        "SELECT kind, turned FROM score WHERE request = ? AND turned IS NOT NULL", (number,)
    )
    deployed = _last_deployment(database, row)
    usual = _usual(database, sums, row, deployed)
    values = {one.name: one.value for one in found.scores if one.status == "ok"}
    refused = is_refused(row.verdict_codes, values.get("judged_refusal", values.get("refusal")))
    nothing_found = all(one.carried for one in contexts) and values.get("empty_retrieval") == 1.0
    marked = _marked(row.question, answer, contexts, nothing_found, refused, _conflicting(found.scores))
    same = _same_question(database, row, question, deployed)
    steps, documents = stages_of(stages)
    gap = None if row.verdict in (None, "good") else gap_of(row.run_id)
    return replace(
        found,
        row=replace(row, excess=sum(max(0.0, means[kind] - of) for kind, of in turned if kind in means)),
        scores=tuple(replace(one, usual=_usual_of(one, usual)) for one in found.scores),
        cause=cause(row.verdict, row.verdict_codes, marked, refused=refused, nothing_found=nothing_found),
        advice=advice(row.verdict, row.verdict_codes, gap, same, refused=refused, nothing_found=nothing_found),
        same=same,
        evidence=marked,
        stages=steps,
        documents=documents_of(documents, marked),
    )


def as_stored(database: Database, key: str, span_id: str | None) -> RequestView | None:
    """Return a request as it was stored: compared with no other, and without marks and advice."""
    numbers = _numbers(database, key, span_id)
    if not numbers:
        return None
    number, *others = numbers
    (answer, reasons, metadata, conversation_id, user_id, missing, *chances) = database.execute(
        "SELECT a.body, r.reasons, r.metadata, r.conversation_id, r.user_id, r.missing, r.sample_rate, "
        "r.judge_sample_rate, r.selection, r.trace_id, r.span_id "
        "FROM request r LEFT JOIN text a ON a.id = r.answer WHERE r.id = ?",
        (number,),
    ).fetchone()
    sample_rate, judge_sample_rate, selection, trace, span = chances
    (row,) = rows_of(database, [number], {})
    return RequestView(
        row=row,
        answer=answer,
        verdict_reasons=tuple(json.loads(reasons or "[]")),
        contexts=_contexts(database, (trace, span)) or _contexts(database, home_of(row.run_id)),
        scores=tuple(_scores(database, number)),
        metadata=json.loads(metadata or "{}"),
        conversation_id=conversation_id,
        user_id=user_id,
        missing=tuple((missing or "").split(",")) if missing else (),
        sample_rate=1.0 if sample_rate is None else sample_rate,
        judge_sample_rate=1.0 if judge_sample_rate is None else judge_sample_rate,
        selection=selection or "sampled",
        siblings=tuple(rows_of(database, others, {})),
    )


def _last_deployment(database: Database, row: RequestRow) -> tuple[str, int] | None:
    """Return value and time of the service's last deployment before a request, or None if none is known."""
    found: tuple[str, int] | None = None
    for one in deployments_in(database):
        versions = [step.value for step in one.values if step.name != "tenant"]
        if one.service == row.service and one.at_ms <= row.at_ms and versions:
            found = versions[0], one.at_ms
    return found


def _marked(
    question: str | None,
    answer: str | None,
    contexts: Sequence[ContextView],
    nothing_found: bool,
    refused: bool,
    conflicting: Collection[int],
) -> Evidence | None:
    """Return the marks of a request's texts, or None if no text was captured."""
    if answer is None and all(one.text is None for one in contexts):
        return None
    if not nothing_found and all(one.text is None for one in contexts):
        # Chunks without texts are unknown, which does not mean that the answer rests on nothing.
        return Evidence(answer=unknown_sentences(answer or ""))
    # Chunks without a text keep their position, as marks refer to chunks by rank.
    texts = [one.text or "" for one in contexts]
    return evidence(question, answer, texts, declines=refused, conflicting=conflicting)


def _conflicting(scores: Iterable[ScoreView]) -> set[int]:
    """Return the numbers of the answer's sentences in which `fact_conflict` found a fact that no chunk has."""
    items = (item for one in scores if one.name == "fact_conflict" for item in one.items)
    return {int(found[1]) for item in items if (found := re.match(r"sentence-(\d{1,9})-fact", item.id))}


def _usual(
    database: Database, sums: Sums, row: RequestRow, deployed: tuple[str, int] | None
) -> Mapping[MeasuredScore, Cell]:
    """Return the sums of usual values: of the day before the last deployment, else before the request."""
    filters = Filters(service=row.service, workflow=row.workflow)
    before: dict[MeasuredScore, Cell] = {}
    if deployed is not None:
        before = Selection(sums.day_before(database, deployed[1], WHOLE), filters).scores()
    if not any(usual_of(cell) for cell in before.values()):
        until = row.at_ms // SLOT_MS * SLOT_MS + SLOT_MS
        before = Selection(sums.day_before(database, until, WHOLE), filters).scores()
    return before


def _same_question(
    database: Database, row: RequestRow, question: int | None, deployed: tuple[str, int] | None
) -> SameQuestion:
    found = [] if question is None else database.execute(
        "SELECT at, verdict FROM request WHERE question = ? AND coalesce(service, '') = ? "
        "ORDER BY at DESC LIMIT ?",
        (question, row.service, _MOST_SAME),
    ).fetchall()  # fmt: skip
    found = found or [(row.at_ms, row.verdict)]
    since = [] if deployed is None else [word for at, word in found if at >= deployed[1]]
    return SameQuestion(
        n=len(found),
        n_bad=sum(word == "bad" for _, word in found),
        deployment="" if deployed is None else deployed[0],
        deployed_ms=None if deployed is None else deployed[1],
        n_since=len(since),
        n_bad_since=since.count("bad"),
    )


def _numbers(database: Database, key: str, span_id: str | None) -> list[int]:
    """Return the ids of the requested request's row, and of the others of its trace."""
    found: list[tuple[int, bytes | None]] = []
    if re.fullmatch("[0-9a-fA-F]{32}", key):
        found = database.execute(
            "SELECT id, span_id FROM request WHERE trace_id = ? ORDER BY started_ns IS NULL, at, id LIMIT ?",
            (bytes.fromhex(key), MAX_SIBLINGS),
        ).fetchall()
    if not found:
        found = database.execute("SELECT id, span_id FROM request WHERE run_id = ?", (key,)).fetchall()
    if span_id is not None:
        wanted = span_id.lower()
        chosen = [each for each in found if each[1] is not None and each[1].hex() == wanted]
        if not chosen:
            return []
        found = [*chosen, *(each for each in found if each not in chosen)]
    return [number for number, _ in found]


def _contexts(database: Database, owner: tuple[bytes | None, ...]) -> tuple[ContextView, ...]:
    rows = database.execute(
        "SELECT c.document, c.score, t.body, c.span_id FROM chunk c LEFT JOIN text t ON t.id = c.text "
        "WHERE c.trace_id = ? AND c.owner = ? ORDER BY c.at, c.span_id, c.rank",
        owner,
    )
    return tuple(
        ContextView(number=place, id=document, score=score, text=text, carried=span == CARRIED)
        for place, (document, score, text, span) in enumerate(rows, start=1)
    )


_SCORE = {
    **{name: f"s.{name}" for name in ("name", "value", "label", "lower", "upper", "error_type", "cost")},
    "status": "coalesce(s.status, 'ok')",
    **{
        name: f"coalesce(s.{name}, 0)"
        for name in ("judge_calls", "input_tokens", "output_tokens", "cache_hits")
    },
    **{name: f"k.{name}" for name in ("direction", "method", "target", "definition")},
    **{name: f"nullif(k.{name}, '')" for name in ("judge", "endpoint")},
    **{name: f"e.{name}" for name in ("summary", "explanation")},
}
"""Fields of a `ScoreView` that are copied unchanged."""
_SCORES = (
    f"SELECT e.items, k.lowest, k.highest, {', '.join(_SCORE.values())} FROM score s "
    "LEFT JOIN kind k ON k.id = s.kind LEFT JOIN evidence e ON e.request = s.request AND e.name = s.name "
    "WHERE s.request = ? ORDER BY s.name"
)


def _scores(database: Database, number: int) -> Iterator[ScoreView]:
    for items, lowest, highest, *row in database.execute(_SCORES, (number,)):
        pieces, left_out = _items(items)
        known = dict(zip(_SCORE, row, strict=True))
        yield ScoreView(range=(lowest, highest), items=pieces, items_left_out=left_out, usual=None, **known)


def _usual_of(one: ScoreView, cells: Mapping[MeasuredScore, Cell]) -> tuple[float, float] | None:
    """Return the usual values of a score, unless they are so wide that they say nothing."""
    measured = MeasuredScore(one.name, measurement_of(one.name, one.definition or "", one.judge or ""))
    usual, (lowest, highest) = usual_of(cells.get(measured)), one.range
    if usual is None or lowest is None or highest is None:
        return usual
    return None if usual[1] - usual[0] > _WIDEST_USUAL * (highest - lowest) else usual


def _items(text: str | None) -> tuple[tuple[ItemView, ...], int]:
    """Return the items of a score, ignoring values in any other form."""
    try:
        said = json.loads(text or "{}")
        return (
            tuple(
                ItemView(
                    id=clean(str(one["id"])),
                    verdict=one.get("verdict") if isinstance(one.get("verdict"), bool) else None,
                    value=_finite(one["value"]) if "value" in one else None,
                    supported_by=tuple(clean(str(each)) for each in one.get("evidence", ())),
                )
                for one in said.get("items", ())
            ),
            max(0, int(said.get("left_out", 0))),
        )
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
        return (), 0


def _finite(said: Any) -> float | None:
    number = float(said)
    return number if math.isfinite(number) else None
