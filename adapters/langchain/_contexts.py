"""Which documents of a LangChain request reached the model, in order; runs on the meter's worker.

Retrievers say what was found; functions, nodes and tools between them and the model may have
given out something else. These rules follow the documents from one to the other, by the
notes that were taken on the way. Used by `_build` only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from ragmeter.adapters._snapshots import ContextSnapshot
from ragmeter.adapters.reading.prompts import Prompt, seen_in_prompts
from ragmeter.adapters.reading.step import Step

from ._stages import Trail
from ._state import OpenRequest, Passage, Paste, RetrievalNote, Run

__all__ = ["candidates", "contexts_used", "counted_retrievals"]


class _Item(NamedTuple):
    """A document on its way to the model: when it came, and from which run."""

    snapshot: ContextSnapshot
    order: int
    run: Run


def counted_retrievals(
    request: OpenRequest, answering: Step | None
) -> tuple[list[RetrievalNote], bool]:
    """Return the retrievals that count, in start order, and whether passages stand for them."""
    notes = [note for note in request.retrievals if _is_outermost(note)]
    notes = _not_given_up(notes)
    if notes:
        return sorted(notes, key=lambda note: note.run.order), False
    if request.options.strict or not request.llms:
        return [], False
    return _not_given_up(_passage_retrievals(request, answering)), True


def candidates(
    request: OpenRequest,
    notes: Sequence[RetrievalNote],
    used: Sequence[ContextSnapshot],
) -> list[ContextSnapshot]:
    """Return all documents of this request that a prompt may show, those by the rules for runs first.

    What functions made of documents counts, but not documents that a function was only given: a
    graph's state may hold those of earlier turns.
    """
    found = list(used)
    known = Counter(item.text for item in used)
    retrieved = [item for note in notes for item in note.contexts or ()]
    _add(found, known, retrieved)
    if request.options.strict:
        return found
    own = {item.text for item in retrieved}
    for passage in request.passages:
        foreign = {text for texts in (passage.taken or {}).values() for text in texts} - own
        made = [item for item in passage.documents if item.text not in foreign]
        _add(found, known, made)
        own.update(item.text for item in made)
    return found


def _add(
    found: list[ContextSnapshot], known: Counter[str], more: Iterable[ContextSnapshot]
) -> None:
    """Add what is missing: of each text as many as there are in the source that has the most."""
    seen = Counter[str]()
    for item in more:
        seen[item.text] += 1
        if seen[item.text] > known[item.text]:
            known[item.text] += 1
            found.append(item)


def _is_outermost(note: RetrievalNote) -> bool:
    """Return whether no finished retriever encloses this one.

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
    note.contexts = passage.documents
    note.ended_ns = passage.ended_ns
    note.ended_order = passage.ended_order
    return note


def _passage_retrievals(request: OpenRequest, answering: Step | None) -> list[RetrievalNote]:
    """Return functions that gave out documents of their own; before the model answered, if any."""
    limit = None if answering is None else answering.started_ns
    found: list[Passage] = []
    later: list[Passage] = []
    seen: set[str] = set()
    for passage in request.passages:
        texts = {item.text for item in passage.documents}
        if passage.taken is not None or (texts and texts <= seen):
            continue
        seen |= texts
        (found if limit is None or passage.ended_order < limit else later).append(passage)
    return [_as_note(passage) for passage in found or later]


def contexts_used(
    request: OpenRequest,
    notes: Sequence[RetrievalNote],
    answering: Step | None,
    answer: str | None,
    *,
    replace: bool,
    trail: Trail,
) -> tuple[ContextSnapshot, ...] | None:
    """Return what reached the model by the runs: what was retrieved, as functions in between left it.

    The stages that it passed are noted in `trail`.
    """
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
    trail.found(request, notes, items)
    if request.options.strict:
        return tuple(item.snapshot for item in items)
    limit = None if answering is None else answering.started_ns
    steps: list[Passage | Paste] = [*request.passages, *_pastes(request, answer)]
    for step in sorted(steps, key=lambda step: step.ended_order):
        run = step.run
        if limit is not None and step.ended_order > limit:
            continue
        if _failed_attempt(run) is not None or (limit is None and run.parent is None):
            continue
        before, recorded = items, isinstance(step, Passage)
        items = (
            _after_passage(items, step, replace=replace)
            if isinstance(step, Passage)
            else _cut_as_text(items, step)
        )
        if items is not before:
            trail.passed(run, before, items, recorded=recorded)
    return tuple(item.snapshot for item in _given_to_model(items, request, answering))


def _after_passage(items: list[_Item], passage: Passage, *, replace: bool) -> list[_Item]:
    """Apply a function that took documents, or retrieved them, and gave out others or another order."""
    run, texts = passage.run, {item.text for item in passage.documents}
    foreign = set[str]()
    if passage.taken is None:
        taken = [
            item
            for item in items
            if run.order < item.order < passage.ended_order and _is_within(item.run, run)
        ]
        is_part = texts <= {item.snapshot.text for item in taken}
        if not (replace and is_part and len(passage.given) == 1):
            return items
    elif run.children_retrievals:
        return items
    else:
        # In a stream a function begins before what it waits for has ended.
        before = passage.ended_order if passage.streamed else run.order
        early = [item for item in items if item.order < before]
        found = {item.snapshot.text for item in early}
        # A list that holds anything else is not from here: the conversation's, an earlier turn's.
        own = {key: held for key, held in passage.taken.items() if found.issuperset(held)}
        foreign = {text for held in passage.taken.values() for text in held} - found
        used = {text for key in _lists_used(passage, own, texts) for text in own[key]}
        taken = [item for item in early if item.snapshot.text in used]
    given = [
        _Item(one, passage.ended_order, run) for one in passage.documents if one.text not in foreign
    ]
    gone = set(map(id, taken))
    return _in_place_of(items, lambda item: id(item) in gone, given)


def _lists_used(
    passage: Passage, own: Mapping[str, tuple[str, ...]], texts: AbstractSet[str]
) -> set[str]:
    """Return the lists that became what a function gave out; the others reach the model as they were.

    A list given out under its own key replaces the one that stood there; one under a new key those that
    it shares texts with. A list that is not given out at all is used up, unless a state goes on
    around the function: a graph's, or a mapping that one value is added to.
    """
    if not _is_part_of_state(passage.run):
        return set(own) - passage.passed_on
    used = {key for key, held in own.items() if key in passage.given or not texts.isdisjoint(held)}
    is_only_one = sum(map(bool, (passage.taken or {}).values())) == 1
    return used or (set(own) if is_only_one else set())


def _is_part_of_state(run: Run) -> bool:
    """Return whether what a function gives out is put into a state that holds more than that."""
    if any(tag.startswith(_STATE_TAGS) for tag in run.tags or ()):
        return True
    return run.parent is not None and (run.parent.name or "").startswith("RunnableAssign")


_STATE_TAGS = ("map:key:", "graph:step:")


def _in_place_of(
    items: list[_Item], leaves: Callable[[_Item], bool], given: list[_Item]
) -> list[_Item]:
    """Return items with those that leave replaced, where the first of them stood."""
    place = next((at for at, item in enumerate(items) if leaves(item)), None)
    if place is None:
        return items
    return [
        *items[:place],
        *given,
        *(item for item in items[place:] if not leaves(item)),
    ]


def _pastes(request: OpenRequest, answer: str | None) -> list[Paste]:
    """Return what functions made of documents as text; not what models, or functions as such, answered."""
    said = {id(run) for note in request.llms for run in _around(note.run)}
    return [
        paste
        for paste in request.pastes
        if id(paste.run) not in said
        and not (answer and any(_is_answer(text.strip(), answer, request) for text in paste.given))
    ]


def _is_answer(text: str, answer: str, request: OpenRequest) -> bool:
    """Return whether a text is the answer, or where no model is seen, becomes a part of it."""
    return text == answer.strip() or (not request.llms and text in answer)


def _cut_as_text(items: list[_Item], paste: Paste) -> list[_Item]:
    """Apply a function that turned documents into text, or cut such a text: some may be gone."""
    texts = Counter(paste.documents)
    if not texts and paste.strings:
        shown = seen_in_prompts([item.snapshot.text for item in items], [Prompt(paste.strings)])
        texts = Counter(items[index].snapshot.text for index in shown or ())
    retrieved = {id(note.run) for note in paste.run.children_retrievals or ()}

    def is_given(item: _Item) -> bool:
        return item.order < paste.ended_order and (
            item.snapshot.text in texts or id(item.run) in retrieved
        )

    given = [item for item in items if is_given(item)]
    seen = seen_in_prompts([item.snapshot.text for item in given], [Prompt(paste.given)])
    if seen is None or len(seen) == len(given):
        return items
    # Half of it at least is documents, or it is an answer that quotes one.
    kept = [_Item(*given[index]) for index in seen]
    shown_length = sum(len(item.snapshot.text) for item in kept)
    if 2 * shown_length < sum(map(len, paste.given)):
        return items
    return _in_place_of(items, is_given, kept)


def _around(run: Run) -> Iterator[Run]:
    current: Run | None = run
    while current is not None:
        yield current
        current = current.parent


def _given_to_model(
    items: list[_Item], request: OpenRequest, answering: Step | None
) -> list[_Item]:
    """Leave out documents that the functions around the answering calls were not given any more.

    A graph's state may overwrite what an earlier node had retrieved, and its reducers drop
    duplicates.  What was retrieved elsewhere, e.g. by the chain of another sub-question, is not in question.
    """
    if answering is None:
        readers = [request.reader]
    else:
        ends = [item.order for item in items if item.order < answering.started_ns]
        since = max(ends, default=0)
        # Calls since the last retrieval answer together, e.g. one per document.
        runs = [note.run for note in request.llms if since <= note.run.order]
        readers = [_given_documents(run) for run in runs if run.order <= answering.started_ns]
    given = [run for run in readers if run is not None and run.documents]
    if not given or given[-1].parent is None:
        return items
    copies = Counter[str]()
    for run in given:
        copies |= Counter(text for pairs in (run.documents or {}).values() for _, text in pairs)
    if not any(item.snapshot.text in copies for item in items):
        return items
    first, around = min(run.order for run in given), given[-1].parent
    kept: list[_Item] = []
    for item in items:
        text = item.snapshot.text
        if item.order < first and _is_within(item.run, around):
            if copies[text] <= 0:
                continue
            copies[text] -= 1
        kept.append(item)
    return kept


def _is_within(run: Run, around: Run) -> bool:
    return any(current is around for current in _around(run))


def _given_documents(run: Run) -> Run | None:
    """Return the nearest function around a model call, the root excepted, that was given documents."""
    current = run.parent
    while current is not None and current.parent is not None:
        if current.documents and any(current.documents.values()):
            return current
        current = current.parent
    return None
