"""The nodes of a LlamaIndex request that reached the model, in order; runs on the meter's worker.

The request's own prompts are the truth: those of the calls on which the answer rests (`reading.contexts`);
where no call's reply is the answer, those of all syntheses. Where no prompt is visible, or none shows a node,
the record of the run decides: the input of a synthesis, else the nodes that a workflow's steps passed on,
else the output of postprocessors, else that of retrievers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from ragmeter.adapters._snapshots import ContextSnapshot
from ragmeter.adapters.reading.contexts import shown_documents
from ragmeter.adapters.reading.prompts import Prompt, shown_in_prompts
from ragmeter.adapters.reading.route import OpenList, Run
from ragmeter.adapters.reading.step import Step

from ._payloads import Nodes
from ._stages import followed, joined, without_repetitions
from ._state import Notes, RetrievalNote, StepNote, Synthesis


class Reached(NamedTuple):
    """The nodes known to have reached the model."""

    nodes: Nodes | None
    """The nodes in order; None: nothing is known, ``()``: there were none."""
    rejected: frozenset[Run] = frozenset()
    """The scopes without any node that the response names."""
    by_prompt: bool = False
    """Whether a prompt showed them."""


def nodes_that_reached(ended: Notes, calls: Sequence[Step], answer: str | None, handed: Nodes = ()) -> Reached:
    """Return the nodes that reached the model; those `handed` to the request were found before it began."""
    way = followed(ended.trail)
    given = {scope for scope, _ in way.given}
    found = sorted((one for one in way.open if one.run.scope not in given), key=lambda one: one.run.order)
    lists: dict[Run, list[Iterable[ContextSnapshot]]] = {}
    for scope, documents in (*way.given, *((one.run.scope, one.documents) for one in found)):
        lists.setdefault(scope, []).append(documents)
    parts = {scope: without_repetitions(lists[scope]) for scope in sorted(lists, key=lambda run: run.order)}
    if handed:
        parts.setdefault(ended.top, handed)
    for note in ended.retrievals:
        if note.part is not None and note.contexts:
            parts[note.run] = note.contexts
    if not parts:
        return Reached(
            joined(passed.contexts for passed in ended.trail if isinstance(passed, Synthesis)) or None
        )
    searched = {passed.run.scope for passed in ended.trail if isinstance(passed, RetrievalNote)}
    rejected = rejected_scopes(parts, given, ended.source_ids) & searched  # rows of a database stay
    for scope in rejected:
        del parts[scope]
    nodes = without_repetitions(parts.values())
    seen = _seen(ended, calls, answer, nodes, this_turn=bool(handed))
    if seen is not None:
        return Reached(seen, rejected, by_prompt=True)
    own = [scope for scope in parts if scope not in given]
    left = _handed_on(ended, found, joined(parts[scope] for scope in own)) if own else None
    if left is not None:
        parts |= {scope: left if scope is own[0] else () for scope in own}
        nodes = without_repetitions(parts.values())
    if len(parts) + len(rejected) > 1 or own:
        nodes = _named(nodes, ended.source_ids) or nodes
    return Reached(nodes, rejected)


def rejected_scopes(
    parts: Mapping[Run, Nodes], given: Collection[Run], source_ids: Sequence[str]
) -> frozenset[Run]:
    """Return the scopes without any node that the response names: rejected attempts.

    The nodes of those `given` were input of a synthesis.
    """
    if (len(parts) == 1 and given) or not _named(joined(parts.values()), source_ids):
        return frozenset()
    return frozenset(scope for scope, nodes in parts.items() if nodes and not _named(nodes, source_ids))


def _named(nodes: Nodes, source_ids: Sequence[str]) -> Nodes:
    """Return the nodes that the response names, in its order."""
    rank = {id_: place for place, id_ in enumerate(source_ids)}
    named = [item for item in nodes if item.id in rank]
    return tuple(sorted(named, key=lambda item: rank[str(item.id)]))


def _seen(
    ended: Notes, calls: Sequence[Step], answer: str | None, nodes: Nodes, *, this_turn: bool
) -> Nodes | None:
    """Return the nodes that the answering calls saw; None if no call's prompt shows any node."""
    pool = without_repetitions([nodes, *(part for step in ended.steps for part in (step.taken, step.given))])
    if not pool:
        return None

    def read(answering: Sequence[Step]) -> tuple[tuple[ContextSnapshot, ContextSnapshot], ...] | None:
        return shown_documents(
            answering,
            pool,
            answer=answer,
            question=ended.question,
            queries=[note.query for note in ended.retrievals],
            after_ns=max((note.ended_order or 0 for note in ended.retrievals), default=0),
            are_whole=True,
            this_turn=this_turn,
        )

    stood = read(calls)
    if not stood and any(call.group for call in calls):
        # The replies to synthesizers are the answer, whatever the application made of them.
        synthesizers = [replace(call, answers=call.answers or bool(call.group)) for call in calls]
        stood = read(synthesizers) or stood
    if stood is None:
        return None
    seen = tuple(shown if shown is item else shown._replace(write=None) for item, shown in stood)
    visible = {call.group for call in calls if call.sent}
    hidden = [
        passed.contexts
        for passed in ended.trail
        if isinstance(passed, Synthesis) and not passed.combines and str(id(passed)) not in visible
    ]
    return without_repetitions([seen, tuple(item for item in joined(hidden) if item in nodes)])


def _handed_on(ended: Notes, lists: Sequence[OpenList], found: Nodes) -> Nodes | None:
    """Return the retrieved nodes that a workflow's steps passed on; None if their events do not show it.

    The steps that received nodes and passed none on are those that used them: of several the one that ended
    the run, else the last. Nodes retrieved later are theirs, too.
    """

    def found_since(steps: Sequence[StepNote]) -> Nodes:
        since = min(step.run.order for step in steps)
        return joined(one.documents for one in lists if one.run.order > since)

    keys = {item.id for item in found} | {item.text for item in found}
    groups: dict[str | None, list[StepNote]] = {}
    for step in ended.steps:
        groups.setdefault(step.run.name, []).append(step)
    users = [
        steps
        for steps in groups.values()
        if any(item.id in keys for step in steps for item in step.taken)
        and not any(item.id in keys for step in steps for item in step.given)
    ]
    if users:
        last = max(users, key=lambda steps: (any(step.stops for step in steps), steps[-1].run.order))
        taken = joined(step.taken for step in last)
        used = tuple(item for item in taken if item.id in keys or item.text in keys)
        later = found_since(last)
        return without_repetitions([(*without_repetitions([used]), *later)])
    for steps in sorted(groups.values(), key=lambda steps: -steps[-1].run.order):
        strings = [text for step in steps for text in step.strings]
        texts = [item.text for item in found]
        shown = shown_in_prompts(texts, [Prompt(strings)], ended.question) if strings else None
        if shown:
            later = found_since(steps)
            cut = (
                item if one.text is None else item._replace(text=one.text, write=None)
                for one in shown
                for item in [found[one.passage]]
            )
            return without_repetitions([(*cut, *later)])
    named = {item.id for item in ended.output.nodes}
    return tuple(item for item in found if item.id in named) or None
