"""The retrievals of a LangChain request that count, and the documents that reached the model by its runs.

The documents are followed by `reading.route`; runs on the meter's worker. Used by `_build` only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from ragmeter.adapters.reading.route import Passage, Paste, Route, last_attempts, runs_around
from ragmeter.adapters.reading.step import Step

from ._state import OpenRequest, RetrievalNote, Run


def counted_retrievals(request: OpenRequest, answering: Step | None) -> tuple[list[RetrievalNote], bool]:
    """Return the retrievals that count, in start order, and whether passages replace them."""
    # No finished retriever is around it; one that was cancelled never ends: then its inner ones are known.
    notes = last_attempts(
        note
        for note in request.retrievals
        if note.outer is None or note.outer.note is None or note.outer.note.contexts is None
    )
    if notes:
        return notes, False
    if request.options.strict or not request.llms:
        return [], False
    return last_attempts(_passage_retrievals(request, answering)), True


def _passage_retrievals(request: OpenRequest, answering: Step | None) -> list[RetrievalNote]:
    """Return the functions that produced documents, before the model answered if any did."""
    limit = None if answering is None else answering.started_ns
    found: list[RetrievalNote] = []
    later: list[RetrievalNote] = []
    seen = {*request.brought}  # it only passes them on
    for passage in request.passages:
        texts = {item.text for item in passage.documents}
        if passage.taken is not None or (texts and texts <= seen):
            continue
        seen |= texts
        note = RetrievalNote(
            cast("Run", passage.run),
            contexts=passage.documents,
            ended_ns=passage.ended_ns,
            ended_order=passage.ended_order,
        )
        (found if limit is None or passage.ended_order < limit else later).append(note)
    return found or later


def follow(
    request: OpenRequest,
    notes: Sequence[RetrievalNote],
    answering: Step | None,
    answer: str | None,
    *,
    joins: bool,
) -> Route:
    """Follow the retrieved documents through the functions between; `joins` as in `Route.follow`.

    Those of another framework's request have passed its own stages.
    """
    notes = [note for note in notes if note.part is None]
    counts = set(map(id, notes))
    others = [
        note
        for note in (*request.nested, *request.retrievals)
        if id(note) not in counts and note.error_type is None and note.part is None
    ]
    route = Route(notes, others)
    if request.options.strict:
        return route
    until = None if answering is None else answering.started_ns
    steps: list[Passage | Paste] = [*request.passages, *_pastes(request, answer)]
    route.follow(steps, until, joins=joins)
    readers = [request.reader]
    if until is not None:
        since = route.ended_before(until)
        # Calls since the last retrieval answer together, e.g. one per document.
        runs = [note.run for note in request.llms if since <= note.run.order <= until]
        readers = [_given_documents(run) for run in runs]
    route.give_to([run for run in readers if run is not None])
    return route


def _pastes(request: OpenRequest, answer: str | None) -> list[Paste]:
    """Return the texts that functions made of documents, without the replies of models and the answer."""
    speaking = [note.run for note in request.llms]
    speaking += [note.run for note in request.retrievals if note.part is not None]
    said = {id(one) for run in speaking for one in runs_around(run)}
    whole = (answer or "").strip()
    pastes: list[Paste] = []
    for paste in request.pastes:
        handed_through = set(map(id, paste.strings))
        given = [text for text in paste.given if id(text) not in handed_through]
        if not given or id(paste.run) in said:
            continue
        # Not the answer, nor, where no model is seen, a text that becomes a part of it.
        texts = [text.strip() for text in given]
        becomes = answer and not request.llms and any(text in answer for text in texts)
        if not answer or not (whole in texts or becomes):
            documents = paste.documents or paste.run.texts
            pastes.append(paste._replace(documents=documents, given=given))
    return pastes


def _given_documents(run: Run) -> Run | None:
    """Return the nearest function around a model call, except the root, with documents as input."""
    current = run.parent
    while current is not None and current.parent is not None:
        if current.texts:
            return current
        current = current.parent
    return None
