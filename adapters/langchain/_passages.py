"""Notes the documents that chains and tools give out without being retrievers.

These "passages" tell what happened to documents between retriever and model: a reranking
function, a grading node, a vector store called by hand.  Strings that functions give out are noted
beside them, as "pastes": documents may have been cut after they became text.  Called on the request's
own path, at the end of a run; what it means for the contexts is decided later, in `_contexts`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ragmeter.adapters._snapshots import ContextSnapshot
from ragmeter.pipeline._weight import weight_of

from ._attachment import Attachment
from ._payloads import document_lists, snapshot_documents
from ._state import Passage, Paste, RetrievalNote, Run, copied_lists, text_of

__all__ = ["add_passage", "enclosing_retriever", "note_passage", "note_paste", "strings_of"]

MIN_LENGTH = 12
"""Strings of fewer characters are labels, not documents."""


def note_passage(
    attached: Attachment, run: Run, outputs: object, late_inputs: object, now: int
) -> None:
    """Note the documents a chain gave out, if they are not just those it was given or retrieved."""
    request = run.request
    given = document_lists(outputs)
    if not given or request.options.strict or enclosing_retriever(run) is not None:
        return
    taken = run.documents
    streamed = taken is None and late_inputs is not None
    if streamed:
        lists = document_lists(late_inputs)
        taken = copied_lists(lists) if lists else None
    passed_on: frozenset[str] = frozenset()
    if taken is not None:
        # A state that is handed through: only the lists that are new or changed matter.
        passed_on = frozenset(
            key for key, documents in given.items() if _same_list(documents, taken.get(key))
        )
        given = {key: documents for key, documents in given.items() if key not in passed_on}
        flat = [pair for pairs in taken.values() for pair in pairs]
        if not flat:
            taken = None
        elif not given or _same_list(_flat(given), flat):
            return
    documents = _flat(given)
    if taken is None:
        notes = run.children_retrievals
        if notes and _as_retrieved(documents, notes):
            return
        if not notes and (request.retrievals or not documents):
            return
    add_passage(
        attached,
        run,
        now,
        None
        if taken is None
        else {key: tuple(text for _, text in pairs) for key, pairs in taken.items()},
        {key: snapshot_documents(value) for key, value in given.items()},
        passed_on,
        streamed=streamed,
    )


def add_passage(
    attached: Attachment,
    run: Run,
    now: int,
    taken: Mapping[str, tuple[str, ...]] | None,
    given: Mapping[str, tuple[ContextSnapshot, ...]],
    passed_on: frozenset[str] = frozenset(),
    *,
    streamed: bool = False,
) -> None:
    request = run.request
    request.passages.append(
        Passage(run, next(request.clock), now, taken, given, passed_on, streamed)
    )
    size_bytes = sum(item.size_bytes for items in given.values() for item in items)
    attached.tracker.requests.grow(request.root.run_id.int, size_bytes)


def note_paste(run: Run, outputs: object, late_inputs: object) -> None:
    """Note the strings a function gave out, beside the documents and strings that it was given.

    Whether they are documents that it pasted or cut is found out later.
    """
    given = strings_of(outputs)
    request = run.request
    if not given or request.options.strict or run.retriever is not None:
        return
    before = run.strings or (() if late_inputs is None else strings_of(late_inputs))
    if before:
        handed_through = {id(text) for text in before}
        given = tuple([text for text in given if id(text) not in handed_through])
        if not given:
            return
    taken = run.documents
    if taken is None and late_inputs is not None:
        taken = copied_lists(document_lists(late_inputs))
    documents = () if not taken else tuple([text for one in taken.values() for _, text in one])
    request.pastes.append(Paste(run, next(request.clock), documents, before, given))
    for text in given:
        request.loose_bytes += weight_of(text)


def strings_of(payload: object) -> tuple[str, ...]:
    """Return the strings of a payload that may hold documents: itself, a list's, those under its keys."""
    if type(payload) is str:
        return (payload,) if len(payload) >= MIN_LENGTH else ()
    if type(payload) is list or type(payload) is tuple:
        return tuple(text for text in payload if type(text) is str and len(text) >= MIN_LENGTH)
    if type(payload) is not dict:
        return ()
    found: list[str] = []
    for value in payload.values():
        kind = type(value)
        if kind is str:
            if len(value) >= MIN_LENGTH:
                found.append(value)
        elif (kind is list or kind is tuple) and value and type(value[0]) is str:
            found += strings_of(value)
    return tuple(found)


def _flat(lists: Mapping[str, Sequence[Any]]) -> list[Any]:
    return [document for documents in lists.values() for document in documents]


def _same_list(documents: Sequence[Any], pairs: Sequence[tuple[Any, str]] | None) -> bool:
    """Return whether documents are the same objects with the same texts."""
    if pairs is None or len(documents) != len(pairs):
        return False
    for document, (before, text) in zip(documents, pairs, strict=True):
        if document is not before:
            return False
        if getattr(document, "page_content", None) is not text and text_of(document) is not text:
            return False
    return True


def _as_retrieved(documents: Sequence[Any], notes: Sequence[RetrievalNote]) -> bool:
    """Tell whether a chain gave out exactly what the retrievers below it had found."""
    found = [
        (document, snapshot.text)
        for note in notes
        for document, snapshot in zip(note.documents, note.contexts or (), strict=False)
    ]
    return _same_list(documents, found)


def enclosing_retriever(run: Run) -> Run | None:
    """Return the nearest retriever around a run that is not looked through."""
    current = run.retriever
    while current is not None and current.transparent:
        current = current.retriever
    return current
