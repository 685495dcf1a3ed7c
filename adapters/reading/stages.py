"""The stages that a request's documents passed, as adapters record them, converted for a sample.

Knows no framework. A document that passes several stages is one object in all of them, so that a sample has
only the size of its texts, in memory and when sent to another process. Runs on the worker.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from ragmeter.metrics import RetrievalStage, RetrievedContext
from ragmeter.metrics.sample import StageKind

if TYPE_CHECKING:
    from typing_extensions import Self

MAX_STAGES = 100
"""Maximum stages stored per request: the first ones. An agent may search for hours."""


class SourceDocument(Protocol):
    """A document as its source reports it, a named tuple; its text may be missing."""

    @property
    def text(self) -> str | None: ...
    @property
    def id(self) -> str | None: ...
    @property
    def score(self) -> float | None: ...
    @property
    def metadata(self) -> Mapping[Any, Any]: ...
    def _replace(self, *, text: str) -> Self: ...


D = TypeVar("D", bound=SourceDocument)


class SeenStage(NamedTuple):
    """A stage, and the copies of the documents that left it."""

    name: str
    kind: StageKind
    documents: Sequence[SourceDocument] | None
    """The documents that left it, in order; None if unknown."""
    inputs: tuple[int, ...] = ()
    """Indices of the stages whose documents were its input."""
    recorded: bool = True
    """Whether the framework reported it as a stage."""


def to_contexts(documents: Iterable[SourceDocument]) -> tuple[RetrievedContext, ...]:
    """Convert documents to contexts; a copy whose text its framework has yet to render is rendered."""
    return tuple(
        [
            RetrievedContext(
                text=write[0](*write[1:])
                if (write := getattr(item, "write", None)) is not None
                else item.text or "",
                id=item.id,
                score=item.score,
                metadata=dict(item.metadata),
            )
            for item in documents
        ]
    )


class SharedContexts:
    """Makes contexts of copies: one per copy, however often it is requested."""

    def __init__(self) -> None:
        self._made: dict[int, tuple[SourceDocument, RetrievedContext]] = {}
        self._alike: dict[tuple[str | None, str | None], RetrievedContext] = {}

    def of(self, documents: Iterable[SourceDocument]) -> tuple[RetrievedContext, ...]:
        """Return the contexts of exactly these copies."""
        documents = tuple(documents)
        made = self._made
        new = [item for item in documents if id(item) not in made]
        for item, context in zip(new, to_contexts(new), strict=True):
            made[id(item)] = item, context  # the copy is held, so that its identity is not reused
            self._alike.setdefault((item.id, item.text), context)
        return tuple([made[id(item)][1] for item in documents])

    def passing(self, documents: Sequence[SourceDocument]) -> tuple[RetrievedContext, ...]:
        """Return contexts of these documents, reusing those of other copies."""
        alike = self._alike
        self.of([item for item in documents if (item.id, item.text) not in alike])
        return tuple([alike[item.id, item.text] for item in documents])


def joined(lists: Iterable[Iterable[D]], key: Callable[[D], Hashable] = attrgetter("text")) -> tuple[D, ...]:
    """Join lists of documents; a document in several lists counts as often as in one of them."""
    most: dict[Hashable, int] = {}
    kept: list[D] = []
    for documents in lists:
        here: dict[Hashable, int] = {}
        for item in documents:
            alike = key(item)
            here[alike] = number = here.get(alike, 0) + 1
            if number > most.get(alike, 0):
                most[alike] = number
                kept.append(item)
    return tuple(kept)


def to_stages(stages: Iterable[SeenStage], shared: SharedContexts) -> tuple[RetrievalStage, ...]:
    """Convert the stages to those of a sample."""
    return tuple(
        RetrievalStage(
            name=stage.name,
            kind=stage.kind,
            contexts=None if stage.documents is None else shared.passing(stage.documents),
            inputs=stage.inputs,
            recorded=stage.recorded,
        )
        for stage in stages
    )
