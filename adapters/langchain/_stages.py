"""Which stages the documents of a LangChain request passed; runs on the meter's worker.

`_contexts` follows the documents from retrievers to the model and reports here what each run gave on:
what decides which documents count is what knows where the others were left.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ragmeter.adapters._snapshots import ContextSnapshot
from ragmeter.adapters.reading.stages import MAX_STAGES, SeenStage
from ragmeter.metrics.sample import StageKind

from ._passages import enclosing_retriever
from ._state import OpenRequest, RetrievalNote, Run

__all__ = ["Trail"]


class _OnItsWay(Protocol):
    """A document on its way to the model."""

    @property
    def snapshot(self) -> ContextSnapshot: ...
    @property
    def run(self) -> Run: ...


class Trail:
    """Notes the stages of one request.

    Attributes:
        stages: Those noted so far, in the order in which they ended.
    """

    def __init__(self) -> None:
        self.stages: list[SeenStage] = []
        self._left: dict[int, tuple[_OnItsWay, int]] = {}
        """Which stage each document left last; holds the documents, so that no identity comes twice."""

    def found(
        self, request: OpenRequest, notes: Sequence[RetrievalNote], items: Sequence[_OnItsWay]
    ) -> None:
        """Note the retrievals that count, and those within them."""
        within: dict[int, list[RetrievalNote]] = {}
        counted = {id(note) for note in notes}
        for note in (*request.nested, *request.retrievals):
            if id(note) not in counted and note.error_type is None:
                around = note.outer or enclosing_retriever(note.run)
                within.setdefault(id(around), []).append(note)
        places = {id(note.run): self._retrieved(note, within) for note in notes}
        for item in items:
            place = places[id(item.run)]
            if place is not None:
                self._left[id(item)] = item, place

    def _retrieved(self, note: RetrievalNote, within: dict[int, list[RetrievalNote]]) -> int | None:
        inner = [self._retrieved(one, within) for one in within.pop(id(note.run), ())]
        inputs = tuple(place for place in inner if place is not None)
        kind: StageKind = "retriever"
        if note.run.kind != "retriever":
            kind = "tool" if note.run.kind == "tool" else "function"
        elif inputs:
            kind = "fusion" if len(inputs) > 1 else "postprocessor"
        return self._add(SeenStage(note.run.name or kind, kind, note.contexts, inputs))

    def passed(
        self, run: Run, before: Sequence[_OnItsWay], after: Sequence[_OnItsWay], *, recorded: bool
    ) -> None:
        """Note what a run between retriever and model made of documents, if anything.

        Args:
            run: The run.
            before: All documents on their way before it.
            after: Those after it: what it took is not among them, what it gave on is new.
            recorded: Whether the framework said what it gave on.
        """
        kept, known = set(map(id, after)), set(map(id, before))
        taken = [item for item in before if id(item) not in kept]
        given = [item for item in after if id(item) not in known]
        if [item.snapshot.text for item in taken] == [item.snapshot.text for item in given]:
            # The same through other hands: a sequence around the function that chose them.
            for old, new in zip(taken, given, strict=True):
                if id(old) in self._left:
                    self._left[id(new)] = new, self._left[id(old)][1]
            return
        inputs = {self._left[id(item)][1] for item in taken if id(item) in self._left}
        kind: StageKind = "tool" if run.kind == "tool" else "function"
        documents = [item.snapshot for item in given]
        place = self._add(
            SeenStage(run.name or kind, kind, documents, tuple(sorted(inputs)), recorded)
        )
        if place is not None:
            for item in given:
                self._left[id(item)] = item, place

    def _add(self, stage: SeenStage) -> int | None:
        if len(self.stages) >= MAX_STAGES:
            return None
        self.stages.append(stage)
        return len(self.stages) - 1
