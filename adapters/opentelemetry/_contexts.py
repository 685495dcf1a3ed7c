"""The retrieved documents of a request: of the outermost retrievers, after the last reranking.

A retriever may have two spans, one in the other, or really call others: the outermost with documents counts.
A reranking replaces its input documents.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

from ragmeter.adapters.reading.documents import Document
from ragmeter.adapters.reading.letters import letters_of
from ragmeter.adapters.reading.results import ANY_TOOL, RetrievalTool, cut, tool_for
from ragmeter.adapters.reading.values import is_hidden, mapping_of

from ._tree import SpanTree
from .conventions import ANY_SPAN, Documents, Missing, Reader, Role, reading
from .record import SpanRecord


class Read:
    """A span with the convention that reads it; its documents are read once, on demand."""

    __slots__ = ("_documents", "is_retrieval", "reader", "role", "span", "tool")

    def __init__(self, span: SpanRecord, reader: Reader, role: Role, tool: RetrievalTool | None = None) -> None:
        self.span = span
        self.reader = reader
        self.role: Role = role
        self.tool = tool
        """The user's rule that makes a tool's call a retrieval."""
        self.is_retrieval = role == "retrieval" or tool is not None
        """Whether it retrieves documents."""
        self._documents: Documents | None = None

    def documents(self) -> Documents:
        """Return the documents of a retrieval, a reranking or a retrieving tool."""
        if self._documents is None:
            self._documents = _documents_of(self)
        return self._documents


@dataclass(frozen=True, slots=True)
class Seen:
    """Output documents of one retrieval or reranking."""

    read: Read
    documents: Documents
    from_spans: tuple[Read, ...] = ()
    """The retrievals they come from, if they are a reranking's."""
    within: tuple[Read, ...] = ()
    """The retrievals within it, if their documents differ: it compresses, or joins."""

    @property
    def retrievals(self) -> tuple[Read, ...]:
        """The spans of the retrievals."""
        return self.from_spans or (self.read,)


def _documents_of(read: Read) -> Documents:
    if read.tool is None or (read.tool.is_span and not read.tool.names_fields):
        documents = read.reader.documents(read.span)
        given = (
            read.span.attributes.get(read.reader.output_key)
            if read.tool is None
            else read.reader.result(read.span)
        )
        silent = documents == Documents() and given not in (None, "null", "None")
        if read.role != "retrieval" or read.span.failed or not silent:
            return documents
        # An output in which the convention finds no documents is empty only if it is recognised as such.
        found = cut(given, read.tool or ANY_TOOL)
        return Documents(missing="unreadable_result") if found is None else Documents(found)
    result = read.reader.result(read.span)
    if result is None:
        if read.span.failed:
            return Documents()
        return Documents(missing="truncated" if read.span.dropped else "content_off")
    if is_hidden(result):
        return Documents(missing="redacted")
    found = cut(result, read.tool)
    return Documents(missing="unreadable_result") if found is None else Documents(found)


def read_of(span: SpanRecord, tools: Sequence[RetrievalTool]) -> Read | None:
    """Return a span with the user's rule for it; None if no convention, and no rule, matches."""
    known = reading(span)
    rule = tool_for(span.name, tools, is_span=True)
    if rule is not None and (known is None or known[1] not in ("model", "evaluation")):
        return Read(span, ANY_SPAN if known is None else known[0], "retrieval", rule)
    if known is None:
        return None
    reader, role = known
    return Read(span, reader, role, tool_for(reader.tool_name(span), tools) if role == "tool" else None)


def reached(
    reads: Iterable[Read], retrieval_above: Callable[[SpanRecord], str | None], tree: SpanTree
) -> tuple[Seen, ...]:
    """Return the documents of a request that reached its model, by retrieval, in start order.

    Its spans are of one convention; `retrieval_above` returns the id of the outermost retrieval above one.
    """
    outer: list[Read] = []
    inner: dict[str, list[Read]] = {}
    given = sorted(reads, key=lambda item: (item.span.started_ns, item.span.ended_ns))
    for read in given:
        if read.is_retrieval or read.role in ("rerank", "join"):
            above = retrieval_above(read.span)
            if above is None:
                outer.append(read)
            elif read.is_retrieval:
                inner.setdefault(above, []).append(read)
    seen: list[Seen] = []
    for read in outer:
        if read.is_retrieval:
            documents = read.documents()
            within = _outermost_within(inner.get(read.span.span_id, ()))
            if within and not (documents.items and (read.tool is None or read.tool.is_span)):
                seen.extend(within)
                continue
            texts = {item.text for item in documents.items}
            changes = any({doc.text for doc in one.documents.items} != texts for one in within)
            own = tuple(one.read for one in within) if changes else ()
            seen.append(Seen(read, documents, within=own))
        else:
            seen = _reranked(seen, read, tree, given)
    return tuple(seen)


def _outermost_within(inner: Sequence[Read]) -> list[Seen]:
    """Return the documents of the outermost retrievers within a retrieval."""
    within = [
        Seen(item, documents)
        for item in inner
        if item.role == "retrieval" and (documents := item.documents()).items
    ]
    # Of these, too, only the outermost: one that begins while another is open is within it.
    kept: list[Seen] = []
    for item in within:
        if not kept or item.read.span.started_ns >= kept[-1].read.span.ended_ns:
            kept.append(item)
    return kept


def _reranked(seen: list[Seen], read: Read, tree: SpanTree, reads: Sequence[Read]) -> list[Seen]:
    """Return the documents after a reranking, which replaces its input."""
    documents = read.documents()
    if read.span.failed:
        return seen
    if read.role == "join" and not seen:
        return seen
    given = read.reader.reranked(read.span)
    ids = {item.id for item in given if item.id is not None}
    known = {item.text for item in given if item.text is not None}
    taken = [item for item in seen if not given or _share(item.documents.items, ids, known)]
    if len(taken) > 1 and given:
        taken = _nearest(taken, read, lambda item: _share([item], ids, known), tree)
    if read.role == "join":
        full = [doc for item in taken for doc in item.documents.items]
        items = _join_of(documents.items, full, _handed_over(read, len(documents.items), reads))
        is_known = bool(items) or documents == Documents()
        if not taken or not is_known:
            return seen
        documents = documents._replace(items=items)
    elif documents.missing == "rerank_invisible":  # perhaps prompts show which of these are left
        documents = documents._replace(items=tuple(doc for item in taken for doc in item.documents.items))
    consumed = {id(item) for item in taken}
    left = [item for item in seen if id(item) not in consumed]
    return [*left, Seen(read, documents, tuple(one for item in taken for one in item.retrievals))]


def _nearest(
    taken: Sequence[Seen], read: Read, was_given: Callable[[Document], bool], tree: SpanTree
) -> list[Seen]:
    """Return the retrievals without those whose documents a nearer one found: another sub-question's."""
    places = {span.span_id: place for place, span in enumerate(tree.path("", read.span))}
    nearest: dict[str | None, int] = {}
    found: list[tuple[Seen, int, list[str | None]]] = []
    for item in taken:
        place = max(places.get(span.span_id, -1) for span in tree.path("", item.read.span))
        keys = [one.id or one.text for one in item.documents.items if was_given(one)]
        nearest.update({key: max(place, nearest.get(key, place)) for key in keys})
        found.append((item, place, keys))
    return [item for item, place, keys in found if not keys or any(nearest[key] == place for key in keys)]


def _share(items: Sequence[Document], ids: Collection[str | None], texts: Collection[str | None]) -> bool:
    """Return whether some of the documents are in the input; unknown documents may be."""
    if not items:
        return True
    return any(item.id in ids if item.id is not None and ids else item.text in texts for item in items)


def chunks_in(read: Read) -> Sequence[str]:
    """Return the texts of the nodes that one of LlamaIndex's synthesizers was given; none of other steps."""
    given = read.span.attributes.get(read.reader.input_key)
    chunks = (
        mapping_of(given).get("text_chunks") if isinstance(given, str) and '"text_chunks"' in given else None
    )
    return [text for text in chunks if isinstance(text, str)] if isinstance(chunks, list) else ()


def _handed_over(step: Read, number: int, reads: Iterable[Read]) -> Sequence[str]:
    """Return the texts of so many nodes that the next synthesizer was given, if nothing ran in between."""
    for read in reads:
        if read.span.started_ns >= step.span.ended_ns:
            if read.is_retrieval or read.role in ("rerank", "join"):
                break
            if len(chunks := chunks_in(read)) == number:
                return chunks
    return ()


def _join_of(
    short: Sequence[Document], full: Sequence[Document], chunks: Sequence[str]
) -> tuple[Document, ...]:
    """Return the complete documents that a step names only by id; none if one is unknown.

    Texts that the step changed or added are the chunks', one for each.
    """
    if all(item.text is not None for item in short):
        return tuple(short)
    known = {item.id: item for item in full if item.id is not None}
    joined: list[Document] = []
    for place, item in enumerate(short):
        found = known.get(item.id or "")
        if chunks and (found is None or letters_of(found.text or "") not in letters_of(chunks[place])):
            found = (found or item)._replace(text=chunks[place])
        if found is None:
            return ()
        joined.append(found if item.score is None else found._replace(score=item.score))
    return tuple(joined)


def missing_in(seen: Iterable[Seen]) -> Missing | None:
    """Return the first reason why documents are missing."""
    return next((missing for item in seen if (missing := item.documents.missing) is not None), None)
