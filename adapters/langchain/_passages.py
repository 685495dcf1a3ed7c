"""Records the documents in the output of chains and tools that are no retrievers.

These "passages" show the changes to documents between retriever and model: a reranking function, a grading
node, a direct call of a vector store. Functions' output strings are recorded beside them, as "pastes":
documents may have been cut after they became text. `_contexts` interprets both.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from sys import getsizeof
from typing import Any

from ragmeter.adapters._snapshots import ContextSnapshot, bytes_of_new
from ragmeter.adapters.reading.route import Passage, Paste

from ._answers import answer_in, note_output
from ._payloads import DOCUMENT_KEYS, MOST_FOUND, copied_lists, document_lists, snapshot_documents, text_of
from ._state import RetrievalNote, Run

MIN_LENGTH = 12
"""Strings of fewer characters are labels, not documents."""


def note_passage(run: Run, outputs: object, late_inputs: object, now: int) -> None:
    """Record a chain's output documents, unless they are exactly those it received or retrieved."""
    request = run.request
    given = document_lists(outputs)
    # A function that received documents rejected all; not one of several that run in parallel: its list may be
    # of something that the documents lack.
    if not given and type(outputs) is list and not outputs and "" in (run.documents or ()):
        given = {} if any(tag.startswith("map:key:") for tag in run.tags or ()) else {"": ()}
    if not given or request.options.strict or enclosing_retriever(run) is not None:
        return
    taken = run.documents
    streamed = taken is None and late_inputs is not None
    if streamed:
        lists = document_lists(late_inputs)
        taken = copied_lists(lists) if lists else None
    passed_on: frozenset[str] = frozenset()
    if taken is not None:
        # A state that is passed through: only lists that are new or changed matter.
        passed_on = frozenset(key for key, documents in given.items() if _same_list(documents, taken.get(key)))
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
    _add_passage(
        run,
        now,
        None if taken is None else {key: tuple(text for _, text in pairs) for key, pairs in taken.items()},
        {key: snapshot_documents(value) for key, value in given.items()},
        passed_on,
        streamed=streamed,
    )


def _add_passage(
    run: Run,
    now: int,
    taken: Mapping[str, tuple[str, ...]] | None,
    given: Mapping[str, tuple[ContextSnapshot, ...]],
    passed_on: frozenset[str] = frozenset(),
    *,
    streamed: bool = False,
) -> None:
    request = run.request
    order = next(request.clock)
    request.note("passages", Passage(run, order, now, taken, given, passed_on, streamed))
    for documents in given.values():
        request.loose_bytes += bytes_of_new(documents, request.known_texts)


def note_documents(run: Run, documents: Sequence[Any], now: int) -> None:
    """Record the documents beside a tool's text, unless retrievers below it found exactly these."""
    if not _as_retrieved(documents, run.children_retrievals or ()):
        _add_passage(run, now, None, {"": snapshot_documents(documents)})


def documents_beside_answer(outputs: object, inputs: object) -> tuple[ContextSnapshot, ...] | None:
    """Return documents beside an answer in the root's output; the last resort.

    A chain whose own constructor received the handler shows nothing else.
    """
    lists = document_lists(outputs)
    if not lists or answer_in(note_output(outputs, inputs), (), ()) is None:
        return None
    given = document_lists(inputs)
    for key in DOCUMENT_KEYS:
        if lists.get(key) and key not in given:
            return snapshot_documents(lists[key])
    return None


def documents_given(reader: Run, inputs: object) -> tuple[ContextSnapshot, ...]:
    """Return the input documents of a request, or of a function below it, found by an earlier request."""
    lists = document_lists(inputs) or {
        key: [document for document, _ in pairs] for key, pairs in (reader.documents or {}).items()
    }
    return snapshot_documents(_flat(lists))


def note_paste(run: Run, outputs: object, late_inputs: object) -> None:
    """Record the strings a function returned, with the documents and strings it received.

    Whether they are documents that it pasted or cut is determined later.
    """
    request = run.request
    given = (outputs,) if type(outputs) is str else strings_of(outputs)
    if not given or request.options.strict or run.retriever is not None:
        return
    documents: Sequence[str] = ()
    before = run.strings
    if late_inputs is not None:
        before = before or strings_of(late_inputs)
        if run.documents is None and (lists := document_lists(late_inputs)):
            documents = [text for one in copied_lists(lists).values() for _, text in one]
    request.pastes.append(Paste(run, next(request.clock), documents, before, given))
    request.loose_bytes += sum(map(getsizeof, given))


def strings_of(payload: Any) -> tuple[str, ...]:
    """Return the strings of a payload that may contain documents: itself, a list's, those under its keys."""
    found: list[str] = []
    values: Iterable[Any] = islice(payload.values(), MOST_FOUND) if type(payload) is dict else (payload,)
    for value in values:
        items: Any = value if type(value) in _LISTS and len(value) <= MOST_FOUND else (value,)
        for item in items:
            if type(item) is str and len(item) >= MIN_LENGTH:
                found.append(item)  # noqa: PERF401 -- a list built from a generator costs more calls
    return tuple(found)


_LISTS = frozenset({list, tuple})


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
    """Return whether a chain returned exactly what the retrievers below it found."""
    found = [
        (document, snapshot.text)
        for note in notes
        for document, snapshot in zip(note.documents, note.contexts or (), strict=False)
    ]
    return _same_list(documents, found)


def enclosing_retriever(run: Run) -> Run | None:
    """Return the nearest retriever around a run, except transparent ones."""
    current = run.retriever
    while current is not None and current.transparent:
        current = current.retriever
    return current
