"""The requests in the spans of one trace: one for each outermost step below which something was retrieved.

Neither a trace nor the span of an HTTP request is a request: several may stand below one, and some
emitters put a request below another one's.  Where the request's own span is missing, its retrievals
are the request.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from ._contexts import Read, Seen, missing_in, reached, with_rule
from ._limits import CutLength
from ._passages import RetrievalTool
from ._refusals import refusal_was_raised, was_refused, words_raised
from ._shapes import with_shapes
from ._sources import source_in
from ._steps import call_of, reached_model, response_id_of
from ._tree import SpanTree
from .conventions import READERS, reading
from .conventions._genai import GenAI
from .conventions._values import (
    Document,
    has_context,
    is_hidden,
    last_of,
    messages_in,
    question_in,
)
from .record import LogNote, SpanRecord

__all__ = ["OWN_SCOPE", "FoundRequest", "Reason", "Usable", "find_requests", "tells"]

Usable = Literal["full", "ids_only", "none"]
"""``full``: everything can be scored. ``ids_only``: ids, counts and emptiness. ``none``: nothing."""

Reason = Literal[
    "convention_has_no_text",
    "content_off",
    "content_in_logs",
    "redacted",
    "truncated",
    "retrieval_error",
    "rerank_invisible",
    "no_retrieval_span",
    "unreadable_result",
]
"""Why a request cannot be scored in full."""

OWN_SCOPE = "ragmeter"
_DETAILS = "gen_ai.client.inference.operation.details"
_NEVER_END = "opentelemetry.instrumentation.llamaindex"
"""Leaves spans open, and so unsent, when an exception goes through them or an answer is streamed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundRequest:
    """One request, as far as its spans tell."""

    convention: str
    """Name of the convention its retrieval is written by."""
    scope: str
    """Name of the instrumentation that wrote it."""
    question: str | None
    """What was asked."""
    contexts: tuple[Document, ...]
    """What reached the model, in order."""
    answer: str | None
    """What was answered."""
    failed: bool
    """Whether the request raised."""
    usable: Usable
    """What of it can be scored."""
    reason: Reason | None
    """Why no more; None when all."""
    span: SpanRecord | None
    """The request's own span; None: it was never sent."""
    seen: tuple[Seen, ...] = ()
    """Its retrievals and rerankings, in start order."""
    refused: bool = False
    """Whether the model's provider says that it refused."""
    asked_model: bool = False
    """Whether a model was called for it."""
    members: tuple[SpanRecord, ...] = ()
    """All its spans that belong to a convention, and those above them."""
    sources: Mapping[str, str] = field(default_factory=dict)
    """What retrievals searched, by the retrieval's span, where spans of stores' clients below it tell."""
    response_id: str | None = None
    """What the model's provider calls the completion that answered; None: not told, or several did."""
    shown: tuple[Document, ...] | None = None
    """The documents as the prompts show them, cut where they are, in their order; None: none shows any."""
    cut_off: tuple[SpanRecord, ...] = ()
    """Spans whose parents should stand in the request, or above it as the request's own, and did not come."""
    partial: bool = False
    """Whether so much of it is known to be missing that nothing of it can be measured. What
    `find_requests` returns never says so, as that shows in other requests."""

    @property
    def trace_id(self) -> str:
        """32 hex digits."""
        return self.members[0].trace_id

    @property
    def key(self) -> str:
        """What stays the same when spans come later: the span of the request, or of its first retrieval."""
        first = self.span or (self.seen[0].retrievals[0].span if self.seen else self.members[0])
        return f"{first.trace_id}-{first.span_id}"


def find_requests(
    spans: Iterable[SpanRecord],
    logs: Sequence[LogNote] = (),
    tools: Sequence[RetrievalTool] = (),
) -> list[FoundRequest]:
    """Return the requests in the spans of one trace, by their start.

    Args:
        spans: The trace's spans, in any order.
        logs: Its log records.
        tools: Which tools retrieve.
    """
    tree = SpanTree(spans)
    reads = {
        span.span_id: with_rule(Read(span, *known), tools)
        for span in tree.spans.values()
        if span.scope != OWN_SCOPE and (known := reading(span)) is not None
    }
    excluded = {
        span.span_id
        for span in tree.spans.values()
        if span.scope == OWN_SCOPE
        or ((read := reads.get(span.span_id)) is not None and read.role == "evaluation")
    }
    if excluded:
        judged = tree.outermost(excluded, itself=True)
        reads = {key: read for key, read in reads.items() if judged[key] is None}
    if not reads:
        return []
    reads = with_shapes(reads, tree)
    finder = _Finder(tree, reads, logs)
    return sorted(finder.requests(), key=_start)


def tells(note: LogNote) -> bool:
    """Return whether a log record tells what a model was asked or said."""
    return note.event == _DETAILS or any(
        _told_by(note, key) is not None
        for key in ("gen_ai.input.messages", "gen_ai.output.messages")
    )


def _start(found: FoundRequest) -> tuple[int, str]:
    first = found.span or min(found.members, key=lambda span: span.started_ns)
    return first.started_ns, first.span_id


class _Finder:
    """Groups the read spans of a trace into requests, and makes what can be made of each."""

    def __init__(self, tree: SpanTree, reads: dict[str, Read], logs: Sequence[LogNote]) -> None:
        self._tree = tree
        self._reads = reads
        self._logs = logs
        self._cut = CutLength(tree.spans.values())
        steps = {key for key, read in reads.items() if read.role in ("step", "join")}
        self._request_of = tree.outermost(steps, itself=True)
        retrievals = {key for key, read in reads.items() if read.is_retrieval}
        self._retrieval_above = tree.outermost(retrievals, itself=False)
        self._cut_off = tree.cut_off()
        self._sources: dict[str, str] = {}
        for key, span in tree.spans.items():
            above = None if key in reads else self._retrieval_above[key]
            if above is not None and (source := source_in(span.attributes)) is not None:
                self._sources.setdefault(above, source)

    def requests(self) -> list[FoundRequest]:
        groups: dict[str, list[Read]] = {}
        alone: list[Read] = []
        for key, read in self._reads.items():
            request = self._request_of[key]
            if request is None:
                alone.append(read)
            else:
                groups.setdefault(request, []).append(read)
        found: list[FoundRequest] = []
        bare: list[tuple[SpanRecord, list[Read]]] = []
        for request, members in groups.items():
            if any(map(_brings_documents, members)):
                found.append(self._best(self._tree.spans[request], members))
            else:
                bare.append((self._tree.spans[request], members))
        found.extend(self._without_request(alone))
        found = _once(found)
        if bare:
            found.extend(self._without_retrieval(bare, alone, found))
        return found

    def _without_request(self, alone: Sequence[Read]) -> list[FoundRequest]:
        """Return requests whose own span never came.

        Retrievals whose parents are missing belong to one request; those of one query below a span
        that is there, too.
        """
        groups: dict[tuple[str, str | None], list[Read]] = {}
        for read in alone:
            if not _brings_documents(read):
                continue
            if self._retrieval_above[read.span.span_id] is not None and read.role != "rerank":
                outer = self._tree.spans[self._retrieval_above[read.span.span_id] or ""]
                read_of = self._reads[outer.span_id]
            else:
                read_of = read
            present = self._tree.parent(read_of.span) is not None
            query = read_of.reader.query(read_of.span) if present else None
            groups.setdefault((read_of.reader.name if present else "", query), []).append(read)
        others = [read for read in alone if read.role == "model"]
        if len(groups) > 1:
            others = []  # whose calls they are is not told
        return [self._best(None, [*members, *others]) for members in groups.values()]

    def _best(self, request: SpanRecord | None, members: list[Read]) -> FoundRequest:
        """Return the request as told by the convention that tells most of it."""
        names = {
            read.reader.name: None for read in members if read.is_retrieval or read.role == "rerank"
        }
        order = [reader.name for reader in READERS if reader.name in names]
        options = [self._describe(request, members, name) for name in order]
        return min(options, key=_rank)

    def _describe(
        self, request: SpanRecord | None, members: list[Read], convention: str
    ) -> FoundRequest:
        seen = reached(
            (read for read in members if read.reader.name == convention),
            lambda span: self._retrieval_above[span.span_id],
        )
        if not seen:  # a reranking that failed, of documents that no span tells of
            ours = (read for read in members if read.reader.name == convention)
            lone = next(read for read in ours if read.is_retrieval or read.role == "rerank")
            seen = (Seen(lone, lone.documents()),)
        first = seen[0].retrievals[0]
        models = self._models(members, seen)
        path = [] if request is None else self._tree.path(request.span_id, first.span)
        steps = [read for span in path if (read := self._reads.get(span.span_id)) is not None]
        failed = self._is_failure(request, members, first)
        asked = _Question.of(steps, seen, models)
        answer, answer_hidden = self._answer(request, models)
        own = None if request is None else self._reads.get(request.span_id)
        refused = (
            refusal_was_raised(request, members) if failed else was_refused(own, models, answer)
        )
        if failed and refused and answer is None:
            answer = words_raised(request, members)
        elif failed and not refused:
            answer, answer_hidden = None, False
        contexts = tuple(item for one in seen for item in one.told.items)
        found = FoundRequest(
            convention=convention,
            scope=first.span.scope,
            question=asked.question,
            contexts=contexts,
            answer=answer,
            failed=failed,
            refused=refused,
            usable="full",
            reason=None,
            span=request,
            seen=seen,
            asked_model=bool(models),
            response_id=response_id_of(models, answer),
            members=self._members(request, members),
            sources=self._sources,
            cut_off=self._cut_off_of(request, members),
        )
        found = self._assess(found, hidden=asked.hidden, answer_hidden=answer_hidden)
        if found.usable != "full" or not contexts or not _was_answered(seen, models):
            return found
        calls = [call_of(read, self._cut) for read in models]
        by_tool = any(read.role == "tool" for read in members)
        stood = reached_model(contexts, seen, calls, (found.question, answer), by_tool=by_tool)
        return found if stood is None else replace(found, contexts=stood[0], shown=stood[1])

    def _members(
        self, request: SpanRecord | None, members: Sequence[Read]
    ) -> tuple[SpanRecord, ...]:
        spans = [read.span for read in members]
        entry = self._tree.entry_above(request or spans[0])
        return tuple(spans) if entry is None else (*spans, entry)

    def _cut_off_of(
        self, request: SpanRecord | None, members: Sequence[Read]
    ) -> tuple[SpanRecord, ...]:
        """Return the spans at which something of the request is missing.

        Without a span of its own, they are those above its members.  Else they are those that ran within
        its time and hang below nothing: what is above its own span is not its own.
        """
        if not self._cut_off:
            return ()
        if request is None:
            ours: Iterable[Read] = members
        else:
            ours = (
                read
                for key, read in self._reads.items()
                if self._request_of[key] is None
                and request.started_ns <= read.span.started_ns
                and read.span.ended_ns <= request.ended_ns
            )
        tops = (self._cut_off.get(read.span.span_id) for read in ours)
        # Who leaves spans open when an answer is streamed has lost nothing by it.
        return tuple(
            {
                top.span_id: top for top in tops if top is not None and top.scope != _NEVER_END
            }.values()
        )

    def _models(self, members: Sequence[Read], seen: Sequence[Seen]) -> list[Read]:
        """Return the calls to models that may have seen what was retrieved, in start order."""
        begun = min((item.read.span.started_ns for item in seen), default=0)
        return sorted(
            (
                read
                for read in members
                if read.role == "model" and self._retrieval_above[read.span.span_id] is None
            ),
            key=lambda read: (
                read.span.started_ns < begun,
                read.span.started_ns,
                read.span.ended_ns,
            ),
        )

    def _is_failure(self, request: SpanRecord | None, members: Sequence[Read], first: Read) -> bool:
        if request is not None:
            return request.failed
        entry = self._tree.entry_above(first.span)
        if entry is not None and (entry.failed or _is_server_error(entry)):
            return True
        if any(read.span.failed for read in members):
            return True
        lost = first.span.parent_id is not None and self._tree.parent(first.span) is None
        if first.span.scope != _NEVER_END or not lost:
            return False
        # An answer would have been said by a model, whose span ends also when others do not.
        return not any(_is_model_of(span) for span in self._tree.spans.values())

    def _answer(
        self, request: SpanRecord | None, models: Sequence[Read]
    ) -> tuple[str | None, bool]:
        """Return the answer, and whether the user had it hidden."""
        read = None if request is None else self._reads[request.span_id]
        if read is not None:
            if read.reader.hides(read.span, "output"):
                return None, True
            answer = read.reader.answer(read.span)
            if answer is not None:
                return answer, False
        by_end = sorted(models, key=lambda item: (item.span.ended_ns, -item.span.started_ns))
        for model in reversed(by_end):
            if model.reader.hides(model.span, "output"):
                return None, True
            said = model.reader.said(model.span)
            if said is not None and said.strip():
                return said, False
        return None, False

    def _assess(self, found: FoundRequest, *, hidden: bool, answer_hidden: bool) -> FoundRequest:
        """Return the request with what can be scored of it, and why no more."""
        missing = missing_in(found.seen)
        texts_hidden = missing == "redacted" or any(item.hidden for item in found.contexts)
        has_ids = bool(found.contexts) and all(item.id is not None for item in found.contexts)
        usable: Usable = "none"
        reason: Reason | None
        if missing == "convention_has_no_text":
            usable, reason = "ids_only", missing
        elif found.seen and all(item.read.span.failed for item in found.seen):
            reason = "retrieval_error"
        elif missing == "content_off":
            return self._with_logs(found)
        elif missing in ("rerank_invisible", "unreadable_result"):
            reason = missing
        elif hidden or answer_hidden or texts_hidden:
            usable, reason = ("ids_only" if texts_hidden and has_ids else "none"), "redacted"
        elif missing == "truncated" or self._is_cut(found):
            reason = "truncated"
        elif any(item.text is None for item in found.contexts):
            usable, reason = "ids_only", "convention_has_no_text"
        else:
            usable, reason = "full", None
        return replace(found, usable=usable, reason=reason)

    def _is_cut(self, found: FoundRequest) -> bool:
        texts = [found.question, found.answer, *(item.text for item in found.contexts)]
        return any(self._cut.is_cut(text) for text in texts if text is not None)

    def _with_logs(self, found: FoundRequest) -> FoundRequest:
        """Return a request whose texts are not on its spans, with what log records say of it."""
        ours = {span.span_id for span in found.members}
        told = [note for note in self._logs if note.span_id in ours and tells(note)]
        if not told:
            return replace(found, usable="none", reason="content_off")
        last = told[-1].attributes
        asked = _asked_in(GenAI.variables_in(last))
        said = last_of(messages_in(_told_by(told[-1], "gen_ai.output.messages")), "assistant")
        return replace(
            found,
            question=found.question or asked,
            answer=None if found.failed else found.answer or said,
            usable="none",
            reason="content_in_logs",
        )

    def _without_retrieval(
        self,
        bare: Sequence[tuple[SpanRecord, list[Read]]],
        alone: Sequence[Read],
        found: Sequence[FoundRequest],
    ) -> list[FoundRequest]:
        """Return requests that were handed documents, though no span tells of a retrieval.

        Some emitters write the steps of a request side by side: a step that runs within another
        one's time, below the same parent, is a part of it.
        """
        taken = {span.span_id for one in found for span in one.members}
        models: dict[str | None, list[Read]] = {}
        for read in alone:
            if read.role == "model":
                models.setdefault(read.span.parent_id, []).append(read)
        requests: list[tuple[SpanRecord, list[Read]]] = []
        last: dict[str | None, tuple[SpanRecord, list[Read]]] = {}
        for span, members in sorted(bare, key=lambda item: (item[0].started_ns, -item[0].ended_ns)):
            open_one = last.get(span.parent_id)
            if open_one is not None and span.ended_ns <= open_one[0].ended_ns:
                open_one[1].extend(members)
                continue
            last[span.parent_id] = (span, [*members])
            requests.append(last[span.parent_id])
        made: list[FoundRequest] = []
        for span, members in requests:
            beside = [
                read
                for read in models.get(span.parent_id, ())
                if span.started_ns <= read.span.started_ns <= span.ended_ns
            ]
            read = self._reads[span.span_id]
            values = (
                value
                for item in members
                for value in (
                    item.span.attributes.get(item.reader.input_key),
                    item.span.attributes.get(item.reader.output_key),
                )
            )
            if span.span_id in taken or not has_context(values):
                continue
            answer, _ = self._answer(
                span, [item for item in (*members, *beside) if item.role == "model"]
            )
            made.append(
                FoundRequest(
                    convention=read.reader.name,
                    scope=span.scope,
                    question=read.reader.question(span),
                    contexts=(),
                    answer=None if span.failed else answer,
                    failed=span.failed,
                    usable="none",
                    reason="no_retrieval_span",
                    span=span,
                    members=self._members(span, members),
                )
            )
        return made


@dataclass(frozen=True, slots=True)
class _Question:
    """What a request was asked, and whether the user had it hidden."""

    question: str | None
    hidden: bool = False

    @classmethod
    def of(
        cls,
        steps: Sequence[Read],
        seen: Sequence[Seen],
        models: Sequence[Read],
    ) -> _Question:
        for read in steps:
            if read.reader.hides(read.span, "input"):
                return cls(None, hidden=True)
            question = read.reader.question(read.span) if not read.is_retrieval else None
            if question is not None:
                return cls(question)
        sources = [read for item in seen for read in item.retrievals]
        if any(read.reader.hides(read.span, "input") for read in sources):
            return cls(None, hidden=True)
        for model in models:
            asked = _asked_in(model.reader.variables(model.span))
            if asked is not None:
                return cls(asked)
        by_tool = [read for read in sources if read.tool is not None]
        if by_tool:
            for model in sorted(models, key=lambda item: item.span.started_ns):
                asked = last_of(model.reader.prompt(model.span), "user")
                if asked is not None:
                    return cls(None, hidden=True) if is_hidden(asked) else cls(asked)
        queries = {read.reader.query(read.span) for read in sources} - {None}
        # Several queries are parts of a question, or several questions: none of them is the question.
        return cls(queries.pop() if len(queries) == 1 else None)


def _asked_in(variables: Mapping[str, object]) -> str | None:
    """Return the question among the variables of a prompt."""
    names = ("question", "query", "user_question", "query_str", "input")
    return next((asked for name in names if (asked := question_in(variables.get(name)))), None)


def _brings_documents(read: Read) -> bool:
    """Return whether documents came out of a span: a reranking that does not say which makes no request."""
    return read.is_retrieval or (
        read.role == "rerank" and (read.span.failed or bool(read.documents().items))
    )


def _was_answered(seen: Sequence[Seen], models: Sequence[Read]) -> bool:
    """Return whether a model was called after the last retrieval: else what it would have seen is not told."""
    last = max(item.read.span.started_ns for item in seen)
    return any(read.span.started_ns >= last for read in models)


def _rank(found: FoundRequest) -> int:
    return ("full", "ids_only", "none").index(found.usable)


def _once(found: Sequence[FoundRequest]) -> list[FoundRequest]:
    """Return the requests without those that a second convention tells of again."""
    if len({one.convention for one in found}) < 2:
        return [*found]
    kept: dict[str | None, list[FoundRequest]] = {}
    for one in sorted(found, key=_rank):
        others = kept.setdefault(one.question, [])
        if not any(_is_same(one, other) for other in others):
            others.append(one)
    return [one for others in kept.values() for one in others]


def _is_same(one: FoundRequest, other: FoundRequest) -> bool:
    if one.convention == other.convention:
        return False
    first, second = (item.span or item.seen[0].read.span for item in (one, other))
    return first.started_ns <= second.ended_ns and second.started_ns <= first.ended_ns


def _is_server_error(span: SpanRecord) -> bool:
    for key in ("http.response.status_code", "http.status_code"):
        code = span.attributes.get(key)
        if isinstance(code, int):
            return code >= 500
    return False


def _is_model_of(span: SpanRecord) -> bool:
    """Return whether LlamaIndex's model was called here, as OpenLLMetry names such spans."""
    if span.scope != _NEVER_END:
        return "gen_ai.request.model" in span.attributes
    value = span.attributes.get("traceloop.entity.input")
    is_call = span.attributes.get("traceloop.span.kind") == "workflow"
    return (
        is_call
        or "gen_ai.output.messages" in span.attributes
        or (isinstance(value, str) and value.startswith(('{"args"', '{"messages"', '{"prompt"')))
    )


def _told_by(note: LogNote, key: str) -> object:
    if key in note.attributes:
        return note.attributes[key]
    return note.body.get(key) if isinstance(note.body, dict) else None
