"""Convert a request that this server scored into the store's form."""

from __future__ import annotations

import time
from collections.abc import Callable

from ragmeter.exporters._format import clean, items_attribute, missing_inputs, outgoing
from ragmeter.exporters.protocol import ScoredRun
from ragmeter.metrics import Score
from ragmeter.quality.segments import UNKNOWN, Segments

from ._names import MAX_SEGMENT_CHARS, OWN_SEGMENTS
from ._parts import Chunk, Details, Kind, RequestPart, ScorePart, Value, VerdictPart
from ._received import CARRIED, MAX_NAME, Batch, StoredRetrieval, home_of, version_of
from ._stages import stages_text

_SEGMENTS = Segments(("language", "retriever"))
MAX_CHUNKS = 100
"""Most retrieved chunks to store of a request."""


def from_scored_run(scored: ScoredRun, clock_ns: Callable[[], int] = time.time_ns) -> Batch:
    """Return a scored request as parts for the store, with its texts."""
    run, sample = scored.run, scored.sample
    now = clock_ns()
    place = run.target or run.parent
    if run.trace_id is not None and not (place and place.is_valid):
        place = next((each.target for each in run.retrievals if each.target is not None), None)
    verdict = scored.verdict
    segments = {
        name: None if value == UNKNOWN else clean(value, MAX_SEGMENT_CHARS) for name, value in _SEGMENTS.of(run)
    }
    part = RequestPart(
        run_id=clean(run.run_id, MAX_NAME),
        trace_id=None if run.trace_id is None else run.trace_id.to_bytes(16, "big"),
        place=(2, place.span_id.to_bytes(8, "big")) if place and place.is_valid else None,
        started_ns=run.started_ns,
        ended_ns=run.ended_ns,
        noted_ns=run.started_ns,
        service=clean(run.resource.get("service.name", "")) or None,
        workflow=clean(run.name, MAX_NAME) if run.name else None,
        framework=clean(run.framework),
        status=sample.status,
        question=_text(sample.question),
        answer=_text(sample.answer),
        language=segments["language"],
        retriever=segments["retriever"],
        segments={
            clean(name): clean(value, MAX_SEGMENT_CHARS)
            for name, value in scored.segments.items()
            if name not in OWN_SEGMENTS
        },
        conversation_id=clean(run.conversation_id) if run.conversation_id else None,
        user_id=clean(run.user_id) if run.user_id else None,
        sample_rate=scored.sample_rate,
        judge_sample_rate=scored.judge_sample_rate,
        selection=scored.selection,
        judge_selection=scored.judge_selection,
        environment=run.resource.get("deployment.environment.name")
        or run.resource.get("deployment.environment"),
        missing=",".join(missing_inputs(scored)) or None,
        stages=stages_text(sample),
        metadata={
            clean(str(key), 128): clean(value) if isinstance(value, str) else float(value)
            for key, value in run.metadata.items()
            if isinstance(value, str) or (isinstance(value, (int, float)) and abs(float(value)) < float("inf"))
        }
        | version_of(run.framework_metadata),
        verdict=None
        if verdict is None
        else VerdictPart(now, verdict.word, verdict.codes, tuple(map(clean, verdict.reasons))),
        scores={clean(score.name, MAX_NAME): _score(scored, score, now) for score in scored.scores.values()},
    )
    trace, owner = home_of(part.run_id)
    found = (
        StoredRetrieval(
            trace,
            owner,
            span,
            run.started_ns // 1_000_000 + place,
            tuple(
                Chunk(
                    clean(context.id) if context.id else None,
                    context.score,
                    outgoing(context.text) if sample.contexts_by != "ids" else None,
                )
                for context in contexts[:MAX_CHUNKS]
            ),
        )
        for place, (span, contexts) in enumerate(((owner, sample.contexts or ()), (CARRIED, sample.carried)))
        if contexts
    )
    return Batch((part,), tuple(found))


def _text(text: str | None) -> str | None:
    return None if text is None else outgoing(text)


def _score(scored: ScoredRun, score: Score, now: int) -> ScorePart:
    judge = scored.judge if score.method == "llm" else None
    asked = score.judge_calls or score.input_tokens or score.output_tokens or score.cache_hits
    reported = Value(now, score.value, score.status, score.label and clean(score.label))
    details = Details(
        now,
        Kind(
            name=clean(score.name, MAX_NAME),
            method=score.method,
            target=score.target,
            definition=clean(score.definition),
            direction=score.direction,
            lowest=score.range[0],
            highest=score.range[1],
            judged=score.method == "llm" or score.name in scored.judged,
            judge="" if judge is None else clean(judge.model, 255),
            endpoint="" if judge is None else judge.endpoint,
        ),
        lower=score.lower,
        upper=score.upper,
        error_type=clean(score.error_type) if score.error_type else None,
        summary=clean(score.summary) if score.summary else None,
        explanation=outgoing(score.explanation) if score.explanation else None,
        items=items_attribute(score.items),
        judge_calls=score.judge_calls,
        input_tokens=score.input_tokens,
        output_tokens=score.output_tokens,
        cache_hits=score.cache_hits,
        cost=judge.cost_of(score) if judge is not None and asked else None,
        asked_with=score.asked_with,
    )
    return ScorePart(reported=reported, details=details)
