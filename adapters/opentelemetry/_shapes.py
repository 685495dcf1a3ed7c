"""Tools that no one named and that retrieve: they gave back passages, and a model was sent them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ragmeter.adapters.reading.layout import place_in
from ragmeter.adapters.reading.letters import letters_of
from ragmeter.adapters.reading.prompts import MAX_PROMPTS
from ragmeter.adapters.reading.results import RetrievalTool, cut, reads_as_retrieved
from ragmeter.adapters.reading.step import Message
from ragmeter.adapters.reading.values import documents_in

from ._contexts import Read
from ._tree import SpanTree

__all__ = ["with_shapes"]

_ANY = RetrievalTool("*")
_INPUTS = ("gen_ai.input.messages", "ai.prompt.messages")
_BEGINNING = 64
"""So many letters of a passage are looked for in prompts."""


def with_shapes(reads: Mapping[str, Read], tree: SpanTree) -> dict[str, Read]:
    """Return the reads of a trace in which nothing is known to retrieve, with the tools that do so by shape.

    Such a tool did not fail, ran no model and no retriever, and what it gave back stands in the prompt of a
    later call: a passage of forty letters, or a shorter text with an id or a score beside it.
    """
    tools = [
        read
        for read in reads.values()
        if not read.span.failed and (read.role == "tool" or (read.role == "step" and _gives(read)))
    ]
    if not tools or any(read.is_retrieval or read.role == "rerank" for read in reads.values()):
        return dict(reads)
    models = sorted(
        (read for read in reads.values() if read.role == "model"),
        key=lambda read: read.span.started_ns,
    )
    busy = _above(models, tree)
    prompts: list[tuple[int, str]] = []
    size = 0
    for read in models:
        texts = [text for _, text in read.reader.prompt(read.span)]
        # What tools gave back stands in parts of messages, which are no texts of theirs.
        raw = (read.span.attributes.get(key) for key in {read.reader.input_key, *_INPUTS})
        texts += [value for value in raw if isinstance(value, str)]
        size += sum(map(len, texts))
        if size > MAX_PROMPTS:
            return dict(reads)
        prompts.append((read.span.started_ns, "\0".join(map(letters_of, texts))))
    found = dict(reads)
    for read in tools:
        span = read.span
        if span.span_id in busy:
            continue
        passage = reads_as_retrieved(cut(read.reader.result(span), _ANY) or ())
        if passage is not None and any(
            started >= span.started_ns and passage[:_BEGINNING] in prompt
            for started, prompt in prompts
        ):
            found[span.span_id] = Read(span, read.reader, read.role, _ANY)
    return found


def _gives(read: Read) -> bool:
    """Return whether a step gives documents out that it was not given."""
    found = documents_in(read.reader.result(read.span))
    if not found or any(not item.text or place_in([Message("", item.text)]) for item in found):
        return False  # a prompt is no document
    given = letters_of(str(read.span.attributes.get(read.reader.input_key, "")))
    return not any(letters_of(item.text or "")[:_BEGINNING] in given for item in found)


def _above(reads: Iterable[Read], tree: SpanTree) -> set[str]:
    """Return the ids of all spans above these."""
    above: set[str] = set()
    for read in reads:
        span = tree.parent(read.span)
        while span is not None and span.span_id not in above:
            above.add(span.span_id)
            span = tree.parent(span)
    return above
