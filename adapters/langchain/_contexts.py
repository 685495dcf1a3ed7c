"""Which documents of a LangChain request reached the model, in order; runs on the meter's worker.

Retrievers say what was found; functions, nodes and tools between them and the model may have
given out something else. These rules follow the documents from one to the other, by the
notes that were taken on the way. Used by `_capture` only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ragmeter.adapters._snapshot import ContextSnapshot

from ._runs import LlmNote, OpenRequest, Passage, RetrievalNote, Run

__all__ = ["answering_llm", "contexts_used", "counted_retrievals"]


class _Item(NamedTuple):
    """A document on its way to the model: when it came, and from which run."""

    snapshot: ContextSnapshot
    order: int
    run: Run


def counted_retrievals(request: OpenRequest) -> tuple[list[RetrievalNote], bool]:
    """Return the retrievals that count, in start order, and whether they were told by passages."""
    notes = [note for note in request.retrievals if _is_outermost(note)]
    notes.extend(_tool_retrievals(request))
    notes = _not_given_up(notes)
    if notes:
        return sorted(notes, key=lambda note: note.run.order), False
    if request.options.strict or not request.llms:
        return [], False
    return _not_given_up(_passage_retrievals(request)), True


def _is_outermost(note: RetrievalNote) -> bool:
    """Tell whether no finished retriever encloses this one.

    An enclosing retriever that was cancelled never ends: then its inner ones are all there is.
    """
    outer = note.outer
    return outer is None or outer.note is None or outer.note.contexts is None


def _not_given_up(notes: list[RetrievalNote]) -> list[RetrievalNote]:
    """Leave out retrievals of attempts that failed and were followed by another one."""
    kept = [note for note in notes if _failed_attempt(note.run) is None]
    if kept or not notes:
        return kept
    last = max(notes, key=lambda note: note.run.order)
    attempt = _failed_attempt(last.run)
    return [note for note in notes if _failed_attempt(note.run) is attempt]


def _failed_attempt(run: Run) -> Run | None:
    """Return the topmost failed run around `run`, the root excepted."""
    failed: Run | None = None
    current: Run | None = run
    while current is not None and current.parent is not None:
        if current.failed:
            failed = current
        current = current.parent
    return failed


def _as_note(passage: Passage) -> RetrievalNote:
    note = RetrievalNote(passage.run, None, None)
    note.contexts = passage.given
    note.ended_ns = passage.ended_ns
    note.ended_order = passage.ended_order
    return note


def _tool_retrievals(request: OpenRequest) -> list[RetrievalNote]:
    """Return tools that gave out documents without a retriever below them."""
    if request.options.strict:
        return []
    return [
        _as_note(passage)
        for passage in request.passages
        if passage.run.kind == "tool" and not passage.run.children_retrievals
    ]


def _passage_retrievals(request: OpenRequest) -> list[RetrievalNote]:
    """Return functions that gave out documents of their own; before the model answered, if any."""
    limit = _answering_order(request)
    found: list[Passage] = []
    later: list[Passage] = []
    seen: set[str] = set()
    for passage in request.passages:
        texts = {item.text for item in passage.given}
        if passage.taken is not None or (texts and texts <= seen):
            continue
        seen |= texts
        (found if limit is None or passage.ended_order < limit else later).append(passage)
    return [_as_note(passage) for passage in found or later]


def answering_llm(request: OpenRequest) -> LlmNote | None:
    """Return the last finished model call outside any retriever."""
    return max(request.llms, key=lambda note: note.run.order, default=None)


def _answering_order(request: OpenRequest) -> int | None:
    note = answering_llm(request)
    return None if note is None else note.run.order


def contexts_used(
    request: OpenRequest, notes: Sequence[RetrievalNote], *, replace: bool
) -> tuple[ContextSnapshot, ...] | None:
    """Return what reached the model: what was retrieved, as functions in between left it."""
    if all(note.contexts is None for note in notes):
        return None
    items = [
        _Item(
            snapshot,
            note.ended_order if note.ended_order is not None else note.run.order,
            note.run,
        )
        for note in notes
        for snapshot in note.contexts or ()
    ]
    if request.options.strict:
        return tuple(item.snapshot for item in items)
    limit = _answering_order(request)
    for passage in request.passages:
        run = passage.run
        if limit is not None and passage.ended_order > limit:
            continue
        if _failed_attempt(run) is not None or (limit is None and run.parent is None):
            continue
        if passage.taken is not None:
            items = _replaced(items, passage)
        elif replace:
            items = _narrowed(items, passage)
    return tuple(item.snapshot for item in _seen_by_model(request, items))


def _replaced(items: list[_Item], passage: Passage) -> list[_Item]:
    """Apply a function that took documents retrieved before it and gave out others."""
    taken = set(passage.taken or ())
    before = passage.run.order
    if not taken or passage.run.children_retrievals:
        return items
    if not taken <= {item.snapshot.text for item in items if item.order < before}:
        return items
    result: list[_Item] = []
    placed = False
    for item in items:
        if item.order < before and item.snapshot.text in taken:
            if not placed:
                placed = True
                result.extend(
                    _Item(given, passage.ended_order, passage.run) for given in passage.given
                )
            continue
        result.append(item)
    return result


def _narrowed(items: list[_Item], passage: Passage) -> list[_Item]:
    """Apply a function that retrieved and then gave out a part of it, or another order."""
    start, end = passage.run.order, passage.ended_order
    inside = {item.snapshot.text for item in items if start < item.order < end}
    if passage.lists != 1 or not inside or not {given.text for given in passage.given} <= inside:
        return items
    result: list[_Item] = []
    placed = False
    for item in items:
        if start < item.order < end:
            if not placed:
                placed = True
                result.extend(_Item(given, end, passage.run) for given in passage.given)
            continue
        result.append(item)
    return result


def _seen_by_model(request: OpenRequest, items: list[_Item]) -> list[_Item]:
    """Leave out documents that the functions around the answering calls were not given any more.

    A graph's state may overwrite what an earlier node had retrieved. Documents of earlier turns in
    that state change nothing: only documents of this request are ever kept. What was retrieved
    elsewhere, e.g. by the chain of another sub-question, is not in question.
    """
    answering = answering_llm(request)
    if answering is None:
        return items
    ends = [item.order for item in items if item.order < answering.run.order]
    since = max(ends, default=0)
    place: dict[str, int] = {}
    first: int | None = None
    last: Run | None = None
    lists = 0
    for note in request.llms:
        # Calls since the last retrieval answer together, e.g. one per document.
        if note.run.order < since:
            continue
        run = _given_documents(note.run)
        if run is None or run.documents is None:
            continue
        last = run
        first = run.order if first is None else min(first, run.order)
        for documents in run.documents.values():
            lists += bool(documents)
            for _, text in documents:
                place.setdefault(text, len(place))
    around = None if last is None else last.parent
    if around is None or not any(item.snapshot.text in place for item in items):
        return items
    kept = [
        item
        for item in items
        if item.snapshot.text in place
        or (first is not None and item.order > first)
        or not _is_within(item.run, around)
    ]
    if lists != 1:
        return kept
    given = iter(
        sorted(
            (item for item in kept if item.snapshot.text in place),
            key=lambda item: place[item.snapshot.text],
        )
    )
    return [next(given) if item.snapshot.text in place else item for item in kept]


def _is_within(run: Run, around: Run) -> bool:
    current: Run | None = run
    while current is not None and current is not around:
        current = current.parent
    return current is around


def _given_documents(run: Run) -> Run | None:
    """Return the nearest function around a model call, the root excepted, that was given documents."""
    current = run.parent
    while current is not None and current.parent is not None:
        if current.documents and any(current.documents.values()):
            return current
        current = current.parent
    return None
