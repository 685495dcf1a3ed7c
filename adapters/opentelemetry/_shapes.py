"""Unnamed tools that retrieve: they returned passages, and a model was sent them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from ragmeter.adapters._unseen import shaped_documents
from ragmeter.adapters.reading.answer import is_long
from ragmeter.adapters.reading.documents import Document, documents_in
from ragmeter.adapters.reading.layout import Passages
from ragmeter.adapters.reading.letters import letters_of, weight_of
from ragmeter.adapters.reading.prompt_layout import place_in
from ragmeter.adapters.reading.results import ANY_TOOL, cut
from ragmeter.adapters.reading.step import Message, Step

from ._accounts import is_evaluation
from ._contexts import Read, chunks_in
from ._tree import SpanTree
from .conventions import ANY_SPAN, ONE_SPAN, hits_in, whole_request_in

_INPUTS = ("gen_ai.input.messages", "ai.prompt.messages")
_LEAST = 20
"""Minimum letters of an output that is looked for in prompts."""
_BEGINNING = 64
"""Letters of a passage that are looked for in prompts."""


def with_shapes(reads: Mapping[str, Read], tree: SpanTree) -> dict[str, Read]:
    """Return the reads of a trace without the texts of a retrieval, with the tools that retrieve by shape.

    Such a tool did not fail, ran no model and no retriever, and its output is in the prompt of a later call:
    a passage of forty letters, or a shorter text with an id or a score beside it.
    """
    models = [read for read in reads.values() if read.role == "model"]
    reads = {**reads, **_engines_as_retrievers(reads, models, tree)}
    if any(read.is_retrieval or read.role == "rerank" for read in reads.values()):
        return {**reads, **_around_silent(reads, models, tree)}
    whole = {key: Read(read.span, ONE_SPAN, "retrieval") for key, read in reads.items() if _is_whole(read)}
    if whole:
        return {**reads, **whole}
    prompt_texts = {
        letters_of(text) for read in models for role, text in read.reader.prompt(read.span) if role == "tool"
    }
    hits = {key: rows for key, read in reads.items() if (rows := hits_in(read.span))}
    tools = [
        read
        for key, read in reads.items()
        if not read.span.failed
        and (
            (read.role == "tool" and _gives(read) is not False)
            or (read.role == "step" and (_gives(read) or _is_in_prompt(read, prompt_texts)))
            or key in hits
        )
    ]
    if not tools:
        return dict(reads)
    busy = tree.above(read.span.span_id for read in models)
    tools = [read for read in tools if read.span.span_id not in busy]
    # A call with tools within it was sent their output, whatever part of the conversation its span shows.
    caller = tree.outermost({read.span.span_id for read in models}, itself=False)
    within: dict[str | None, list[object]] = {}
    results: list[tuple[int, object]] = []
    for read in tools:
        result = hits.get(read.span.span_id) or read.reader.result(read.span)
        key = caller[read.span.span_id]
        results.append((reads[key or read.span.span_id].span.started_ns, result))
        within.setdefault(key, []).append(result)
    shaped = shaped_documents(results, [_page_of(read, within.get(read.span.span_id, ())) for read in models])
    return {
        **reads,
        **{
            read.span.span_id: Read(read.span, ANY_SPAN, "retrieval")
            if read.span.span_id in hits
            else Read(read.span, read.reader, read.role, ANY_TOOL)
            for read, documents in zip(tools, shaped, strict=True)
            if documents
        },
    }


def made_by_steps(reads: Iterable[Read]) -> tuple[Document, ...]:
    """Return the documents that steps added to those retrieved: of a search that has no span of its own."""
    steps = (read for read in reads if read.role == "step" and not read.span.failed and _gives(read))
    return tuple(item for read in steps for item in documents_in(read.reader.result(read.span)) or ())


def handed_over(members: Iterable[Read], calls: Sequence[Step]) -> Passages | None:
    """Return what LlamaIndex's synthesizer was given where no span retrieves, unless models had said it."""
    chunks = next(filter(None, map(chunks_in, members)), ())
    said = [letters_of(call.words) for call in calls if is_long(call.words)]
    is_reply = any(reply in letters_of(text) for text in chunks for reply in said)
    return None if is_reply or not chunks else Passages(tuple(map(Document, chunks)), is_divided=True)


def _engines_as_retrievers(
    reads: Mapping[str, Read], models: Sequence[Read], tree: SpanTree
) -> dict[str, Read]:
    """Return as steps the retrievers whose documents are replies of engines that retrieve within them."""
    retrievals = {key for key, read in reads.items() if read.role == "retrieval"}
    inner = retrievals & tree.above(read.span.span_id for read in models)
    if not inner:
        return {}
    outer = tree.outermost(inner, itself=False)
    engines = tree.above(retrievals).intersection(key for key, read in reads.items() if read.role == "step")
    calls: dict[str, list[Read]] = {}
    for read in models:
        place = outer[read.span.span_id]
        if place is not None and any(outer[key] for key in engines & tree.above([read.span.span_id])):
            calls.setdefault(place, []).append(read)
    found: set[str] = set()
    for place, within in calls.items():
        said = [
            letters
            for read in within
            if len(letters := letters_of(read.reader.said(read.span) or "")) >= _LEAST
        ]
        texts = [letters_of(item.text or "") for item in reads[place].documents().items]
        if texts and all(any(reply in text for reply in said) for text in texts):
            found |= inner & ({place} | tree.above(read.span.span_id for read in within))
    return {key: Read(reads[key].span, reads[key].reader, "step") for key in found}


def _around_silent(reads: Mapping[str, Read], models: Iterable[Read], tree: SpanTree) -> dict[str, Read]:
    """Return the steps that output the documents of a retrieval whose own span has none."""
    silent = [
        key
        for key, read in reads.items()
        if read.is_retrieval and read.documents().missing in ("content_off", "convention_has_no_text")
    ]
    if not silent:
        return {}
    page = "\0".join(letters_of(text) for read in models for _, text in read.reader.prompt(read.span))
    around = tree.above(silent) - tree.above(read.span.span_id for read in models)
    return {
        key: Read(read.span, read.reader, read.role, ANY_TOOL)
        for key, read in reads.items()
        if key in around and read.role in ("step", "tool") and not read.span.failed
        if _gives(read) or _is_in_prompt(read, page)
    }


def _is_whole(read: Read) -> bool:
    """Return whether a step of no known convention has a whole request."""
    own = read.role == "step" and read.reader is ANY_SPAN and not is_evaluation(read.span)
    return own and whole_request_in(read.span) is not None


def _page_of(read: Read, results: Iterable[object]) -> Step:
    """Return a model's call with its whole input: parts of messages that are no texts, its tools' results."""
    span = read.span
    raw = (span.attributes.get(key) for key in {read.reader.input_key, *_INPUTS})
    texts = (item.text for result in results for item in cut(result, ANY_TOOL) or ())
    sent = [*read.reader.prompt(span), *(("tool", item) for item in (*raw, *texts) if isinstance(item, str))]
    return Step(
        id=span.span_id,
        started_ns=span.started_ns,
        ended_ns=span.ended_ns,
        messages=tuple(Message(role, text) for role, text in sent),
        said=read.reader.said(span),
    )


def _is_in_prompt(read: Read, prompt_texts: Collection[str]) -> bool:
    """Return whether a model was sent a step's output: as a tool's, or anywhere in one text of prompts."""
    result = read.reader.result(read.span)
    letters = letters_of(result) if isinstance(result, str) else ""
    return weight_of(letters) >= _LEAST and letters in prompt_texts


def _gives(read: Read) -> bool | None:
    """Return whether a step or tool outputs documents that were not in its input; None if it outputs none."""
    result = read.reader.result(read.span)
    found = cut(result, ANY_TOOL) if read.role == "tool" else documents_in(result)
    if not found or any(not item.text or place_in([Message("", item.text)]) for item in found):
        return None  # a prompt is no document
    given = letters_of(read.reader.input_text(read.span))
    return not any(letters_of(item.text or "")[:_BEGINNING] in given for item in found)
