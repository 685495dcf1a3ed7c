"""Spans of model calls as `Step`s, and the documents that the answering call was sent."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from ragmeter.adapters.reading.contexts import shown_documents
from ragmeter.adapters.reading.documents import Document
from ragmeter.adapters.reading.fields import FIELD_NAMES
from ragmeter.adapters.reading.prompt_documents import contexts_in_prompts
from ragmeter.adapters.reading.request_texts import answer_in
from ragmeter.adapters.reading.results import ANY_TOOL, cut, flattened, reads_as_retrieved
from ragmeter.adapters.reading.step import Message, Step, Unknown
from ragmeter.adapters.reading.values import MAX_DEPTH, is_hidden, mapping_of, opened
from ragmeter.metrics import RetrievedContext

from ._contexts import Read, Seen
from ._found import FoundRequest
from ._limits import CutLength

_RESPONSE_IDS = ("gen_ai.response.id", "ai.response.id")


def call_of(read: Read, limit: CutLength) -> Step:
    """Return a model's call; its prompt is unknown if any of it is hidden or was cut off."""
    span = read.span
    sent = read.reader.prompt(span)
    sent += [("tool", text) for text in _found_by_provider(span.attributes.get(read.reader.output_key))]
    messages: tuple[Message, ...] | Unknown = tuple(Message(role, text) for role, text in sent)
    if span.dropped or not messages:
        is_cut = span.dropped or limit.is_cut(span.attributes.get(read.reader.input_key))
        messages = Unknown("truncated" if is_cut else "content_off")
    elif any(is_hidden(text) for _, text in sent):
        messages = Unknown("redacted")
    elif any(limit.is_cut(text) for _, text in sent):
        messages = Unknown("truncated")
    said = read.reader.said(span)
    return Step(
        id=span.span_id,
        started_ns=span.started_ns,
        ended_ns=span.ended_ns,
        messages=messages,
        said=Unknown("content_off") if said is None else said,
        scope=span.scope,
        response_id=next(
            (found for key in _RESPONSE_IDS if isinstance(found := span.attributes.get(key), str) and found),
            None,
        ),
    )


def calls_of(models: Sequence[Read], limit: CutLength, members: Iterable[Read]) -> list[Step]:
    """Return the model calls, one for each though it is a span in a span.

    The last may reply by a function that never runs, or gives its argument back.
    """
    calls = [call_of(read, limit) for read in models]
    places = {call.id: place for place, call in enumerate(calls)}
    doubles: set[int] = set()
    for inner in range(len(calls) - 1, -1, -1):
        call, outer = calls[inner], places.get(models[inner].span.parent_id or "")
        if outer is None or not call.sent:
            continue
        around = calls[outer]
        if len(call.sent) == 1 < len(around.sent):
            # A model that takes one text is sent the conversation written out.
            text = call.sent[0].text
            if all(message.text in text for message in around.sent):
                call = calls[inner] = replace(call, messages=around.messages)
        if call.words and call.words == around.words:
            calls[outer] = replace(around, messages=call.messages)
            doubles.add(inner)
    models = [read for place, read in enumerate(models) if place not in doubles]
    calls = [call for place, call in enumerate(calls) if place not in doubles]
    tools = (read for read in members if read.role == "tool")
    ran = {read.reader.tool_name(read.span): read.reader.result(read.span) for read in tools}
    last = max(range(len(calls)), key=lambda place: calls[place].ended_ns, default=None)
    if last is not None and isinstance(calls[last].said, Unknown):
        name, form = function_in(models[last])
        if mapping_of(form).keys() & _ANSWERS and ran.get(name, answer_in(form)) == answer_in(form):
            calls[last] = replace(calls[last], said=answer_in(form))
    return calls


_ANSWERS = frozenset(FIELD_NAMES["answer"])


def function_in(read: Read) -> tuple[str, str]:
    """Return name and arguments of the last function that a model called; empty if it called none."""
    flat = {
        key.rpartition(".")[2]: value
        for key, value in read.span.attributes.items()
        if key.startswith("llm.output_messages.") and ".function." in key
    }
    messages = opened(read.span.attributes.get(read.reader.output_key))
    last = messages[-1] if isinstance(messages, list) and messages else None
    for part in mapping_of(last).get("parts") or ():
        flat = part if mapping_of(part).get("type") == "tool_call" else flat
    form = flat.get("arguments")
    text = form if isinstance(form, str) else json.dumps(form, ensure_ascii=False)
    return str(flat.get("name", "")), text


_NAMES = frozenset(("filename", "file_id", "url", "uri", "title", "filepath", "id", "source", "document_id"))


def _found_by_provider(value: object, depth: int = 0) -> Iterator[str]:
    """Yield as JSON the lists of passages beside the reply that a model's provider retrieved."""
    found = opened(value)
    if depth > MAX_DEPTH:
        return
    rows = found if isinstance(found, list) else []
    flat = [dict(flattened(row)) for row in rows if isinstance(row, dict) and "role" not in row]
    is_named = 0 < len(flat) == len(rows) and all(_NAMES & one.keys() for one in flat)
    if is_named and not any("type" in one for one in flat) and reads_as_retrieved(cut(rows, ANY_TOOL) or ()):
        yield json.dumps(rows, ensure_ascii=False)
        return
    for item in found.values() if isinstance(found, dict) else rows:
        if isinstance(item, (dict, list)):
            yield from _found_by_provider(item, depth + 1)


def reached_model(
    contexts: Sequence[Document],
    seen: Sequence[Seen],
    calls: Sequence[Step],
    asked_and_answered: tuple[str | None, str | None],
    *,
    by_tool: bool,
) -> tuple[tuple[Document, ...], tuple[Document, ...]] | None:
    """Return the documents that the answering call saw: whole, and as its prompt shows them, in its order.

    Args:
        contexts: The retrieved documents, in order.
        seen: The retrievals.
        calls: The request's model calls.
        asked_and_answered: Question and answer.
        by_tool: Whether a tool ran in the request.

    Returns:
        None if the prompts do not determine it.
    """
    if not any(item.text for item in contexts) or any(item.text is None for item in contexts):
        return None
    question, answer = asked_and_answered
    stood = shown_documents(
        sorted(calls, key=lambda call: call.started_ns),
        contexts,
        answer=answer,
        question=question,
        queries=[read.reader.query(read.span) for one in seen for read in one.retrievals],
        after_ns=max(item.read.span.ended_ns for item in seen),
        by_tool=by_tool,
    )
    if stood is None:
        return None
    # Retrieved twice and shown once is still retrieved twice; never shown is left out.
    seen_texts = {item.text for item, _ in stood}
    whole = tuple(item for item in contexts if item.text in seen_texts)
    return whole, tuple(shown for _, shown in stood)


BY_LAYOUT = ("convention_has_no_text", "content_off", "content_in_logs")
"""Reasons for which the texts of documents are looked for in prompts."""


def with_layout(found: FoundRequest, calls: Sequence[Step]) -> FoundRequest:
    """Return the request with the texts of its documents as its prompt shows them, if it does."""
    if not found.contexts and found.reason == "convention_has_no_text":
        return found  # it found nothing
    shown = contexts_in_prompts(calls, found.answer, found.question, found.contexts)
    if shown is None:
        return found
    if shown.is_divided:
        return replace(found, contexts=shown.documents, shown=shown.documents, usable="full", reason=None)
    if found.usable != "ids_only":
        return replace(found, reason="prompt_not_divided")
    # Text that cannot be divided is one passage that the answer may rest on, of an unknown document.
    whole = "\n\n".join(one.text for one in shown.documents if one.text)
    return replace(found, carried=(RetrievedContext(text=whole),))
