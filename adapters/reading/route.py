"""The documents' way from retrievers to the model, replayed from the inputs and outputs of runs.

It decides which stages the documents passed and, where no prompt shows them, which of them reached the model.
A source records its runs with inputs and outputs; this module interprets them: document by document where
functions take any of them (`Route`), list by list where steps take whole ones (`Lists`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeVar

from ragmeter.adapters._snapshots import ContextSnapshot
from ragmeter.metrics.sample import StageKind

from .prompts import Prompt, seen_in_prompts
from .stages import MAX_STAGES, SeenStage, joined

if TYPE_CHECKING:
    from typing_extensions import Self

    from ragmeter.adapters._parts import InnerRequest

    from .results import RetrievalTool


class Run:
    """A run as reported by its framework, linked to its caller."""

    name: str | None = None
    kind: str = "chain"
    """``retriever``, ``tool``, a model's call (``llm``), or a kind that counts as a function."""
    parent: Self | None = None
    """The run around it; None: it is the request itself."""
    order = 0
    """Its begin, as a position in the order of the request's events."""
    failed = False
    """Whether it raised."""

    @property
    def scope(self) -> Run:
        """The nearest run around it, or itself, that is neither a retriever nor a workflow's step."""
        run = self
        while run.parent is not None and run.kind in ("retriever", "step"):
            run = run.parent
        return run

    @property
    def texts(self) -> Sequence[str]:
        """Texts of its input documents."""
        return ()

    @property
    def is_part_of_state(self) -> bool:
        """Whether its output becomes a part of a larger state."""
        return False


class _Note(Protocol):
    @property
    def run(self) -> Run: ...


N = TypeVar("N", bound=_Note)


Who = Literal["tool", "function"]


@dataclass(slots=True, eq=False)
class Found:
    """A retrieval, of a retriever or of a tool or function that retrieved."""

    run: Run
    query: str | None = None
    outer: Run | None = None
    """The retriever around it: it then counts as a stage only."""
    contexts: tuple[ContextSnapshot, ...] | None = None
    """The documents found; None if unknown, or if it failed."""
    ended_order: int | None = None
    """Its end, as a position in the order of the request's events; None if it never ended."""
    error_type: str | None = None
    rule: RetrievalTool | None = None
    """The rule by which the documents are read from `result`; None: they are known."""
    result: Any = None
    """The output of a tool or function."""
    part: InnerRequest | None = None
    """The request of another framework that retrieved."""

    @property
    def who(self) -> Who:
        """Its kind, if it is no retriever."""
        return "tool" if self.run.kind == "tool" else "function"

    @property
    def name(self) -> str:
        """Its run's name."""
        return self.run.name or ""


def runs_around(run: Run | None) -> list[Run]:
    """Return a run and its ancestors, up to the request itself."""
    around: list[Run] = []
    while run is not None:
        around.append(run)
        run = run.parent
    return around


def last_attempts(notes: Iterable[N]) -> list[N]:
    """Return retrievals in start order, without attempts that failed and were followed by another one."""
    notes = sorted(notes, key=lambda note: note.run.order)
    attempts = [failed_attempt(note.run) for note in notes]
    last = None if None in attempts or not attempts else attempts[-1]
    return [note for note, attempt in zip(notes, attempts, strict=True) if attempt is last]


def without_failures(notes: Iterable[N]) -> list[N]:
    """Leave out what belongs to a failed attempt."""
    return [note for note in notes if failed_attempt(note.run) is None]


def failed_attempt(run: Run) -> Run | None:
    """Return the topmost failed run around `run`, the request itself excepted."""
    failed = [one for one in runs_around(run) if one.failed and one.parent is not None]
    return failed[-1] if failed else None


class Stages:
    """The stages that documents passed, with retrievers within others as stages of their own."""

    def __init__(self, inner: Iterable[Found] = ()) -> None:
        self.stages: list[SeenStage] = []
        """The stages, each after those whose documents were its input."""
        self._inner: dict[int, list[Found]] = {}
        for note in inner:
            self._inner.setdefault(id(note.outer), []).append(note)

    def _retriever(self, note: Found) -> int | None:
        """Add a retriever after those within it."""
        within = self._inner.pop(id(note.run), [])
        if len(within) == 1 and within[0].run.name == note.run.name and within[0].contexts == note.contexts:
            return self._retriever(within[0])  # an override that delegates to its base
        places = [self._retriever(one) for one in within]
        inputs = tuple(place for place in places if place is not None)
        kind: StageKind = "tool" if note.run.kind == "tool" else "function"
        if note.run.kind == "retriever":
            kind = "fusion" if len(inputs) > 1 else "postprocessor" if inputs else "retriever"
        return self._add(SeenStage(note.run.name or kind, kind, note.contexts, inputs))

    def _add(self, stage: SeenStage) -> int | None:
        if len(self.stages) >= MAX_STAGES:
            return None
        self.stages.append(stage)
        return len(self.stages) - 1


@dataclass(frozen=True, slots=True)
class Passage:
    """A run that output documents without being a retriever."""

    run: Run
    ended_order: int
    ended_ns: int
    taken: Mapping[str, Sequence[str]] | None
    """Texts of its input documents, list by list; None if it had none."""
    given: Mapping[str, Sequence[ContextSnapshot]]
    """The lists of its output documents, without those only passed on."""
    passed_on: frozenset[str] = frozenset()
    """Keys of the lists that it output unchanged."""
    streamed: bool = False
    """Whether its input became known at its end: it may have begun before there were documents."""

    @property
    def documents(self) -> tuple[ContextSnapshot, ...]:
        """All its output documents."""
        return tuple(item for documents in self.given.values() for item in documents)


class Paste(NamedTuple):
    """A run that output strings, which may hold some or all documents."""

    run: Run
    ended_order: int
    documents: Sequence[str]
    """Texts of its input documents."""
    strings: Sequence[str]
    """Its input strings, which may contain documents."""
    given: Sequence[str]
    """Its output strings."""


def candidates(
    retrieved: Sequence[ContextSnapshot], passages: Iterable[Passage], used: Sequence[ContextSnapshot]
) -> tuple[ContextSnapshot, ...]:
    """Return all documents of a request that a prompt may show, those by the runs first.

    Documents that functions made count, documents that were only their input do not: a graph's state may hold
    those of earlier turns.
    """
    lists: list[Sequence[ContextSnapshot]] = [used, retrieved]
    own = {item.text for item in retrieved}
    for passage in passages:
        foreign = {text for texts in (passage.taken or {}).values() for text in texts} - own
        lists.append([item for item in passage.documents if item.text not in foreign])
        own.update(item.text for item in lists[-1])
    return joined(lists)


@dataclass(frozen=True, slots=True)
class _Item:
    """A document on its way to the model."""

    document: ContextSnapshot
    order: int
    """Its time of arrival, in the order of events."""
    run: Run
    """The run that output it."""
    stage: int | None = None
    """The index of the last stage that it left."""


class Route(Stages):
    """The documents of one request on their way.

    Args:
        notes: The retrievals that count.
        others: All other retrievals that did not fail: those within a counted one are its stages.
    """

    def __init__(self, notes: Sequence[Found], others: Iterable[Found] = ()) -> None:
        super().__init__(others)
        self._items = [
            _Item(document, note.ended_order or note.run.order, note.run, place)
            for note in notes
            for place in [self._retriever(note)]
            for document in note.contexts or ()
        ]
        self._retrieving = {id(run) for note in notes for run in runs_around(note.run)}

    @property
    def documents(self) -> tuple[ContextSnapshot, ...]:
        """The documents not left out, in order."""
        return tuple([item.document for item in self._items])

    def follow(self, steps: Iterable[Passage | Paste], until: int | None, *, joins: bool = True) -> None:
        """Follow the documents through the steps between retrievers and model.

        Args:
            steps: The runs that output documents or strings.
            until: The begin of the answering call; None if no such call was seen.
            joins: Whether a step that itself retrieved may select from its results.
        """
        for step in sorted(steps, key=lambda step: step.ended_order):
            is_late = step.run.parent is None if until is None else step.ended_order > until
            if is_late or failed_attempt(step.run) is not None:
                continue
            if isinstance(step, Paste):
                self._pasted(step)
            else:
                self._passed(step, joins=joins)

    def _passed(self, passage: Passage, *, joins: bool) -> None:
        """Replace the documents a step received or retrieved by its output."""
        run, texts = passage.run, {item.text for item in passage.documents}
        foreign = set[str]()
        if passage.taken is None:
            taken = [item for item in self._items if run in runs_around(item.run)]
            chosen = texts <= {item.document.text for item in taken}
            if not (joins and chosen and len(passage.given) == 1):
                return
        elif id(run) in self._retrieving:
            return
        else:
            # In a stream a function begins before the end of its input.
            before = passage.ended_order if passage.streamed else run.order
            early = [item for item in self._items if item.order < before]
            found = {item.document.text for item in early}
            # A list with any other document is not from here: the conversation's, an earlier turn's.
            own = {key: held for key, held in passage.taken.items() if found.issuperset(held)}
            foreign = {text for held in passage.taken.values() for text in held} - found
            taken = _nearest(
                run, early, [text for key in _lists_used(passage, own, texts) for text in own[key]]
            )
        self._replace(
            taken,
            [_Item(one, passage.ended_order, run) for one in passage.documents if one.text not in foreign],
            run,
        )

    def _pasted(self, paste: Paste) -> None:
        """Leave out the documents that a step omitted when it made text of documents, or cut such text."""
        texts = paste.documents
        if not texts and paste.strings:
            held = [item.document.text for item in self._items]
            shown = seen_in_prompts(held, [Prompt(paste.strings)])
            texts = [held[place] for place in shown or ()]
        early = [item for item in self._items if item.order < paste.ended_order]
        gone = {id(item) for item in _nearest(paste.run, early, texts)}
        taken = [item for item in early if id(item) in gone or paste.run in runs_around(item.run)]
        seen = seen_in_prompts([item.document.text for item in taken], [Prompt(paste.given)])
        if seen is None or len(seen) == len(taken):
            return
        # Documents make up at least half of it; else it is an answer that quotes one.
        kept = [taken[place] for place in seen]
        shown_length = sum(len(item.document.text) for item in kept)
        if 2 * shown_length >= sum(map(len, paste.given)):
            self._replace(taken, kept, paste.run, recorded=False)

    def _replace(
        self, taken: Sequence[_Item], given: Sequence[_Item], run: Run, *, recorded: bool = True
    ) -> None:
        """Insert a run's output at the position of the first document it received."""
        if not taken:
            return
        if [item.document.text for item in taken] == [item.document.text for item in given]:
            # The same documents through an enclosing sequence of the function that selected them.
            places = [item.stage for item in taken]
        else:
            kind: StageKind = "tool" if run.kind == "tool" else "function"
            documents = [item.document for item in given]
            inputs = {item.stage for item in taken if item.stage is not None}
            stage = SeenStage(run.name or kind, kind, documents, tuple(sorted(inputs)), recorded)
            places = [self._add(stage)] * len(given)
        new = [
            _Item(item.document, item.order, item.run, place) for item, place in zip(given, places, strict=True)
        ]
        gone = set(map(id, taken))
        first = next(place for place, item in enumerate(self._items) if id(item) in gone)
        left = [item for item in self._items[first:] if id(item) not in gone]
        self._items[first:] = [*new, *left]

    def give_to(self, readers: Sequence[Run]) -> None:
        """Leave out documents no longer among the inputs of the functions around the answering calls.

        A graph's state may overwrite what an earlier node had retrieved, and its reducers drop duplicates.
        Documents retrieved elsewhere, by the chain of another sub-question, are unaffected. Of `readers`, in
        start order, those with input documents count.
        """
        readers = [run for run in readers if run.texts]
        if not readers or readers[-1].parent is None:
            return
        copies = Counter[str]()
        for run in readers:
            copies |= Counter(run.texts)
        if not any(item.document.text in copies for item in self._items):
            return
        first, around = readers[0].order, readers[-1].parent
        kept: list[_Item] = []
        for item in self._items:
            if item.order < first and around in runs_around(item.run):
                copies[item.document.text] -= 1
                if copies[item.document.text] < 0:
                    continue
            kept.append(item)
        self._items = kept

    def ended_before(self, until: int) -> int:
        """Return the order of the last document that arrived before `until`; 0 if none did."""
        return max([item.order for item in self._items if item.order < until], default=0)


def _nearest(run: Run, items: Sequence[_Item], texts: Iterable[str]) -> list[_Item]:
    """Return the items with texts that a run received; of equal ones those that arrived nearest to it.

    Another sub-question may have found the same document, which remains its own.
    """
    copies = Counter(texts)
    received = [item for item in items if item.document.text in copies]
    if len({item.document.text for item in received}) == len(received):
        return received
    places = {id(one): place for place, one in enumerate(runs_around(run))}
    distances: dict[int, int] = {}
    for item in received:
        around = (places.get(id(one)) for one in runs_around(item.run))
        distances[id(item)] = next((place for place in around if place is not None), len(places))
    nearest: dict[str, int] = {}
    chosen = set[int]()
    for item in sorted(received, key=lambda one: distances[id(one)]):
        text, distance = item.document.text, distances[id(item)]
        if distance == nearest.setdefault(text, distance) or copies[text] > 0:
            chosen.add(id(item))
            copies[text] -= 1
    return [item for item in received if id(item) in chosen]


def _lists_used(passage: Passage, own: Mapping[str, Sequence[str]], texts: set[str]) -> set[str]:
    """Return the lists from which a function made its output; the others reach the model unchanged.

    An output list under its own key replaces the previous one; one under a new key replaces those with shared
    texts. A list that is not output is used up, unless a state continues around the function: a graph's, or a
    mapping to which one value is added.
    """
    if not passage.run.is_part_of_state:
        return set(own) - passage.passed_on
    used = {key for key, held in own.items() if key in passage.given or not texts.isdisjoint(held)}
    is_only_one = sum(map(bool, (passage.taken or {}).values())) == 1
    return used or (set(own) if is_only_one else set())


@dataclass(frozen=True, slots=True, eq=False)
class OpenList:
    """A list of documents that no later step has taken."""

    place: int | None
    """The index of the last stage that it left."""
    run: Run
    """The retriever that found the first of its documents."""
    documents: Sequence[ContextSnapshot]

    def has(self, ids: Collection[str | None]) -> bool:
        """Return whether one of its documents has such an id."""
        return any(item.id in ids for item in self.documents)


class Lists(Stages):
    """The lists of documents of one request on their way; a step takes whole ones.

    Where it was given fewer documents than there were, an unseen step lies between: a stage without a name.
    """

    def __init__(self, inner: Iterable[Found] = ()) -> None:
        super().__init__(inner)
        self.open: list[OpenList] = []
        self.closed: list[OpenList] = []
        """Those of which the model was given the documents, without any later step."""
        self.given: list[tuple[Run, Sequence[ContextSnapshot]]] = []
        """What the model was given, with the scope in which it was."""

    def retrieved(self, note: Found) -> None:
        """Follow the list of a retrieval that has ended."""
        place = self._retriever(note)
        if note.contexts is not None:
            self.open.append(OpenList(place, note.run, note.contexts))

    def received(self, scope: Run, ids: Collection[str | None]) -> list[OpenList]:
        """Return the lists found in a step's scope, and those with other documents that it received."""
        found = [one for one in self.open if one.run.scope is scope]
        for lists in (self.open, self.closed):
            left = set(ids).difference(item.id for one in found for item in one.documents)
            found += [one for one in lists if one.has(left)]
        return found

    def with_any(self, documents: Iterable[ContextSnapshot]) -> list[OpenList]:
        """Return the lists with any of these documents, by their ids."""
        ids = {item.id for item in documents}
        return [one for one in self.open if one.has(ids)]

    def take(self, lists: list[OpenList], documents: Sequence[ContextSnapshot]) -> list[OpenList]:
        """Return the lists of which a step received these documents; if not all, a nameless stage's."""
        ids = {item.id for item in documents}
        if all(item.id in ids for one in lists for item in one.documents):
            return lists
        return [self.replace(lists, "unknown", "unknown", documents, recorded=False)]

    def replace(
        self,
        lists: Sequence[OpenList],
        name: str,
        kind: StageKind,
        documents: Sequence[ContextSnapshot],
        *,
        recorded: bool = True,
    ) -> OpenList:
        """Replace the lists that a step received by its output."""
        inputs = tuple([one.place for one in lists if one.place is not None])
        place = self._add(SeenStage(name, kind, documents, inputs, recorded))
        left = OpenList(place, min((one.run for one in lists), key=lambda run: run.order), documents)
        self._remove(lists)
        self.open.append(left)
        return left

    def close(self, lists: Sequence[OpenList], scope: Run, documents: Sequence[ContextSnapshot]) -> None:
        """Record what the model was given in a scope, from these lists; a later step may still use them."""
        self._remove(lists)
        self.closed += lists
        self.given.append((scope, documents))

    def _remove(self, lists: Sequence[OpenList]) -> None:
        self.open = [one for one in self.open if one not in lists]
        self.closed = [one for one in self.closed if one not in lists]
