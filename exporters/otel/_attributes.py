"""The attributes of a span, as groups in order of importance. Pure functions of a `ScoredRun`.

The span writer adds the groups one by one while the SDK's attribute limit leaves room, each group whole or
not at all: half a document or half an evaluation misleads. They are lists, not generators, and short steps
are inlined: otherwise every step of a request costs a call. Scores and evaluations come before metadata,
metadata before content; evaluations on own spans, which repeat the scores, come last. Nothing here reads the
clock, the environment or a provider.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable, Iterator, Sequence

from opentelemetry.util.types import AttributeValue

from ragmeter.exporters import semconv
from ragmeter.exporters._annotations import chunk_verdicts, shown_scores
from ragmeter.exporters._format import (
    ANNOTATOR_KINDS,
    ContentPolicy,
    clean,
    clean_name,
    explanation,
    identifier,
    items_attribute,
    missing_inputs,
    outgoing,
    score_metadata,
    text_id,
)
from ragmeter.exporters.protocol import RagRun, Retrieval, ScoredRun
from ragmeter.metrics import RagSample, RetrievedContext, Score
from ragmeter.metrics._files.json_lines import plain

Group = dict[str, AttributeValue]

MAX_METADATA = 32
"""The largest number of ``ragmeter.metadata.*`` attributes."""
MAX_DOCUMENTS = 100
"""The largest number of documents of one retrieval."""
MAX_TAGS = 64
"""The largest number of tags."""
_INT64 = 2**63


def workflow_essentials(run: RagRun) -> Group:
    """Return the initial attributes of a workflow span, so that samplers see them."""
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
    """Return the initial attributes of a retrieval span."""
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


def score_groups(scores: Iterable[Score]) -> list[Group]:
    """Return one group per score: value, label, and the status when it is not ``ok``.

    Scores that lacked an input are left out: `request_essentials` names them and the inputs, once.
    ``skipped`` scores come last: their status explains an absence, the others are the results.
    """
    groups: list[Group] = []
    skipped: list[Group] = []
    directions: dict[str, list[str]] = {"lower": [], "none": [], "higher": []}
    for score in scores:
        if score.status == "missing_input":
            continue
        name = clean_name(score.name)
        group: Group = {}
        if score.value is not None:
            group[semconv.SPAN_SCORE_PREFIX + name] = float(score.value)
        if score.label is not None:
            group[semconv.SPAN_LABEL_PREFIX + name] = clean_name(score.label)
        if score.status != "ok":
            group[semconv.SPAN_STATUS_PREFIX + name] = score.status
        if group:
            (skipped if score.status == "skipped" else groups).append(group)
        directions[score.direction].append(name)
    groups += skipped
    if directions["lower"]:
        groups.append({semconv.SPAN_LOWER_IS_BETTER: directions["lower"]})
    if directions["none"]:
        groups.append({semconv.SPAN_NEITHER_IS_BETTER: directions["none"]})
    return groups


def verdict_group(scored: ScoredRun) -> Group:
    """Return the verdict's word and codes; empty without a verdict."""
    verdict = scored.verdict
    if verdict is None:
        return {}
    group: Group = {semconv.VERDICT: verdict.word}
    if verdict.codes:
        group[semconv.VERDICT_CODES] = verdict.codes
    return group


def request_essentials(scored: ScoredRun) -> Group:
    """Return the id of a request, its status and selection, and the inputs that its scores lacked."""
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
    lacking = [clean_name(s.name) for s in scored.scores.values() if s.status == "missing_input"]
    if lacking:
        if missing := missing_inputs(scored):
            group[semconv.MISSING] = ",".join(missing)
        group[semconv.MISSING_SCORES] = lacking
    return group


def trace_groups(run: RagRun, content: ContentPolicy) -> list[Group]:
    """Return Langfuse's trace fields: the name if the request is the whole trace, question and answer."""
    groups: list[Group] = []
    if run.parent is None:
        if run.name:
            groups.append({semconv.LANGFUSE_TRACE_NAME: clean(run.name)})
    elif "langfuse" in sys.modules:
        return []  # the values of Langfuse's own package take precedence
    if content.on_spans:
        sample = run.sample
        for key, text in (
            (semconv.LANGFUSE_TRACE_INPUT, sample.question),
            (semconv.LANGFUSE_TRACE_OUTPUT, sample.answer),
        ):
            if text is not None:
                groups.append({key: outgoing(text)})
    return groups


def request_groups(scored: ScoredRun, content: ContentPolicy, *, texts: bool) -> list[Group]:
    """Return the description of the whole request, with its texts only after an opt-in."""
    run = scored.run
    groups: list[Group] = []
    if run.conversation_id:
        conversation = clean(run.conversation_id)
        groups.append({semconv.GEN_AI_CONVERSATION_ID: conversation, semconv.SESSION_ID: conversation})
    if run.user_id:
        groups.append({semconv.USER_ID: clean(run.user_id)})
    if texts and content.on_spans:
        groups += _texts(run.sample)
    if run.tags:
        groups.append({semconv.TAGS: [clean(str(tag)) for tag in run.tags[:MAX_TAGS]]})
    for key, value in list(run.metadata.items())[:MAX_METADATA]:
        name = semconv.SPAN_METADATA_PREFIX + clean(str(key), 128)
        if isinstance(value, str):
            groups.append({name: clean(value)})
        elif (isinstance(value, int) and abs(value) < _INT64) or (
            isinstance(value, float) and math.isfinite(value)
        ):
            groups.append({name: value})
    return groups


def retrieval_groups(retrieval: Retrieval, content: ContentPolicy, question: str | None = None) -> list[Group]:
    """Return, with an opt-in, the query, and the documents by id and score as one list.

    Args:
        retrieval: The retrieval.
        content: The permitted destinations of its texts.
        question: The request's question, if this retrieval is the whole request and has no separate query.
    """
    groups: list[Group] = []
    if not content.on_spans:
        return groups
    asked = question if retrieval.query is None else retrieval.query
    if asked is not None:
        query = outgoing(asked)
        groups.append(
            {
                semconv.GEN_AI_RETRIEVAL_QUERY_TEXT: query,
                semconv.INPUT_VALUE: query,
                semconv.INPUT_MIME_TYPE: str(semconv.MIME_TEXT),
            }
        )
    if contexts := retrieval.contexts[:MAX_DOCUMENTS]:
        groups.append({semconv.GEN_AI_RETRIEVAL_DOCUMENTS: json.dumps(_documents(contexts))})
    return groups


def document_groups(
    contexts: Sequence[RetrievedContext], content: ContentPolicy, name: str = semconv.RETRIEVAL_DOCUMENTS
) -> list[Group]:
    """Return OpenInference's ``retrieval.documents.<i>.*``, one group per document."""
    groups: list[Group] = []
    for index, context in enumerate(contexts[:MAX_DOCUMENTS]):
        prefix = f"{name}.{index}."
        # A document without any attribute would be a gap, which readers interpret as the end of the list.
        group: Group = {prefix + semconv.DOCUMENT_ID: clean(context.id or text_id(context.text))}
        if context.score is not None and math.isfinite(context.score):
            group[prefix + semconv.DOCUMENT_SCORE] = float(context.score)
        if content.on_spans:
            group[prefix + semconv.DOCUMENT_CONTENT] = outgoing(context.text)
            if context.metadata:
                text = json.dumps(plain(context.metadata), ensure_ascii=False)
                group[prefix + semconv.DOCUMENT_METADATA] = outgoing(text)
        groups.append(group)
    return groups


def evaluation_groups(
    scored: ScoredRun, scores: Sequence[Score], content: ContentPolicy, *, verdict: bool = False, room: int
) -> list[Group]:
    """Return OpenInference's ``evaluations.<i>.*``, one group per score with a result.

    Args:
        scored: The request.
        scores: Those of its scores that are about one span.
        content: Whether explanations may be among them.
        verdict: Whether it is the request's own span, which also gets the verdict.
        room: Number of attributes that fit. If all groups together need more, identifier and metadata are
            left out of each, and if necessary the explanation: all scores in short form are worth more than
            half of them.
    """
    groups = _verdict_evaluations(scored) if verdict else []
    for score in scores:
        if score.value is not None or score.label is not None:
            group = _evaluation(len(groups), score, explanation(score, texts=content.on_spans))
            prefix = f"{semconv.EVALUATIONS}.{len(groups)}."
            group[prefix + semconv.EVALUATION_IDENTIFIER] = clean_name(identifier(score))
            group[prefix + semconv.EVALUATION_METADATA] = json.dumps(score_metadata(score))
            groups.append(group)
    for spare in (
        (str(semconv.EVALUATION_IDENTIFIER), str(semconv.EVALUATION_METADATA)),
        (str(semconv.EVALUATION_EXPLANATION),),
    ):
        if sum(map(len, groups)) > room:
            groups = [
                {key: value for key, value in group.items() if not key.endswith(spare)} for group in groups
            ]
    return groups


def shown_evaluation_groups(
    scored: ScoredRun, scores: Sequence[Score], content: ContentPolicy, *, verdict: bool
) -> list[Group]:
    """Return ``evaluations.<i>.*`` for one of ragmeter's spans: the verdict, and the scores shown to people.

    The numbers are already on the span, as ``ragmeter.score.*``; here they have an explanation, for readers
    of OpenInference. It has no evaluations of documents: results on each chunk are in the metadata.

    Args:
        scored: The request.
        scores: The scores on this span.
        content: Whether explanations may be among them.
        verdict: Whether the span is the request's own.
    """
    groups = _verdict_evaluations(scored) if verdict else []
    of_chunks = [score.name for score, _ in chunk_verdicts(scored)] if scores else []
    for score in shown_scores(scores, also=of_chunks):
        found = items_attribute(score.items) if score.name in of_chunks else None
        why = explanation(score, texts=content.on_spans)
        if found is None and not (why or score.label):
            continue
        group = _evaluation(len(groups), score, why)
        if found is not None:
            group[f"{semconv.EVALUATIONS}.{len(groups)}.{semconv.EVALUATION_METADATA}"] = found
        groups.append(group)
    return groups


def _verdict_evaluations(scored: ScoredRun) -> list[Group]:
    verdict = scored.verdict
    if verdict is None:
        return []
    prefix = f"{semconv.EVALUATIONS}.0."
    group: Group = {
        prefix + semconv.EVALUATION_NAME: str(semconv.VERDICT),
        prefix + semconv.EVALUATION_ANNOTATOR_KIND: str(semconv.ANNOTATOR_CODE),
        prefix + semconv.EVALUATION_LABEL: verdict.word,
    }
    if why := verdict.explanation:
        group[prefix + semconv.EVALUATION_EXPLANATION] = clean(why)
    return [group]


def _evaluation(index: int, score: Score, why: str | None) -> Group:
    prefix = f"{semconv.EVALUATIONS}.{index}."
    group: Group = {
        prefix + semconv.EVALUATION_NAME: clean_name(score.name),
        prefix + semconv.EVALUATION_ANNOTATOR_KIND: ANNOTATOR_KINDS[score.method],
    }
    if score.value is not None:
        group[prefix + semconv.EVALUATION_SCORE] = float(score.value)
    if score.label is not None:
        group[prefix + semconv.EVALUATION_LABEL] = clean_name(score.label)
    if why is not None:
        group[prefix + semconv.EVALUATION_EXPLANATION] = why
    return group


def _texts(sample: RagSample) -> Iterator[Group]:
    question, answer = sample.question, sample.answer
    for text, value, mime in (
        (question, semconv.INPUT_VALUE, semconv.INPUT_MIME_TYPE),
        (answer, semconv.OUTPUT_VALUE, semconv.OUTPUT_MIME_TYPE),
    ):
        if text is not None:
            yield {value: outgoing(text), mime: str(semconv.MIME_TEXT)}
    # The same for readers of the GenAI conventions.
    if question is not None:
        yield {semconv.GEN_AI_INPUT_MESSAGES: _messages("user", outgoing(question))}
    if answer is not None:
        ended = {"finish_reason": _FINISHES.get(sample.status, "error")}
        text = _messages("assistant", outgoing(answer), **ended)
        yield {semconv.GEN_AI_OUTPUT_MESSAGES: text}


_FINISHES = {"ok": "stop", "refused": "content_filter"}


def _messages(role: str, text: str, **more: str) -> str:
    message = {"role": role, "parts": [{"type": "text", "content": text}], **more}
    return json.dumps([message], ensure_ascii=False)


def _documents(contexts: Sequence[RetrievedContext]) -> list[dict[str, str | float]]:
    # Phoenix stores the list only if every document has both an id and a score. A missing id can be
    # generated, a missing score cannot.
    documents: list[dict[str, str | float]] = []
    for context in contexts:
        document: dict[str, str | float] = {"id": clean(context.id or text_id(context.text))}
        if context.score is not None and math.isfinite(context.score):
            document["score"] = float(context.score)
        documents.append(document)
    return documents
