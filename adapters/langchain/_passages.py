"""Notes the documents that chains and tools give out without being retrievers.

These "passages" tell what happened to documents between retriever and model: a reranking
function, a grading node, a vector store called by hand.  Called on the request's own path, at
the end of a run; what a passage means for the contexts is decided later in
`_capture`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ragmeter.adapters._snapshot import ContextSnapshot

from ._attachment import Attachment
from ._extraction import document_lists, snapshot_documents
from ._runs import Passage, RetrievalNote, Run, copied_lists, text_of

__all__ = ["add_passage", "enclosing_retriever", "note_passage"]


def note_passage(
    attached: Attachment, run: Run, outputs: object, late_inputs: object, now: int
) -> None:
    """Note the documents a chain gave out, if they are not just those it was given or retrieved."""
    if type(outputs) is str:
        return
    request = run.request
    given = document_lists(outputs)
    if not given or request.options.strict or enclosing_retriever(run) is not None:
        return
    taken = run.documents
    if taken is None and late_inputs is not None:
        lists = document_lists(late_inputs)
        taken = copied_lists(lists) if lists else None
    if taken is not None:
        # A state that is handed through: only the lists that are new or changed matter.
        given = {
            key: value for key, value in given.items() if not _same_list(value, taken.get(key))
        }
        documents = [item for value in given.values() for item in value]
        flat = [pair for value in taken.values() for pair in value]
        if not flat:
            taken = None
        elif not given or _same_list(documents, flat):
            return
    else:
        documents = [item for value in given.values() for item in value]
    if taken is None:
        notes = run.children_retrievals
        if notes and _as_retrieved(documents, notes):
            return
        if not notes and (request.retrievals or not documents):
            return
    texts = None if taken is None else tuple(text for value in taken.values() for _, text in value)
    add_passage(attached, run, now, texts, snapshot_documents(documents), len(given))


def add_passage(
    attached: Attachment,
    run: Run,
    now: int,
    taken: tuple[str, ...] | None,
    given: tuple[ContextSnapshot, ...],
    lists: int,
) -> None:
    request = run.request
    request.passages.append(Passage(run, next(request.clock), now, taken, given, lists))
    attached.tracker.requests.grow(request.root.run_id.int, sum(item.size_bytes for item in given))


def _same_list(documents: Sequence[Any], pairs: Sequence[tuple[Any, str]] | None) -> bool:
    """Tell whether documents are the same objects with the same texts."""
    return (
        pairs is not None
        and len(documents) == len(pairs)
        and all(
            document is before and text_of(document) is text
            for document, (before, text) in zip(documents, pairs, strict=True)
        )
    )


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
