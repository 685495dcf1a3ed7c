"""Output of tools and functions that are no retrievers: the user's own searches, named or not.

Results of those that the user has named are retrievals. While nothing was retrieved, the output of the others
is recorded by reference, for some requests only, so that possible searches can be reported.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ragmeter.adapters._snapshots import bytes_of_new
from ragmeter.adapters._unseen import MOST_GIVEN, GaveOut, Lookout, content_of, plain_of, query_of, result_in
from ragmeter.adapters.reading.fields import strings_in
from ragmeter.requests.size import weight_of

from ._passages import note_documents, note_paste
from ._payloads import snapshot_documents, tool_documents
from ._state import Attachment, OpenRequest, RetrievalNote, Run


def note_result(attached: Attachment, run: Run, output: object, now: int) -> bool:
    """Record the output of a tool or function; return whether a user's rule calls it a retrieval."""
    request = run.request
    if run.rule is None or run.children_retrievals:
        is_watched = attached.lookout.looks and len(request.given) < MOST_GIVEN
        if is_watched and not (request.retrievals or request.passages):
            _note_given(request, run, output)
        return False
    note = _note_of(run, now)
    documents = tool_documents(output)
    if not documents and getattr(output, "status", None) == "error":  # which the agent is sent
        note.error_type = "tool_error"
    elif not documents:
        note.rule, note.result = run.rule, plain_of(result_in(output, run.taken))
        request.loose_bytes += weight_of(*[item.text for item in strings_in(output)])
    _note_found(note, documents)
    return True


def note_tool(run: Run, output: object, now: int) -> None:
    """Record the output of an unnamed tool: documents beside its text, or a text that may hold some."""
    request = run.request
    documents = tool_documents(output)
    if request.options.strict:
        return
    if run.children_retrievals and documents:
        note_documents(run, documents, now)
    elif run.children_retrievals:  # it may have pasted only some of them
        note_paste(run, content_of(output), None)
    elif documents:
        _note_found(_note_of(run, now), documents)
    elif len(request.shaped) < MOST_GIVEN and getattr(output, "status", None) != "error":
        note = _note_of(run, now)
        note.result = content_of(output)
        request.loose_bytes += weight_of(note.result)
        request.note("shaped", note)


def _note_found(note: RetrievalNote, documents: Sequence[Any]) -> None:
    request = note.run.request
    if documents:
        note.documents, note.contexts = tuple(documents), snapshot_documents(documents)
        request.loose_bytes += bytes_of_new(note.contexts, request.known_texts)
    request.retrievals.append(note)
    note.note_around()


def _note_of(run: Run, now: int) -> RetrievalNote:
    order = next(run.request.clock)
    return RetrievalNote(run, query_of(run.taken), ended_ns=now, ended_order=order)


def _note_given(request: OpenRequest, run: Run, output: object) -> None:
    name = run.name or ""
    if run.kind == "chain" and name == "RunnableLambda":
        name = ""
    elif run.kind == "chain" and (name.startswith("Runnable") or "<" in name):
        return  # it joins the output of others
    held = plain_of(output) if run.kind == "tool" else output  # of a message, its text
    given = GaveOut.of("tool" if run.kind == "tool" else "function", name, held)
    if given is not None:
        request.note("given", given)
        request.loose_bytes += weight_of(*given.texts)


def note_unseen(lookout: Lookout, request: OpenRequest) -> None:
    """Record for `lookout` a request that called a model without a known retrieval."""
    if request.llms:
        calls = [note.run.sent for note in request.llms]
        said = [note.text for note in request.llms]
        lookout.note(calls, tuple(request.given), request.question.text, said)
