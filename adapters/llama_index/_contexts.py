"""Which nodes of a LlamaIndex request reached the model, in order; runs on the meter's worker.

The request's own prompts are the truth.  Per scope: nodes that a synthesis was given are looked for in the
prompts of its calls; nodes that were only retrieved, in the prompts of the calls on which the answer rests
(`reading.contexts`).  Where no prompt is visible, or none shows a node, the notes of the run decide: what
was given to a synthesis, else what a workflow's steps handed on, else what postprocessors left, else what
retrievers returned.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from ragmeter.adapters.reading.calls import speakers_of
from ragmeter.adapters.reading.contexts import metadata_texts, stretches_in
from ragmeter.adapters.reading.prompts import Prompt, shown_in_prompts
from ragmeter.adapters.reading.step import Step, Unknown

from ._calls import group_of, prompts_of
from ._payloads import Nodes, NodeSnapshot, text_in_prompts
from ._state import Batch, Ended, ScopeNote, StepNote

__all__ = ["Reached", "model_nodes", "nodes_that_reached"]


class Reached(NamedTuple):
    """What is known of the nodes that reached the model."""

    nodes: Nodes | None
    """The nodes in order; None: nothing is known, ``()``: there were none."""
    rejected: frozenset[int]
    """Indices of the scopes none of whose nodes the response names."""
    by_prompt: bool
    """A prompt showed them."""


def nodes_that_reached(ended: Ended, calls: Sequence[Step], answer: str | None) -> Reached:
    """Decide what reached the model.

    Args:
        ended: The request as it ended.
        calls: Its model calls, as the reading knows them.
        answer: Its answer.
    """
    scopes = ended.scopes
    parts, by_prompt = _parts(ended, calls, answer)
    nodes, rejected = model_nodes(scopes, ended.source_ids, parts)
    return Reached(nodes, rejected, by_prompt)


def model_nodes(
    scopes: Sequence[ScopeNote],
    source_ids: Sequence[str],
    parts: Mapping[int, Nodes] | None = None,
) -> tuple[Nodes | None, frozenset[int]]:
    """Put together what the scopes gave to the model, and say which scopes the response left out.

    Args:
        scopes: The request's scopes in start order.
        source_ids: Ids of the nodes that the response names as its sources, in its order.
        parts: The nodes of each scope that has any, by its index; None: by the notes of the run.

    Returns:
        The nodes in order (None: nothing is known, ``()``: there were none), and the indices of the
        scopes none of whose nodes the response names.
    """
    known = _by_runs(scopes) if parts is None else parts
    if not known:
        combined = tuple(item for scope in scopes for item in _joined(_nodes(scope.combined)))
        return (combined or None), frozenset()
    nodes = _without_repetitions(list(known.values()))
    exact = len(known) == 1 and any(scopes[index].given for index in known)
    wanted = set(source_ids)
    if exact or not wanted.intersection(item.id for item in nodes):
        return nodes, frozenset()
    rank = {id_: place for place, id_ in enumerate(source_ids)}
    named = sorted(
        (item for item in nodes if item.id in wanted), key=lambda item: rank[str(item.id)]
    )
    rejected = frozenset(
        index
        for index, part in known.items()
        if part and wanted.isdisjoint(item.id for item in part)
    )
    return tuple(named), rejected


def _by_runs(scopes: Sequence[ScopeNote]) -> dict[int, Nodes]:
    return {
        index: _without_repetitions(_nodes(scope.given or scope.found))
        for index, scope in enumerate(scopes)
        if scope.given or scope.found
    }


def _nodes(batches: Iterable[Batch]) -> list[Nodes]:
    return [batch.nodes for batch in batches if batch.nodes is not None]


def _joined(batches: Iterable[Nodes]) -> Nodes:
    return tuple(item for batch in batches for item in batch)


def _without_repetitions(parts: Sequence[Nodes]) -> Nodes:
    """Join lists of nodes; what several of them have counts as often as it does in one of them."""
    most: Counter[tuple[str | None, str]] = Counter()
    kept: list[NodeSnapshot] = []
    for part in parts:
        here: Counter[tuple[str | None, str]] = Counter()
        for item in part:
            key = (item.id, item.text)
            here[key] += 1
            if here[key] > most[key]:
                most[key] += 1
                kept.append(item)
    return tuple(kept)


def _parts(
    ended: Ended, calls: Sequence[Step], answer: str | None
) -> tuple[dict[int, Nodes], bool]:
    """Return each scope's nodes, and whether a prompt showed any."""
    scopes = ended.scopes
    parts = _by_runs(scopes)
    question = ended.question
    by_prompt = False
    for index, scope in enumerate(scopes):
        if not scope.given:
            continue
        # A refining synthesis makes its last call only when its stream is read.
        is_last = index == len(scopes) - 1 - _empty_after(scopes)
        own = [
            call
            for call in ended.calls
            if call.synthesis in scope.given or (is_last and call.answers)
        ]
        seen = _seen(parts[index], prompts_of(own), question)
        if seen is not None:
            parts[index] = seen
            by_prompt = True
    for index in _not_chosen(scopes, calls, answer):
        parts.pop(index, None)
    retrieved = [index for index in parts if not scopes[index].given]
    if retrieved:
        by_prompt |= _narrow_retrieved(ended, calls, answer, parts, retrieved)
    return parts, by_prompt


def _not_chosen(scopes: Sequence[ScopeNote], calls: Sequence[Step], answer: str | None) -> set[int]:
    """Return the scopes whose replies were not taken: another engine answered, and was not sent them."""
    speakers = speakers_of(calls, answer)
    groups = {call.group for call in speakers}
    # The answer may be what a call said that was not heard: then none is known to be left out.
    unheard = any(isinstance(call.said, Unknown) for call in calls)
    if unheard or not groups or "" in groups or any(scope.combined for scope in scopes):
        return set()
    said = {call.words for call in speakers}
    read = "\n".join(text for call in calls if call.group in groups for _, text in call.sent)
    replies: dict[str, list[str]] = {}
    for call in calls:
        replies.setdefault(call.group, []).append(call.words)
    left_out = set()
    for index, scope in enumerate(scopes):
        own = [group_of(batch) for batch in scope.given]
        words = [one for group in own for one in replies.get(group, ())]
        if (
            words
            and groups.isdisjoint(own)
            and not any(one in said or one in read for one in words)
        ):
            left_out.add(index)
    return left_out


def _empty_after(scopes: Sequence[ScopeNote]) -> int:
    """Return how many scopes at the end were given nothing: a stream is read for the last that was."""
    after = 0
    for scope in reversed(scopes):
        if scope.given:
            break
        after += 1
    return after


def _narrow_retrieved(
    ended: Ended,
    calls: Sequence[Step],
    answer: str | None,
    parts: dict[int, Nodes],
    retrieved: Sequence[int],
) -> bool:
    """Keep of what was only retrieved what reached the model; return whether a prompt showed it."""
    found = _joined(parts[index] for index in retrieved)
    handed = _handed_on(ended, retrieved, found)
    known = {(item.id, item.text) for item in found}
    others = [
        item
        for step in ended.steps
        for item in (*step.taken, *step.given)
        if (item.id, item.text) not in known
    ]
    rewritten = tuple({(item.id, item.text): item for item in others}.values())
    seen = _seen_by_answering_calls(ended, calls, answer, (*found, *rewritten))
    chosen = seen if seen is not None else handed
    if chosen is not None:
        first, *rest = retrieved
        parts[first] = chosen
        for index in rest:
            del parts[index]
    return seen is not None


def _seen_by_answering_calls(
    ended: Ended, calls: Sequence[Step], answer: str | None, nodes: Nodes
) -> Nodes | None:
    """Return what of the nodes the answering calls saw; None: no call's prompt shows any."""
    if not nodes:
        return None
    stretches = stretches_in(
        calls,
        [text_in_prompts(item) for item in nodes],
        answer=answer,
        question=ended.question,
        queries=[note.query for note in ended.retrievals],
        are_whole=True,
        beside=metadata_texts((item.text, item.metadata) for item in nodes),
    )
    if stretches is None:
        return None
    return tuple(_cut(nodes[one.passage], one.text) for one in stretches)


def _cut(node: NodeSnapshot, text: str | None) -> NodeSnapshot:
    """Return what a prompt shows of a node."""
    return node if text is None else node._replace(text=text, stand_in=None)


def _seen(nodes: Nodes, prompts: Sequence[Prompt], question: str | None) -> Nodes | None:
    if not nodes or not prompts:
        return None
    shown = shown_in_prompts([text_in_prompts(item) for item in nodes], prompts, question)
    # Where nodes were too long for one call, what one of them lacks stands in the next one.
    is_split = len(prompts) > 1
    return (
        tuple(_cut(nodes[one.passage], None if is_split else one.text) for one in shown or ())
        or None
    )


def _handed_on(ended: Ended, retrieved: Sequence[int], found: Nodes) -> Nodes | None:
    """Return what a workflow's steps left of what was retrieved; None: their events do not show it.

    The steps that took nodes and handed none on are those that used them: of several the one that
    ended the run, else the last. What was retrieved later is theirs, too.
    """
    keys = {item.id for item in found} | {item.text for item in found}
    groups: dict[str, list[StepNote]] = {}
    for step in ended.steps:
        if any(item.id in keys or item.text in keys for item in step.taken):
            keys.update(item.id for item in step.given)
            keys.update(item.text for item in step.given)
        groups.setdefault(step.name, []).append(step)
    users = [
        steps
        for steps in groups.values()
        if any(item.id in keys for step in steps for item in step.taken)
        and not any(item.id in keys for step in steps for item in step.given)
    ]
    if users:
        last = max(users, key=lambda steps: (any(step.stops for step in steps), steps[-1].started))
        taken = _joined(step.taken for step in last)
        used = tuple(item for item in taken if item.id in keys or item.text in keys)
        used = _without_repetitions([used])
        began = min(step.started for step in last)
        later = _later(ended, retrieved, began)
        return _without_repetitions([(*used, *later)])
    for steps in sorted(groups.values(), key=lambda steps: -steps[-1].started):
        strings = [text for step in steps for text in step.strings]
        seen = _seen(found, [Prompt(strings)] if strings else [], ended.question)
        if seen is not None:
            later = _later(ended, retrieved, min(step.started for step in steps))
            return _without_repetitions([(*seen, *later)])
    named = {item.id for item in ended.output.nodes}
    kept = tuple(item for item in found if item.id in named)
    return kept or None


def _later(ended: Ended, retrieved: Sequence[int], since: int) -> Nodes:
    return tuple(
        item
        for index in retrieved
        for batch in ended.scopes[index].found
        if batch.started > since
        for item in batch.nodes or ()
    )
