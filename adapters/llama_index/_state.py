"""What is noted about a LlamaIndex request while it runs.

The handler fills a `LlamaRequest` from span callbacks, on whatever threads and tasks the
request uses; when it ends, `LlamaRequest.captured` freezes it into a `Captured`, from
which the meter's worker builds the run.  A request is divided into scopes (the
nearest query, chat, run or tool call): what reached the model is told per scope.
Nothing here knows LlamaIndex's classes or the meter.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from itertools import count
from typing import Any, Literal

from ragmeter._runtime.guard import Guard
from ragmeter.adapters._current_span import CallSpans, SeenSpan, choose_spans, seen_span
from ragmeter.adapters._endings import error_type
from ragmeter.context import RequestScope, current_scope, parse_scope
from ragmeter.metrics.sample import SampleStatus

from ._calls import Call, Messages, said_in
from ._captured import NO_OUTPUT, Captured, CapturedRetrieval, CapturedScope, Nodes, Step
from ._payloads import Kind, RetrieverFacts
from ._streams import StreamedText

__all__ = [
    "Attempt",
    "Batch",
    "CallNote",
    "Frame",
    "LlamaRequest",
    "RetrievalNote",
    "ScopeNote",
    "StepNote",
    "told_scope",
]


class Attempt:
    """A call that may be made again: a step, or an engine or tool within a request."""

    __slots__ = ("failed", "outer")

    def __init__(self, outer: Attempt | None) -> None:
        self.outer = outer
        self.failed = False


def _counts(attempt: Attempt | None) -> bool:
    """Return whether nothing around it failed, the request itself aside."""
    while attempt is not None:
        if attempt.failed:
            return False
        attempt = attempt.outer
    return True


class CallNote:
    """A model call under way."""

    __slots__ = ("answers", "attempt", "is_stream", "messages", "said", "synthesis")

    def __init__(
        self,
        messages: Messages,
        synthesis: Batch | None,
        attempt: Attempt | None,
        *,
        answers: bool = False,
    ) -> None:
        self.messages = messages
        self.synthesis = synthesis
        self.attempt = attempt
        self.answers = answers
        self.said: tuple[str, ...] = ()
        self.is_stream = False

    def end(self, result: object) -> None:
        """Note what it said; what a model's own class said within it, too."""
        said = said_in(result)
        if said != self.said:
            self.said = tuple(dict.fromkeys((*self.said, *said)))
        self.is_stream = not self.said


class StepNote:
    """A workflow's step under way."""

    __slots__ = ("attempt", "given", "name", "started", "stops", "strings", "taken")

    def __init__(
        self,
        name: str,
        started: int,
        taken: Nodes,
        strings: tuple[str, ...],
        attempt: Attempt,
    ) -> None:
        self.name = name
        self.started = started
        self.taken = taken
        self.strings = strings
        self.attempt = attempt
        self.given: Nodes = ()
        self.stops = False


class RetrievalNote:
    """A retriever call under way."""

    __slots__ = (
        "attempt",
        "begun",
        "ended_ns",
        "error",
        "facts",
        "name",
        "nodes",
        "query",
        "scope",
        "spans",
    )

    def __init__(
        self,
        scope: ScopeNote,
        name: str,
        query: str | None,
        facts: RetrieverFacts,
        attempt: Attempt | None,
    ) -> None:
        self.attempt = attempt
        self.scope = scope
        self.name = name
        self.query = query
        self.facts = facts
        self.begun: tuple[int, SeenSpan | None] = (time.time_ns(), seen_span())
        self.ended_ns = 0
        self.nodes: Nodes | None = None
        self.error: str | None = None
        self.spans = CallSpans(None, None)

    def learn(self, facts: RetrieverFacts) -> None:
        """Fill what the outer retriever does not show from one that it calls."""
        own = self.facts
        self.facts = RetrieverFacts(
            own.data_source_id or facts.data_source_id,
            own.top_k if own.top_k is not None else facts.top_k,
            own.embedding_model or facts.embedding_model,
        )

    def end(self, nodes: Nodes | None, error: BaseException | None = None) -> None:
        """Note its end."""
        self.ended_ns = time.time_ns()
        self.spans = choose_spans(self.begun[1], seen_span())
        self.nodes = nodes
        self.error = error_type(error)


class Batch:
    """What a retriever returned, as far as postprocessors left it, or what a synthesis was given."""

    __slots__ = ("attempt", "nodes", "started")

    def __init__(self, nodes: Nodes | None, attempt: Attempt | None, started: int) -> None:
        self.nodes = nodes
        self.attempt = attempt
        self.started = started


class ScopeNote:
    """A query, chat, run or tool call under way."""

    __slots__ = ("combined", "found", "given")

    def __init__(self) -> None:
        self.given: list[Batch] = []
        self.combined: list[Batch] = []
        self.found: list[Batch] = []

    def postprocessed(self, given: frozenset[str], nodes: Nodes) -> None:
        """Put a postprocessor's result in the place of the results that it was given."""
        known = [item for item in self.found if item.nodes is not None and _counts(item.attempt)]
        hits = [item for item in known if any(node.id in given for node in item.nodes or ())]
        for item in hits[1:]:
            item.nodes = None
        if hits:
            hits[0].nodes = nodes
        elif given and known:
            known[-1].nodes = nodes

    def captured(self, *, all_attempts: bool) -> CapturedScope:
        """Freeze it, without what attempts found that failed, unless all did."""
        given = _kept(self.given, all_attempts)
        found = _kept(self.found, all_attempts)
        return CapturedScope(
            _nodes_of(given),
            _nodes_of(_kept(self.combined, all_attempts)) if self.combined else (),
            _nodes_of(found),
            tuple([item.started for item in given]),
            tuple([item.started for item in found]),
        )


def _kept(batches: list[Batch], all_attempts: bool) -> list[Batch]:
    return [
        item
        for item in batches
        if item.nodes is not None and (all_attempts or _counts(item.attempt))
    ]


def _nodes_of(batches: list[Batch]) -> tuple[Nodes, ...]:
    return tuple([item.nodes for item in batches if item.nodes is not None])


class Frame:
    """An open span, as its children need to know it."""

    __slots__ = (
        "attempt",
        "call",
        "found",
        "id",
        "is_root",
        "kind",
        "notes_steps",
        "request",
        "retrieval",
        "scope",
        "step",
        "synthesis",
    )

    def __init__(
        self,
        id_: str,
        kind: Kind | Literal["step"],
        request: LlamaRequest,
        scope: ScopeNote,
        attempt: Attempt | None = None,
        *,
        is_root: bool = False,
    ) -> None:
        self.id = id_
        self.kind = kind
        self.request = request
        self.scope = scope
        self.attempt = attempt
        """The innermost call around it that may fail while the request goes on."""
        self.is_root = is_root
        self.notes_steps = False
        """It is a workflow whose steps' events are noted."""
        self.step: StepNote | None = None
        """The step that this span is."""
        self.call: CallNote | None = None
        """The model call that this span is, or is within."""
        self.retrieval: RetrievalNote | None = None
        """The retriever call that this span is, or is within."""
        self.found: Batch | None = None
        """Where that call's result goes."""
        self.synthesis: Batch | None = None
        """The synthesis that this span is, or is within."""


def told_scope(tags: Mapping[str, Any], guard: Guard) -> RequestScope | None:
    """Return what the code around a request says about it: the instrument tags, then our blocks."""
    around = current_scope()
    note = tags.get("ragmeter")
    if note is None:
        return around
    told: RequestScope | None = None
    with guard:  # a malformed note loses the note, not the request
        told = parse_scope(note)
    return around if told is None else told.merged_over(around)


class LlamaRequest:
    """One request under way.

    There is no lock: its stream may be ended by the garbage collector, on any thread and in the
    middle of anything. Where two ends may meet, the first to take the token out of `close` wins.
    """

    __slots__ = (
        "_begun",
        "_open",
        "_ticks",
        "calls",
        "has_failed_attempts",
        "in_scope",
        "kind",
        "name",
        "no_text",
        "output",
        "question",
        "retrievals",
        "returned",
        "run_id",
        "scope",
        "scopes",
        "size_bytes",
        "source_ids",
        "spans",
        "started_ns",
        "steps",
        "text",
        "weighed",
    )

    def __init__(
        self,
        run_id: str,
        kind: Kind,
        name: str,
        question: str | None,
        scope: RequestScope | None,
        *,
        in_scope: bool,
    ) -> None:
        self.run_id = run_id
        self.kind = kind
        self.name = name
        self.question = question
        self.scope = scope
        self.in_scope = in_scope
        self.started_ns = time.time_ns()
        self._begun = seen_span()
        self.scopes: list[ScopeNote] = []
        self.retrievals: list[RetrievalNote] = []
        self.calls: list[CallNote] = []
        self.steps: list[StepNote] = []
        self._ticks = count()
        self.has_failed_attempts = False
        """Something within it failed, and it went on."""
        self.output = NO_OUTPUT
        self.weighed: set[int] = set()
        """Identities of the nodes' texts that were weighed: they are held until the end."""
        self.size_bytes = 0
        """Characters of the nodes' texts and of the prompts so far."""
        self.no_text = False
        """A synthesizer ran that asks no model."""
        self.source_ids: tuple[str, ...] = ()
        self.spans = CallSpans(None, None)
        self.text: StreamedText | None = None
        """The streamed answer, once there is one."""
        self.returned = False
        """The root has returned; only its stream is still open."""
        self._open = [True]

    def open_scope(self) -> ScopeNote:
        """Begin the next scope."""
        scope = ScopeNote()
        self.scopes.append(scope)
        return scope

    def tick(self) -> int:
        """Return the next place in the order of the request's events."""
        return next(self._ticks)

    @property
    def closed(self) -> bool:
        """Whether it has ended, or was given up."""
        return not self._open

    def close(self) -> bool:
        """End it; tell whether this was the first end."""
        try:
            self._open.pop()
        except IndexError:
            return False
        return True

    def forget_retrieval(self, note: RetrievalNote | None) -> None:
        """Treat a retriever call as if it had not been."""
        if note in self.retrievals:
            self.retrievals.remove(note)

    def root_left(self) -> None:
        """Note the spans around the root's end."""
        self.spans = choose_spans(self._begun, seen_span())

    @property
    def tried(self) -> bool:
        """Whether anything was retrieved, or at least asked for, or given to a model."""
        return bool(self.retrievals) or any(scope.given for scope in self.scopes)

    def only_pasted(self, answer: str) -> bool:
        """Tell whether `answer` is just the nodes' texts, put together without a model."""
        if not (self.no_text or self.kind == "call"):
            return False
        given = [
            item
            for scope in self.scopes
            for batch in scope.given or (scope.found if self.kind == "call" else ())
            for item in batch.nodes or ()
        ]
        return bool(given) and all(item.text in answer for item in given)

    def release(self) -> None:
        """Let go of all texts: the caller's response object may keep this request for ever."""
        self.scopes = []
        self.retrievals = []
        self.calls = []
        self.steps = []
        self.weighed = set()
        self.output = NO_OUTPUT

    def captured(
        self, status: SampleStatus, answer: str | None, error: str | None, ended_ns: int
    ) -> Captured:
        """Freeze it as it ended."""
        scopes = tuple(self.scopes)
        places = {scope: place for place, scope in enumerate(scopes)}
        retrievals = [note for note in self.retrievals if note.ended_ns and note.scope in places]
        all_attempts = not self.has_failed_attempts or not any(
            batch.nodes is not None and _counts(batch.attempt)
            for scope in scopes
            for batch in (*scope.given, *scope.found)
        )
        return Captured(
            run_id=self.run_id,
            name=self.name,
            question=self.question,
            scope=self.scope,
            status=status,
            answer=answer,
            error_type=error,
            started_ns=self.started_ns,
            ended_ns=max(ended_ns, self.started_ns),
            scopes=tuple([scope.captured(all_attempts=all_attempts) for scope in scopes]),
            retrievals=tuple(
                [
                    CapturedRetrieval(
                        places[note.scope],
                        note.begun[0],
                        max(note.ended_ns, note.begun[0]),
                        note.query,
                        note.name,
                        note.facts,
                        note.nodes,
                        note.error,
                        note.spans,
                    )
                    for note in (
                        _of_attempts(retrievals) if self.has_failed_attempts else retrievals
                    )
                ]
            ),
            source_ids=self.source_ids,
            spans=self.spans,
            output=self.output,
            calls=tuple(
                [
                    Call(
                        note.messages,
                        note.said,
                        note.is_stream,
                        -1 if note.synthesis is None else note.synthesis.started,
                        note.answers,
                    )
                    for note in self.calls
                    if all_attempts or _counts(note.attempt)
                ]
            ),
            steps=tuple(
                [
                    Step(note.name, note.started, note.taken, note.given, note.strings, note.stops)
                    for note in self.steps
                    if not self.has_failed_attempts or _counts(note.attempt)
                ]
            ),
        )


def _of_attempts(notes: Iterable[RetrievalNote]) -> list[RetrievalNote]:
    """Leave out what attempts found that failed and were followed by another one."""
    notes = list(notes)
    if not any(note.nodes is not None and _counts(note.attempt) for note in notes):
        return notes
    return [note for note in notes if note.nodes is None or _counts(note.attempt)]
