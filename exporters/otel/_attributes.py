"""What stands on a span, as groups in order of importance. Pure functions of a `ScoredRun`.

The span writer adds the groups one by one while the SDK's attribute limit leaves room,
each group whole or not at all: half a document or half an evaluation misleads.
Scores and evaluations come before metadata, metadata before content; evaluations on own spans, which repeat
the scores, come last.  Nothing here reads the clock,
the environment or a provider.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable, Iterator, Sequence

from opentelemetry.util.types import AttributeValue

from ragmeter.exporters import semconv
from ragmeter.exporters._annotations import (
    Annotation,
    chunk_verdicts,
    is_shown,
    verdict_annotation,
)
from ragmeter.exporters._evidence import items_attribute, score_metadata
from ragmeter.exporters._format import (
    annotator_kind,
    clean,
    clean_name,
    explanation,
    identifier,
    missing_inputs,
)
from ragmeter.exporters.protocol import RagRun, Retrieval, ScoredRun
from ragmeter.metrics import RagSample, RetrievedContext, Score
from ragmeter.metrics._files.json_lines import plain

from ._content import ContentPolicy

__all__ = [
    "Group",
    "document_groups",
    "evaluation_groups",
    "request_essentials",
    "request_groups",
    "retrieval_essentials",
    "retrieval_groups",
    "score_groups",
    "shown_evaluation_groups",
    "trace_groups",
    "verdict_group",
    "workflow_essentials",
]

Group = dict[str, AttributeValue]

MAX_METADATA = 32
"""The largest number of ``ragmeter.metadata.*`` attributes."""
MAX_DOCUMENTS = 100
"""The largest number of documents of one retrieval."""
MAX_TAGS = 64
"""The largest number of tags."""
_INT64 = 2**63


def workflow_essentials(run: RagRun) -> Group:
    """Return what a workflow span starts with, so that samplers see it."""
    group: Group = {
        semconv.GEN_AI_OPERATION_NAME: str(semconv.OPERATION_INVOKE_WORKFLOW),
        semconv.OPENINFERENCE_SPAN_KIND: str(semconv.KIND_CHAIN),
    }
    if run.name:
        group[semconv.GEN_AI_WORKFLOW_NAME] = clean(run.name)
    if run.error_type:
        group[semconv.ERROR_TYPE] = clean(run.error_type)
    return group


def retrieval_essentials(retrieval: Retrieval) -> Group:
    """Return what a retrieval span starts with."""
    group: Group = {
        semconv.GEN_AI_OPERATION_NAME: str(semconv.OPERATION_RETRIEVAL),
        semconv.OPENINFERENCE_SPAN_KIND: str(semconv.KIND_RETRIEVER),
    }
    for key, value in (
        (semconv.GEN_AI_DATA_SOURCE_ID, retrieval.data_source_id),
        (semconv.GEN_AI_PROVIDER_NAME, retrieval.provider),
        (semconv.GEN_AI_REQUEST_MODEL, retrieval.embedding_model),
        (semconv.ERROR_TYPE, retrieval.error_type),
    ):
        if value:
            group[key] = clean(value)
    if retrieval.top_k is not None and abs(retrieval.top_k) < _INT64:
        group[semconv.GEN_AI_RETRIEVAL_TOP_K] = retrieval.top_k
    return group


def score_groups(scores: Iterable[Score]) -> Iterator[Group]:
    """Yield one group per score: value, label, and the status when it is not ``ok``.

    What lacked an input is left out: `request_essentials` names it and the inputs, once.  ``skipped`` scores
    come last: their status explains an absence, the others are what people came for.
    """
    said = [score for score in scores if score.status != "missing_input"]
    skipped = [score for score in said if score.status == "skipped"]
    for score in (*[score for score in said if score.status != "skipped"], *skipped):
        name = clean_name(score.name)
        group: Group = {}
        if score.value is not None:
            group[semconv.SPAN_SCORE_PREFIX + name] = float(score.value)
        if score.label is not None:
            group[semconv.SPAN_LABEL_PREFIX + name] = clean_name(score.label)
        if score.status != "ok":
            group[semconv.SPAN_STATUS_PREFIX + name] = score.status
        if group:
            yield group
    for direction, key in (
        ("lower", semconv.SPAN_LOWER_IS_BETTER),
        ("none", semconv.SPAN_NEITHER_IS_BETTER),
    ):
        names = [clean_name(score.name) for score in said if score.direction == direction]
        if names:
            yield {key: names}


def verdict_group(scored: ScoredRun) -> Group:
    """Return the verdict's word and codes; nothing where there is none."""
    verdict = scored.verdict
    if verdict is None:
        return {}
    group: Group = {semconv.VERDICT: verdict.word}
    if verdict.codes:
        group[semconv.VERDICT_CODES] = verdict.codes
    return group


def request_essentials(scored: ScoredRun) -> Group:
    """Return which request it is, how it ended and was chosen, and what scores of it lacked."""
    run = scored.run
    group: Group = {
        semconv.REQUEST_STATUS: run.sample.status,
        semconv.FRAMEWORK: clean_name(run.framework),
        semconv.RUN_ID: clean(run.run_id),
    }
    if run.sample.contexts is not None:
        group[semconv.CONTEXTS_BY] = run.sample.contexts_by
    if scored.alarms:
        group[semconv.ALARMS] = True
    for name, value in scored.segments.items():
        group[semconv.SPAN_SEGMENT_PREFIX + name] = clean(value)
    if scored.sample_rate < 1.0:
        group[semconv.SAMPLE_RATE] = scored.sample_rate
    if scored.judge_sample_rate < 1.0:
        group[semconv.JUDGE_SAMPLE_RATE] = scored.judge_sample_rate
    if scored.selection != "sampled":
        group[semconv.SELECTION] = scored.selection
    if scored.judge_selection != scored.selection:
        group[semconv.JUDGE_SELECTION] = scored.judge_selection
    missing = missing_inputs(scored)
    if missing:
        group[semconv.MISSING] = ",".join(missing)
    lacking = [clean_name(s.name) for s in scored.scores.values() if s.status == "missing_input"]
    if lacking:
        group[semconv.MISSING_SCORES] = lacking
    return group


def trace_groups(run: RagRun, content: ContentPolicy) -> Iterator[Group]:
    """Yield what Langfuse lists of the trace: the name where the request is all of it, question and answer."""
    if run.parent is None:
        if run.name:
            yield {semconv.LANGFUSE_TRACE_NAME: clean(run.name)}
    elif "langfuse" in sys.modules:
        return  # what its own package says of the trace stands
    if content.on_spans:
        sample = run.sample
        for key, text in (
            (semconv.LANGFUSE_TRACE_INPUT, sample.question),
            (semconv.LANGFUSE_TRACE_OUTPUT, sample.answer),
        ):
            if text is not None:
                yield {key: content.text(text)}


def request_groups(scored: ScoredRun, content: ContentPolicy, *, texts: bool) -> Iterator[Group]:
    """Yield what describes the whole request, with its texts only after an opt-in."""
    run = scored.run
    if run.conversation_id:
        conversation = clean(run.conversation_id)
        yield {semconv.GEN_AI_CONVERSATION_ID: conversation, semconv.SESSION_ID: conversation}
    if run.user_id:
        yield {semconv.USER_ID: clean(run.user_id)}
    if texts and content.on_spans:
        yield from _texts(run.sample, content)
    if run.tags:
        yield {semconv.TAGS: [clean(str(tag)) for tag in run.tags[:MAX_TAGS]]}
    yield from _metadata(run)


def retrieval_groups(
    retrieval: Retrieval, content: ContentPolicy, question: str | None = None
) -> Iterator[Group]:
    """Yield, with an opt-in, the query, and the documents by id and score as one list.

    Args:
        retrieval: What is described.
        content: What of its texts may leave.
        question: Of the request, where this is all of it and was made without a query of its own.
    """
    contexts = retrieval.contexts[:MAX_DOCUMENTS]
    asked = question if retrieval.query is None else retrieval.query
    if content.on_spans and asked is not None:
        query = content.text(asked)
        yield {
            semconv.GEN_AI_RETRIEVAL_QUERY_TEXT: query,
            semconv.INPUT_VALUE: query,
            semconv.INPUT_MIME_TYPE: str(semconv.MIME_TEXT),
        }
    if content.on_spans and contexts:
        yield {semconv.GEN_AI_RETRIEVAL_DOCUMENTS: json.dumps(_documents(contexts))}


def document_groups(retrieval: Retrieval, content: ContentPolicy) -> Iterator[Group]:
    """Yield OpenInference's ``retrieval.documents.<i>.*``, one group per document."""
    for index, context in enumerate(retrieval.contexts[:MAX_DOCUMENTS]):
        prefix = f"{semconv.RETRIEVAL_DOCUMENTS}.{index}."
        # A document without any attribute would be a gap, and readers take that for the end of the list.
        yield {
            prefix + semconv.DOCUMENT_ID: _document_id(context, index + 1),
            **_document(prefix, context, content),
        }


def evaluation_groups(
    scored: ScoredRun,
    scores: Sequence[Score],
    content: ContentPolicy,
    *,
    verdict: bool = False,
    room: int,
) -> Iterator[Group]:
    """Yield OpenInference's ``evaluations.<i>.*``, one group per score that says anything.

    Args:
        scored: The request.
        scores: Those of its scores that are about one span.
        verdict: Whether that is the request's own, of which the verdict is said, too.
        content: Whether explanations may be among them.
        room: Attributes there is room for. When all groups together are more, each goes without
            identifier and metadata, and if need be without explanation: all scores said briefly are
            worth more than half of them.
    """
    said = [score for score in scores if score.value is not None or score.label is not None]
    verdict_said = verdict_annotation(scored) if verdict else None
    first = [] if verdict_said is None else [_verdict_evaluation(verdict_said)]
    groups = first + [
        _evaluation(index, score, content) for index, score in enumerate(said, start=len(first))
    ]
    for spare in (
        (str(semconv.EVALUATION_IDENTIFIER), str(semconv.EVALUATION_METADATA)),
        (str(semconv.EVALUATION_EXPLANATION),),
    ):
        if sum(map(len, groups)) > room:
            groups = [
                {key: value for key, value in group.items() if not key.endswith(spare)}
                for group in groups
            ]
    yield from groups


def shown_evaluation_groups(
    scored: ScoredRun, scores: Sequence[Score], content: ContentPolicy, *, verdict: bool
) -> Iterator[Group]:
    """Yield ``evaluations.<i>.*`` for one of our own spans: the verdict, and what people are shown of the rest.

    The numbers stand on the span already, as ``ragmeter.score.*``; here they stand with a word why, for readers
    of OpenInference. That has no evaluations of documents: what was found of each chunk is in the metadata.

    Args:
        scored: The request.
        scores: The scores on this span.
        content: Whether explanations may be among them.
        verdict: Whether the span is the request's own.
    """
    said = verdict_annotation(scored) if verdict else None
    index = 0
    if said is not None:
        yield _verdict_evaluation(said)
        index = 1
    of_chunks = {score.name for score, _ in chunk_verdicts(scored)} if scores else ()
    for score in scores:
        found = items_attribute(score.items) if score.name in of_chunks else None
        if found is None and not is_shown(score):
            continue
        why = explanation(score, texts=content.on_spans)
        if found is None and not (why or score.label):
            continue
        prefix = f"{semconv.EVALUATIONS}.{index}."
        group = _brief(prefix, score, why)
        if found is not None:
            group[prefix + semconv.EVALUATION_METADATA] = found
        yield group
        index += 1


def _verdict_evaluation(said: Annotation) -> Group:
    prefix = f"{semconv.EVALUATIONS}.0."
    group: Group = {
        prefix + semconv.EVALUATION_NAME: said.name,
        prefix + semconv.EVALUATION_ANNOTATOR_KIND: said.kind,
        prefix + semconv.EVALUATION_LABEL: said.label or "",
    }
    if said.explanation is not None:
        group[prefix + semconv.EVALUATION_EXPLANATION] = said.explanation
    return group


def _brief(prefix: str, score: Score, why: str | None) -> Group:
    group: Group = {
        prefix + semconv.EVALUATION_NAME: clean_name(score.name),
        prefix + semconv.EVALUATION_ANNOTATOR_KIND: annotator_kind(score),
    }
    if score.value is not None:
        group[prefix + semconv.EVALUATION_SCORE] = float(score.value)
    if score.label is not None:
        group[prefix + semconv.EVALUATION_LABEL] = clean_name(score.label)
    if why is not None:
        group[prefix + semconv.EVALUATION_EXPLANATION] = why
    return group


def _evaluation(index: int, score: Score, content: ContentPolicy) -> Group:
    prefix = f"{semconv.EVALUATIONS}.{index}."
    group = _brief(prefix, score, explanation(score, texts=content.on_spans))
    group[prefix + semconv.EVALUATION_IDENTIFIER] = clean_name(identifier(score))
    group[prefix + semconv.EVALUATION_METADATA] = json.dumps(score_metadata(score))
    return group


def _texts(sample: RagSample, content: ContentPolicy) -> Iterator[Group]:
    question, answer = sample.question, sample.answer
    for text, value, mime in (
        (question, semconv.INPUT_VALUE, semconv.INPUT_MIME_TYPE),
        (answer, semconv.OUTPUT_VALUE, semconv.OUTPUT_MIME_TYPE),
    ):
        if text is not None:
            yield {value: content.text(text), mime: str(semconv.MIME_TEXT)}
    # The same for readers of the GenAI conventions.
    if question is not None:
        yield {semconv.GEN_AI_INPUT_MESSAGES: _messages("user", content.text(question))}
    if answer is not None:
        ended = {"finish_reason": _FINISHES.get(sample.status, "error")}
        text = _messages("assistant", content.text(answer), **ended)
        yield {semconv.GEN_AI_OUTPUT_MESSAGES: text}


_FINISHES = {"ok": "stop", "refused": "content_filter"}


def _messages(role: str, text: str, **more: str) -> str:
    message = {"role": role, "parts": [{"type": "text", "content": text}], **more}
    return json.dumps([message], ensure_ascii=False)


def _metadata(run: RagRun) -> Iterator[Group]:
    for key, value in list(run.metadata.items())[:MAX_METADATA]:
        name = semconv.SPAN_METADATA_PREFIX + clean(str(key), 128)
        if isinstance(value, str):
            yield {name: clean(value)}
        elif (isinstance(value, int) and abs(value) < _INT64) or (
            isinstance(value, float) and math.isfinite(value)
        ):
            yield {name: value}


def _documents(contexts: Sequence[RetrievedContext]) -> list[dict[str, str | float]]:
    # Phoenix keeps the list only when every document has both an id and a score. A missing id
    # can be made up honestly, a missing score cannot.
    documents: list[dict[str, str | float]] = []
    for number, context in enumerate(contexts, start=1):
        document: dict[str, str | float] = {"id": _document_id(context, number)}
        if context.score is not None and math.isfinite(context.score):
            document["score"] = float(context.score)
        documents.append(document)
    return documents


def _document_id(context: RetrievedContext, number: int) -> str:
    return clean(context.id or f"chunk-{number}")


def _document(prefix: str, context: RetrievedContext, content: ContentPolicy) -> Group:
    group: Group = {}
    if context.score is not None and math.isfinite(context.score):
        group[prefix + semconv.DOCUMENT_SCORE] = float(context.score)
    if content.on_spans:
        group[prefix + semconv.DOCUMENT_CONTENT] = content.text(context.text)
        if context.metadata:
            text = json.dumps(plain(context.metadata), ensure_ascii=False)
            group[prefix + semconv.DOCUMENT_METADATA] = content.text(text)
    return group
