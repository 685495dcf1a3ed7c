"""The calls of retrievers: recorded as they begin and end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ._payloads import Nodes, TextMode, describe_tools, question_of, retriever_facts, snapshot_nodes
from ._state import Frame, LlamaRun, RetrievalNote


def begin_retrieval(frame: Frame, arguments: Mapping[str, Any], instance: Any) -> None:
    """Record the begin of an outermost retriever's call."""
    frame.retrieval = RetrievalNote(
        LlamaRun(frame.run, next(frame.request.clock), type(instance).__name__, "retriever"),
        question_of("retrieve", arguments),
        facts=retriever_facts(instance),
    )
    frame.request.retrievals.append(frame.retrieval)


def nested_retrieval(parent: Frame, around: RetrievalNote, id_: str, instance: Any) -> Frame:
    """Record a retriever called by another one, and details that the outer one does not show."""
    outermost = around
    while outermost.within is not None:
        outermost = outermost.within
    if outermost.facts.data_source_id is None:
        outermost.learn(retriever_facts(instance))
    frame = Frame(id_, "retrieve", parent.request, parent.run)
    run = LlamaRun(around.run, 0, type(instance).__name__, "retriever")
    frame.retrieval = RetrievalNote(run, outer=around.run, within=around)
    return frame


def end_retrieval(frame: Frame, result: Any, mode: TextMode) -> None:
    """Record what a retriever found; descriptions of tools are no documents."""
    nodes: Nodes | None = None
    note = frame.retrieval
    if isinstance(result, (list, tuple)):
        nodes = snapshot_nodes(result, mode)
        if describe_tools(nodes) and not frame.is_root:
            if note in frame.request.retrievals:
                frame.request.retrievals.remove(note)
            return
        frame.request.hold_nodes(nodes)
    if note is None:
        return
    note.ended_order = next(frame.request.clock)
    if note.outer is None:
        note.end(nodes)
    else:
        note.contexts = nodes
    frame.request.trail.append(note)
