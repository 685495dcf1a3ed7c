"""The stages that a LlamaIndex request's nodes passed, with their output; runs on the meter's worker.

Retrievers, postprocessors, a workflow's steps and synthesizers were recorded as they ended. The input of each
is the lists of its own scope, and those with ids that it names; `reading.route` follows them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from ragmeter.adapters._snapshots import ContextSnapshot
from ragmeter.adapters.reading.route import Lists, OpenList, Run
from ragmeter.adapters.reading.stages import joined as joined_lists

from ._payloads import Nodes
from ._state import Passed, Postprocessed, RetrievalNote, StepNote, Synthesis


def followed(
    trail: Iterable[Passed], seen: Iterable[ContextSnapshot] | None = None, left_out: Collection[Run] = ()
) -> Lists:
    """Follow the nodes of a request; return the lists that are left.

    Args:
        trail: The stages, in the order in which they ended; a synthesis when it began.
        seen: The nodes that a prompt showed; None: no prompt shows any.
        left_out: Scopes that are ignored: rejected attempts.
    """
    trail = [one for one in trail if isinstance(one, StepNote) or one.run.scope not in left_out]
    way = Lists([one for one in trail if isinstance(one, RetrievalNote)])
    shown = set(_keys(seen or ()))
    steps: dict[str | None, list[StepNote]] = {}  # of one name: each may receive a part of the nodes
    for one in trail:
        if isinstance(one, StepNote) and one.given and not one.stops:
            steps.setdefault(one.run.name, []).append(one)
    closed: list[tuple[Synthesis, list[OpenList]]] = []
    for one in trail:
        if isinstance(one, RetrievalNote):
            if one.outer is None:
                way.retrieved(one)
        elif isinstance(one, StepNote):
            alike = steps.get(one.run.name, [])
            if alike[-1:] == [one]:
                _stepped(way, alike)
        elif isinstance(one, Postprocessed):
            _postprocessed(way, one)
        elif not one.combines:
            lists = way.received(one.run.scope, {node.id for node in one.contexts})
            lists = way.take(lists, one.contexts) if lists else lists
            way.close(lists, one.run.scope, one.contexts)
            closed.append((one, lists))
    for one, lists in closed if seen is not None else ():
        left = [node for node in one.contexts if (node.id, node.text) in shown]
        if len(left) < len(one.contexts) and lists and set(lists) <= set(way.closed):
            way.replace(lists, one.name, "synthesizer", left, recorded=False)
    return way


def _postprocessed(way: Lists, note: Postprocessed) -> None:
    lists = way.received(note.run.scope, note.taken)
    if not lists:
        return
    taken = [one for one in lists if one.has(note.taken)] or lists[-1:]
    if note.taken or not note.contexts:  # else an override has renamed its arguments
        taken = way.take(taken, [node for one in taken for node in one.documents if node.id in note.taken])
    way.replace(taken, note.name, "postprocessor", note.contexts)


def _stepped(way: Lists, steps: Sequence[StepNote]) -> None:
    given = tuple({(node.id, node.text): node for step in steps for node in step.given}.values())
    nodes = joined(step.taken for step in steps)
    taken = way.with_any(nodes)
    # Else it retrieved itself.
    taken = way.take(taken, nodes) if taken else way.with_any(given)
    if taken and _keys(given) != _keys(joined(one.documents for one in taken)):
        way.replace(taken, (steps[0].run.name or "").rpartition(".")[2], "function", given)


def joined(lists: Iterable[Iterable[ContextSnapshot]]) -> Nodes:
    """Return the nodes of all lists."""
    return tuple(node for nodes in lists for node in nodes)


def without_repetitions(lists: Iterable[Iterable[ContextSnapshot]]) -> Nodes:
    """Join lists of nodes; a node in several lists counts as often as in one of them."""
    return joined_lists(lists, lambda node: (node.id, node.text))


def _keys(nodes: Iterable[ContextSnapshot]) -> list[tuple[str | None, str]]:
    return [(node.id, node.text) for node in nodes]
