"""The stages that a LlamaIndex request's nodes passed, with their output; runs on the meter's worker.

Retrievers, postprocessors, a workflow's steps and synthesizers were recorded as they ended. The input of each
is the nodes of its own scope, or those whose ids it names. Where a stage received fewer nodes than there
were, an unseen step lies between, which becomes a stage without a name.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from ragmeter.adapters._snapshots import ContextSnapshot
from ragmeter.adapters.reading.stages import MAX_STAGES, SeenStage
from ragmeter.adapters.reading.stages import joined as joined_lists
from ragmeter.metrics.sample import StageKind

from ._payloads import Nodes
from ._state import Passed, Postprocessed, RetrievalNote, StepNote, Synthesis


class _List(NamedTuple):
    """A list of nodes on its way."""

    place: int
    """The index of the last stage that it left."""
    scope: int
    contexts: Nodes
    started: int
    """The begin of its retrieval, in the order of events."""

    def has(self, ids: AbstractSet[str | None]) -> bool:
        return any(item.id in ids for item in self.contexts)


class Way:
    """The nodes of one request on their way.

    Args:
        trail: The stages, in the order in which they ended; a synthesis when it began.
        seen: The nodes that a prompt showed; None: no prompt shows any.
        left_out: Scopes that are ignored: rejected attempts.
    """

    def __init__(
        self,
        trail: Iterable[Passed],
        seen: Iterable[ContextSnapshot] | None = None,
        left_out: AbstractSet[int] = frozenset(),
    ) -> None:
        self.stages: list[SeenStage] = []
        self.given: dict[int, list[Nodes]] = {}
        """By scope, the input of each synthesis."""
        self.combined: list[Nodes] = []
        """The input of syntheses that join sub-answers."""
        self._lists: list[_List] = []
        self._within: dict[int, list[RetrievalNote]] = {}
        self._seen = None if seen is None else {(item.id, item.text) for item in seen}
        # Steps of one name are one stage: each may receive a part of the nodes.
        self._steps: dict[str, list[StepNote]] = {}
        trail = list(trail)
        for step in trail:
            if isinstance(step, StepNote) and step.given and not step.stops:
                self._steps.setdefault(step.name, []).append(step)
        for passed in trail:
            if isinstance(passed, StepNote):
                self._stepped(passed)
            elif passed.scope in left_out:
                continue
            elif isinstance(passed, RetrievalNote):
                self._retrieved(passed)
            elif isinstance(passed, Postprocessed):
                self._postprocessed(passed)
            else:
                self._synthesized(passed)

    @property
    def parts(self) -> dict[int, Nodes]:
        """By scope, the nodes that syntheses received, or else those found there."""
        lists = dict(self.given)
        for item in sorted(self._lists, key=lambda item: item.started):
            if item.scope not in self.given:
                lists.setdefault(item.scope, []).append(item.contexts)
        return {scope: without_repetitions(lists[scope]) for scope in sorted(lists)}

    def found_since(self, since: int) -> Nodes:
        """Return the nodes found after a moment that no synthesis received."""
        lists = (item for item in self._lists if item.scope not in self.given)
        return joined(item.contexts for item in lists if item.started > since)

    def _retrieved(self, note: RetrievalNote) -> None:
        if note.within is not None:
            self._within.setdefault(id(note.within), []).append(note)
            return
        place = self._retriever(note)
        if note.contexts is not None:
            self._lists.append(_List(place, note.scope, note.contexts, note.started))

    def _retriever(self, note: RetrievalNote) -> int:
        inner = self._within.pop(id(note), [])
        if len(inner) == 1 and inner[0].name == note.name and inner[0].contexts == note.contexts:
            return self._retriever(inner[0])  # an override that delegates to its base
        inputs = tuple([self._retriever(one) for one in inner])
        kind: StageKind = "retriever" if not inputs else "fusion" if len(inputs) > 1 else "postprocessor"
        return self._add(SeenStage(note.name, kind, note.contexts, inputs))

    def _postprocessed(self, note: Postprocessed) -> None:
        own = [item for item in self._lists if item.scope == note.scope]
        if not own or note.scope in self.given:
            return
        taken = [item for item in own if item.has(note.taken)] or own[-1:]
        if note.taken or not note.contexts:  # else an override has renamed its arguments
            nodes = [node for item in taken for node in item.contexts if node.id in note.taken]
            taken = self._handed_over(taken, nodes, note.taken)
        self._replace(taken, note.name, "postprocessor", note.contexts)

    def _stepped(self, last: StepNote) -> None:
        steps = self._steps.get(last.name, [])
        if last is not (steps[-1] if steps else None):
            return
        given = tuple({(n.id, n.text): n for step in steps for n in step.given}.values())
        nodes = joined(step.taken for step in steps)
        named = {node.id for node in nodes}
        taken = [item for item in self._lists if item.has(named)]
        if taken:
            taken = self._handed_over(taken, nodes, named)
        else:  # it retrieved itself
            named = {node.id for node in given}
            taken = [item for item in self._lists if item.has(named)]
        if taken and _keys(given) != _keys(joined(item.contexts for item in taken)):
            self._replace(taken, last.name.rpartition(".")[2], "function", given)

    def _synthesized(self, synthesis: Synthesis) -> None:
        nodes = synthesis.contexts
        if synthesis.combines:
            self.combined.append(nodes)
            return
        self.given.setdefault(synthesis.scope, []).append(nodes)
        ids = {node.id for node in nodes}
        lists = [item for item in self._lists if item.scope == synthesis.scope] or [
            item for item in self._lists if item.has(ids)
        ]
        if not lists:  # no recorded stage found them
            return
        taken = self._handed_over(lists, nodes, ids)
        if self._seen is None:
            return
        shown = tuple(node for node in nodes if (node.id, node.text) in self._seen)
        if len(shown) < len(nodes):
            self._replace(taken, synthesis.name, "synthesizer", shown, recorded=False)

    def _handed_over(
        self, lists: list[_List], nodes: Sequence[ContextSnapshot], ids: AbstractSet[str | None]
    ) -> list[_List]:
        """Return the lists a stage received; those of a nameless stage only if it received less."""
        if all(node.id in ids for item in lists for node in item.contexts):
            return lists
        return [self._replace(lists, "unknown", "unknown", nodes, recorded=False)]

    def _replace(
        self,
        lists: Sequence[_List],
        name: str,
        kind: StageKind,
        nodes: Sequence[ContextSnapshot],
        *,
        recorded: bool = True,
    ) -> _List:
        """Replace a stage's input by its output."""
        inputs = tuple([item.place for item in lists if item.place >= 0])
        place = self._add(SeenStage(name, kind, nodes, inputs, recorded))
        started = min(item.started for item in lists)
        left = _List(place, lists[0].scope, tuple(nodes), started)
        self._lists = [item for item in self._lists if all(item is not one for one in lists)]
        self._lists.append(left)
        return left

    def _add(self, stage: SeenStage) -> int:
        if len(self.stages) >= MAX_STAGES:
            return -1
        self.stages.append(stage)
        return len(self.stages) - 1


def joined(lists: Iterable[Nodes]) -> Nodes:
    """Return the nodes of all lists."""
    return tuple(node for nodes in lists for node in nodes)


def without_repetitions(lists: Iterable[Nodes]) -> Nodes:
    """Join lists of nodes; a node in several lists counts as often as in one of them."""
    return joined_lists(lists, lambda node: (node.id, node.text))


def _keys(nodes: Iterable[ContextSnapshot]) -> list[tuple[str | None, str]]:
    return [(node.id, node.text) for node in nodes]
