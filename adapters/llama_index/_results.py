"""Output of tools, steps and functions that are no retrievers: the user's own searches, named or not.

Results of those that the user has named are retrievals, read on the worker. While nothing was retrieved, the
output of the others is recorded by reference, for some requests only, so that possible searches can be
reported.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ragmeter.adapters._unseen import (
    MOST_GIVEN,
    GaveOut,
    Lookout,
    RetrievalRules,
    content_of,
    plain_of,
    query_of,
    result_in,
    retrieved_by_shape,
)
from ragmeter.adapters.reading.fields import strings_in
from ragmeter.adapters.reading.route import Who
from ragmeter.adapters.reading.step import Step
from ragmeter.requests.size import weight_of

from ._payloads import TextMode, event_payload, nodes_in, payload_of, snapshot_nodes
from ._state import Frame, LlamaRun, Notes, RetrievalNote


def begin_result(rules: RetrievalRules, frame: Frame, instance: Any, arguments: Mapping[str, Any]) -> bool:
    """Record a tool's, step's or function's call if the user named it a retrieval; return whether."""
    is_tool = frame.kind == "tool"
    name = _name_of(frame, instance)
    rule = rules.rule_for(name, is_tool=is_tool)
    if rule is None:
        return False
    run = LlamaRun(frame.run, 0, name, "retriever")
    note = RetrievalNote(run, query_of([event_payload(item) for item in arguments.values()]))
    note.who, note.rule = "tool" if is_tool else "function", rule
    note.earlier = len(frame.request.retrievals)
    frame.result = note
    return True


def _name_of(frame: Frame, instance: Any) -> str:
    if frame.kind == "tool":
        return str(getattr(getattr(instance, "metadata", None), "name", None) or "")
    return frame.id[:-37].rpartition(".")[2]


def end_result(frame: Frame, note: RetrievalNote, result: Any, mode: TextMode) -> None:
    """Record the output of a tool, unless a retriever within it reports it."""
    request = frame.request
    if len(request.retrievals) > note.earlier:
        return
    nodes = snapshot_nodes(nodes_in(result), mode)
    note.end(nodes)
    note.run.order = note.ended_order = next(request.clock)
    if nodes or _is_error(result):
        note.rule = None
        request.hold_nodes(nodes)
    else:
        note.result = plain_of(result_in(event_payload(payload_of(result)), None))
        request.hold(sum(weight_of(item.text) for item in strings_in(note.result)))
    if _is_error(result):
        note.contexts, note.error_type = None, "tool_error"
    request.retrievals.append(note)
    request.trail.append(note)


def _is_error(result: Any) -> bool:
    """Return whether a tool reports failure."""
    return bool(getattr(result, "is_error", False))


def note_given(frame: Frame, instance: Any, result: Any, *, looks: bool) -> None:
    """Record the output of a tool or step."""
    request = frame.request
    if request.tried:
        return
    name = _name_of(frame, instance)
    if frame.kind == "tool" and len(request.shaped) < MOST_GIVEN and not _is_error(result):
        note = RetrievalNote(LlamaRun(frame.run, 0, name, "retriever"))
        note.result = content_of(result)
        note.run.order = note.ended_order = next(request.clock)
        note.end(None)
        request.hold(weight_of(note.result))
        request.shaped.append(note)
    if looks and len(request.given) < MOST_GIVEN:
        who: Who = "tool" if frame.kind == "tool" else "function"
        given = GaveOut.of(who, name, plain_of(event_payload(result)))
        if given is not None:
            request.given.append(given)
            request.hold(weight_of(*given.texts))


def note_unseen(lookout: Lookout, request: Notes) -> None:
    """Record for `lookout` a request that called a model without a known retrieval."""
    if request.calls:
        calls = [call.messages for call in request.calls]
        said = [text for call in request.calls for text in call.said]
        lookout.note(calls, tuple(request.given), request.question, said)


def note_shaped(ended: Notes, calls: Sequence[Step]) -> bool:
    """Record unnamed tools' results of a document's shape as retrievals; return whether there are any."""
    if ended.tried:
        return True
    found = retrieved_by_shape(ended.shaped, calls)
    ended.retrievals += found
    ended.trail += found
    return bool(ended.retrievals)
