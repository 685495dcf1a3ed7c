"""What tools, steps and functions give out that are no retrievers: the user's own searches, named or not.

Results of those that the user has named are retrievals, read on the worker.  While nothing was retrieved, what
the others give out is noted by reference, for some requests only, so that it can be said which may be a search.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ragmeter.adapters._unseen import (
    MIN_LETTERS,
    MOST_GIVEN,
    GaveOut,
    Lookout,
    RetrievalRules,
    ShapedResult,
    Who,
    content_of,
    documents_of,
    plain_of,
    query_of,
    result_in,
    shaped_documents,
)
from ragmeter.adapters.reading.fields import strings_in
from ragmeter.adapters.reading.step import Step
from ragmeter.requests.size import weight_of

from ._payloads import (
    NO_FACTS,
    NodeSnapshot,
    TextMode,
    event_payload,
    nodes_in,
    payload_of,
    snapshot_nodes,
)
from ._state import Frame, Notes, RetrievalNote

__all__ = ["begin_result", "end_result", "note_given", "note_shaped", "note_unseen", "read_results"]


def begin_result(
    rules: RetrievalRules, frame: Frame, instance: Any, arguments: Mapping[str, Any]
) -> bool:
    """Note a tool's, step's or function's call if the user says that it retrieves; return whether it does."""
    is_tool = frame.kind == "tool"
    name = _name_of(frame, instance)
    rule = rules.rule_for(name, is_tool=is_tool)
    if rule is None:
        return False
    note = RetrievalNote(
        frame.scope, name, query_of(_argument_payloads(arguments)), NO_FACTS, frame.attempt
    )
    note.who, note.rule = "tool" if is_tool else "function", rule
    note.earlier = len(frame.request.retrievals)
    frame.result = note
    return True


def _name_of(frame: Frame, instance: Any) -> str:
    if frame.kind == "tool":
        return str(getattr(getattr(instance, "metadata", None), "name", None) or "")
    return frame.id[:-37].rpartition(".")[2]


def _argument_payloads(arguments: Mapping[str, Any]) -> object:
    return [event_payload(item) for item in arguments.values()]


def end_result(frame: Frame, note: RetrievalNote, result: Any, mode: TextMode) -> None:
    """Note what it gave out, unless a retriever within it says that."""
    request = frame.request
    if len(request.retrievals) > note.earlier:
        return
    nodes = snapshot_nodes(nodes_in(result), mode)
    note.end(nodes)
    note.started = note.ended = request.tick()
    if nodes or _is_error(result):
        note.rule = None
        request.hold_nodes(nodes)
    else:
        note.result = plain_of(result_in(event_payload(payload_of(result)), None))
        request.hold(sum(weight_of(item.text) for item in strings_in(note.result)))
    if _is_error(result):
        note.nodes, note.error = None, "tool_error"
    request.retrievals.append(note)
    request.trail.append(note)


def _is_error(result: Any) -> bool:
    """Return whether a tool says that it failed."""
    return bool(getattr(result, "is_error", False))


def note_given(frame: Frame, instance: Any, result: Any, *, looks: bool) -> None:
    """Note what a tool or step gave out."""
    request = frame.request
    if request.tried:
        return
    name = _name_of(frame, instance)
    if frame.kind == "tool" and len(request.shaped) < MOST_GIVEN and not _is_error(result):
        note = RetrievalNote(frame.scope, name, None, NO_FACTS, frame.attempt)
        note.result, note.started = content_of(result), request.tick()
        note.end(None)
        request.hold(weight_of(note.result))
        request.shaped.append(note)
    if looks and len(request.given) < MOST_GIVEN:
        held = strings_in(plain_of(event_payload(result)))
        texts = tuple(item.text for item in held if len(item.text) >= MIN_LETTERS)
        if texts:
            who: Who = "tool" if frame.kind == "tool" else "function"
            request.given.append(GaveOut(who, name, texts))
            request.hold(sum(map(weight_of, texts)))


def note_unseen(lookout: Lookout, request: Notes) -> None:
    """Note a request that called a model and retrieved nothing that is known as such."""
    if request.calls:
        calls = [call.messages for call in request.calls]
        said = [text for call in request.calls for text in call.said]
        lookout.note(calls, tuple(request.given), request.question, said)


def note_shaped(ended: Notes, calls: Sequence[Step]) -> bool:
    """Note as retrievals what unnamed tools gave out; return whether anything was retrieved."""
    if ended.tried:
        return True
    results = [ShapedResult(note.started, note.result) for note in ended.shaped]
    for note, found in zip(ended.shaped, shaped_documents(results, calls), strict=True):
        if found:
            note.nodes = tuple(NodeSnapshot(*item) for item in found)
            ended.retrievals.append(note)
            ended.trail.append(note)
    return bool(ended.retrievals)


def read_results(ended: Notes, lookout: Lookout) -> bool:
    """Read the documents in the results of what the user has named; return whether all could be read."""
    all_read = True
    for note in ended.retrievals:
        if note.rule is None:
            continue
        found = documents_of(note.result, note.rule)
        note.result = None
        if found is None:
            all_read = False
            lookout.unreadable(note.who, note.name)
        else:
            note.nodes = tuple(NodeSnapshot(*item) for item in found)
    return all_read
