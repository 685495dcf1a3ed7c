"""Which stages the nodes of a LlamaIndex request passed; runs on the meter's worker.

Retrievers, postprocessors, a workflow's steps and synthesizers were noted as they ended.  Here each is
told whose nodes it was given: those of its own scope, or those whose ids it names.  Where a stage was given
less than was there, something in between was not seen, and is a stage without a name.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from ragmeter.adapters.reading.stages import MAX_STAGES, SeenStage
from ragmeter.metrics.sample import StageKind

from ._contexts import Reached
from ._payloads import Nodes, NodeSnapshot
from ._state import Ended, Postprocessed, RetrievalNote, ScopeNote, StepNote, Synthesis

__all__ = ["stages_passed"]


@dataclass(slots=True)
class _List:
    """A list of nodes on its way: which stage it left, in which scope."""

    place: int
    scope: ScopeNote | None
    nodes: Nodes

    def has(self, ids: AbstractSet[str | None]) -> bool:
        return any(item.id in ids for item in self.nodes)


def stages_passed(
    ended: Ended, reached: Reached, left_out: AbstractSet[ScopeNote]
) -> list[SeenStage]:
    """Return the stages that nodes passed before they reached the model.

    Args:
        ended: The request as it ended.
        reached: What reached the model.
        left_out: Scopes whose nodes the response does not name: rejected attempts.
    """
    way = _Way(ended, reached)
    for passed in ended.trail:
        if len(way.stages) >= MAX_STAGES:
            break
        if isinstance(passed, StepNote):
            way.stepped(passed)
        elif passed.scope in left_out:
            continue
        elif isinstance(passed, RetrievalNote):
            way.retrieved(passed)
        elif isinstance(passed, Postprocessed):
            way.postprocessed(passed)
        else:
            way.synthesized(passed)
    return way.stages


class _Way:
    """The nodes of one request on their way."""

    def __init__(self, ended: Ended, reached: Reached) -> None:
        self.stages: list[SeenStage] = []
        self._lists: list[_List] = []
        self._counted = {id(note) for note in ended.retrievals}
        self._within: dict[int, list[RetrievalNote]] = {}
        self._seen = {(n.id, n.text) for n in reached.nodes or ()} if reached.by_prompt else None
        # Steps of one name are one stage: each may be handed a part of the nodes.
        self._steps: dict[str, list[StepNote]] = {}
        for step in ended.steps:
            if step.given and not step.stops:
                self._steps.setdefault(step.name, []).append(step)

    def retrieved(self, note: RetrievalNote) -> None:
        if note.within is not None:
            self._within.setdefault(id(note.within), []).append(note)
        elif id(note) in self._counted:
            place = self._retriever(note)
            self._lists.append(_List(place, note.scope, note.nodes or ()))

    def _retriever(self, note: RetrievalNote) -> int:
        inner = self._within.pop(id(note), [])
        if len(inner) == 1 and inner[0].name == note.name and inner[0].nodes == note.nodes:
            return self._retriever(inner[0])  # an override that hands on to its base
        inputs = tuple([self._retriever(one) for one in inner])
        kind: StageKind = (
            "retriever" if not inputs else "fusion" if len(inputs) > 1 else "postprocessor"
        )
        return self._add(SeenStage(note.name, kind, note.nodes, inputs))

    def postprocessed(self, note: Postprocessed) -> None:
        own = [item for item in self._lists if item.scope is note.scope]
        taken = [item for item in own if item.has(note.taken)] or own[-1:]
        if note.taken or not note.nodes:  # else an override has renamed its arguments
            given = [node for item in taken for node in item.nodes if node.id in note.taken]
            taken = self._handed_over(taken, given, note.taken)
        self._replace(taken, note.name, "postprocessor", note.nodes, note.scope)

    def stepped(self, last: StepNote) -> None:
        steps = self._steps.get(last.name, [])
        if last is not (steps[-1] if steps else None):
            return
        given = _each_once(node for step in steps for node in step.given)
        named = {node.id for step in steps for node in step.taken}
        taken = [item for item in self._lists if item.has(named)]
        if taken:
            nodes = [node for step in steps for node in step.taken]
            taken = self._handed_over(taken, nodes, named)
        else:  # it retrieved itself
            named = {node.id for node in given}
            taken = [item for item in self._lists if item.has(named)]
        if taken and _keys(given) != _keys([node for item in taken for node in item.nodes]):
            name = last.name.rpartition(".")[2]
            self._replace(taken, name, "function", given, taken[0].scope)

    def synthesized(self, synthesis: Synthesis) -> None:
        nodes = synthesis.given.nodes or ()
        ids = {node.id for node in nodes}
        lists = [item for item in self._lists if item.scope is synthesis.scope] or [
            item for item in self._lists if item.has(ids)
        ]
        if not lists:  # no recorded stage found them
            return
        taken = self._handed_over(lists, nodes, ids)
        if self._seen is None:
            return
        shown = tuple(node for node in nodes if (node.id, node.text) in self._seen)
        if len(shown) < len(nodes):
            self._replace(
                taken, synthesis.name, "synthesizer", shown, synthesis.scope, recorded=False
            )

    def _handed_over(
        self, lists: list[_List], nodes: Sequence[NodeSnapshot], ids: AbstractSet[str | None]
    ) -> list[_List]:
        """Return the lists that a stage was given; a nameless stage's where it was given less."""
        if all(node.id in ids for item in lists for node in item.nodes):
            return lists
        return [self._replace(lists, "unknown", "unknown", nodes, lists[0].scope, recorded=False)]

    def _replace(
        self,
        lists: Sequence[_List],
        name: str,
        kind: StageKind,
        nodes: Sequence[NodeSnapshot],
        scope: ScopeNote | None,
        *,
        recorded: bool = True,
    ) -> _List:
        """Put what a stage left in the place of what it was given."""
        inputs = tuple([item.place for item in lists])
        place = self._add(SeenStage(name, kind, nodes, inputs, recorded))
        self._lists = [item for item in self._lists if all(item is not one for one in lists)]
        left = _List(place, scope, tuple(nodes))
        self._lists.append(left)
        return left

    def _add(self, stage: SeenStage) -> int:
        self.stages.append(stage)
        return len(self.stages) - 1


def _keys(nodes: Iterable[NodeSnapshot]) -> list[tuple[str | None, str]]:
    return [(node.id, node.text) for node in nodes]


def _each_once(nodes: Iterable[NodeSnapshot]) -> Nodes:
    return tuple({(node.id, node.text): node for node in nodes}.values())
