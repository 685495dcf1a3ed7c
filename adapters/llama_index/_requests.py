"""What is noted about a LlamaIndex request while it runs, and the fixed record it ends as.

The handler fills a `LlamaRequest` from span callbacks, on whatever threads and tasks the
request uses; when it ends, `LlamaRequest.captured` freezes it into a `Captured`, from
which the meter's worker builds the run.  A request is divided into scopes (the
nearest query, chat, run or tool call): what reached the model is told per scope.
Nothing here knows LlamaIndex's classes or the meter.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from ragmeter.adapters._current_span import CallSpans, SeenSpan, choose_spans, seen_span
from ragmeter.adapters._endings import error_type
from ragmeter.guard import Guard
from ragmeter.metrics.sample import SampleStatus
from ragmeter.scope import RequestScope, current_scope, parse_scope

from ._extraction import Kind, RetrieverFacts
from ._nodes import NodeSnapshot
from ._streams import StreamedText

__all__ = [
    "Batch",
    "Captured",
    "CapturedRetrieval",
    "CapturedScope",
    "Frame",
    "LlamaRequest",
    "Nodes",
    "RetrievalNote",
    "ScopeNote",
    "told_scope",
]

Nodes = tuple[NodeSnapshot, ...]


class CapturedScope(NamedTuple):
    """What one query, chat, run or tool call found and gave to the model."""

    given: tuple[Nodes, ...]
    """Nodes of each synthesis, in order: what reached the model."""
    combined: tuple[Nodes, ...]
    """Nodes of each synthesis that joins sub-answers."""
    found: tuple[Nodes, ...]
    """Results of retrievers, after postprocessors, in start order: for want of a synthesis."""


class CapturedRetrieval(NamedTuple):
    """One outermost retriever call."""

    scope: int
    """Index of its scope in `Captured.scopes`."""
    started_ns: int
    ended_ns: int
    query: str | None
    name: str
    facts: RetrieverFacts
    nodes: Nodes | None
    """What it returned; None: it raised."""
    error_type: str | None
    spans: CallSpans


@dataclass(frozen=True, slots=True)
class Captured:
    """A request that has ended: immutable, and free of the framework's objects."""

    run_id: str
    name: str
    question: str | None
    scope: RequestScope | None
    status: SampleStatus
    answer: str | None
    error_type: str | None
    started_ns: int
    ended_ns: int
    scopes: tuple[CapturedScope, ...]
    retrievals: tuple[CapturedRetrieval, ...]
    source_ids: tuple[str, ...]
    """Ids of the nodes that the response names as its sources, in its order."""
    spans: CallSpans


class RetrievalNote:
    """A retriever call under way."""

    __slots__ = ("begun", "ended_ns", "error", "facts", "name", "nodes", "query", "scope", "spans")

    def __init__(
        self, scope: ScopeNote, name: str, query: str | None, facts: RetrieverFacts
    ) -> None:
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

    __slots__ = ("nodes",)

    def __init__(self, nodes: Nodes | None = None) -> None:
        self.nodes = nodes


class ScopeNote:
    """A query, chat, run or tool call under way."""

    __slots__ = ("combined", "found", "given")

    def __init__(self) -> None:
        self.given: list[Batch] = []
        self.combined: list[Batch] = []
        self.found: list[Batch] = []

    def begin_finding(self) -> Batch:
        """Keep a place for a retriever's result, in start order."""
        found = Batch()
        self.found.append(found)
        return found

    def postprocessed(self, given: frozenset[str], nodes: Nodes) -> None:
        """Put a postprocessor's result in the place of the results that it was given."""
        known = [item for item in self.found if item.nodes is not None]
        hits = [item for item in known if any(node.id in given for node in item.nodes or ())]
        for item in hits[1:]:
            item.nodes = None
        if hits:
            hits[0].nodes = nodes
        elif given and known:
            known[-1].nodes = nodes

    def captured(self) -> CapturedScope:
        """Freeze it."""
        return CapturedScope(_frozen(self.given), _frozen(self.combined), _frozen(self.found))


def _frozen(batches: list[Batch]) -> tuple[Nodes, ...]:
    return tuple([item.nodes for item in batches if item.nodes is not None])


class Frame:
    """An open span, as its children need to know it."""

    __slots__ = ("found", "id", "is_root", "kind", "request", "retrieval", "scope", "synthesis")

    def __init__(
        self,
        id_: str,
        kind: Kind,
        request: LlamaRequest,
        scope: ScopeNote,
        *,
        is_root: bool = False,
    ) -> None:
        self.id = id_
        self.kind = kind
        self.request = request
        self.scope = scope
        self.is_root = is_root
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
        "in_scope",
        "kind",
        "name",
        "no_text",
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
        "text",
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
        self.size_bytes = 0
        """Characters of the nodes' texts so far."""
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
        if not self.no_text:
            return False
        given = [
            item for scope in self.scopes for batch in scope.given for item in batch.nodes or ()
        ]
        return bool(given) and all(item.text in answer for item in given)

    def release(self) -> None:
        """Let go of all texts: the caller's response object may keep this request for ever."""
        self.scopes = []
        self.retrievals = []

    def captured(
        self, status: SampleStatus, answer: str | None, error: str | None, ended_ns: int
    ) -> Captured:
        """Freeze it as it ended."""
        scopes = tuple(self.scopes)
        places = {scope: place for place, scope in enumerate(scopes)}
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
            scopes=tuple([scope.captured() for scope in scopes]),
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
                    for note in self.retrievals
                    if note.ended_ns and note.scope in places
                ]
            ),
            source_ids=self.source_ids,
            spans=self.spans,
        )
