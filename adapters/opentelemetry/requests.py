"""The requests in the spans of one trace: one for each outermost step below which something was retrieved.

Neither a trace nor the span of an HTTP request is a request: several may be below one, and some emitters put
a request below another one's. Where the request's own span is missing, its retrievals are the request.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from ragmeter.adapters._unseen import context_in
from ragmeter.adapters.reading.calls import last_reply, response_id_of, speakers_of
from ragmeter.adapters.reading.letters import letters_of
from ragmeter.adapters.reading.prompt_documents import PromptTemplates, carried_in
from ragmeter.adapters.reading.request_texts import answer_in, has_context
from ragmeter.adapters.reading.results import RetrievalTool
from ragmeter.adapters.reading.step import Step
from ragmeter.adapters.reading.values import mapping_of

from ._accounts import Unheard, is_evaluation, note_of, unheard_of, why_unasked
from ._contexts import Read, Seen, missing_in, reached, read_of
from ._earlier import EarlierRetrievals
from ._found import FoundRequest, Reason, Usable
from ._limits import CutLength
from ._question import RequestQuestion
from ._refusals import refusal_was_raised, was_refused, words_raised
from ._repeats import RecentRequests, usable_rank, without_repeats
from ._roots import brings_documents, is_given_in, is_shown_in, join_roots, join_siblings, split_requests
from ._shapes import handed_over, made_by_steps, with_shapes
from ._sources import source_in
from ._steps import BY_LAYOUT, calls_of, function_in, reached_model, with_layout
from ._times import RequestTimes
from ._tree import SpanTree
from .conventions import READERS, AnySpan, Documents, holds_messages, is_indexing, with_logs
from .record import LogNote, SpanRecord

__all__ = ["OWN_SCOPE", "FoundRequest", "Reason", "TraceReading", "Usable", "read_trace"]

OWN_SCOPE = "ragmeter"
_FENCE = re.compile(r"\A\s*```(?:json)?\s*|\s*```\s*\Z")
_NEVER_END = "opentelemetry.instrumentation.llamaindex"
"""Leaves spans open, and so unsent, when an exception is raised in them or an answer is streamed."""


class TraceReading(NamedTuple):
    """The requests in one trace, and the entries of its other spans."""

    requests: list[FoundRequest]
    """Its requests, by their start."""
    unheard: list[Unheard]
    """The spans that are no request, with the reason."""


def read_trace(
    spans: Iterable[SpanRecord],
    logs: Sequence[LogNote] = (),
    tools: Sequence[RetrievalTool] = (),
    templates: PromptTemplates | None = None,
    *,
    repeats: bool = False,
    recent: RecentRequests | None = None,
    earlier: EarlierRetrievals | None = None,
) -> TraceReading:
    """Return the requests in the spans of one trace, and the entries of its other spans.

    Args:
        spans: The trace's spans, in any order.
        logs: Its log records.
        tools: The tools that retrieve.
        templates: The texts in every prompt, from earlier traces.
        repeats: Whether they are one call that is in another trace, too.
        recent: The requests of earlier traces.
        earlier: The retrievals that were traces of their own.
    """
    if repeats:
        return TraceReading([], [note_of(next(iter(spans)), "repeated")])
    tree = SpanTree(with_logs(spans, logs))
    reads = {
        span.span_id: read
        for span in tree.spans.values()
        if span.scope != OWN_SCOPE and (read := read_of(span, tools)) is not None
    }
    excluded = {
        span.span_id
        for span in tree.spans.values()
        if span.scope == OWN_SCOPE
        or ((read := reads.get(span.span_id)) is not None and read.role == "evaluation")
    }
    judged: Mapping[str, str | None] = {}
    if excluded:
        judged = tree.outermost(excluded, itself=True)
        reads = {key: read for key, read in reads.items() if judged[key] is None}
    judges = [
        note_of(tree.spans[key], "evaluation")
        for key in excluded
        if tree.spans[key].scope != OWN_SCOPE and judged[key] == key
    ]
    if not reads:
        return TraceReading([], judges)
    reads = with_shapes(reads, tree)
    finder = _Finder(tree, reads, logs, templates or PromptTemplates(), earlier or EarlierRetrievals())
    requests: list[FoundRequest] = []
    for found in sorted(finder.requests(), key=_start):
        is_repeat = recent is not None and recent.repeats(found)
        reason = "repeated" if is_repeat else why_unasked(found, requests)
        if reason is None:
            requests.append(found)
        else:
            judges.append(note_of(found.span or found.members[0], reason))
    return TraceReading(requests, judges + finder.unheard)


def _start(found: FoundRequest) -> tuple[int, str]:
    first = found.span or min(found.members, key=lambda span: span.started_ns)
    return first.started_ns, first.span_id


class _Finder:
    """Groups the spans of a trace into requests, and builds each."""

    def __init__(
        self,
        tree: SpanTree,
        reads: dict[str, Read],
        logs: Sequence[LogNote],
        templates: PromptTemplates,
        earlier: EarlierRetrievals,
    ) -> None:
        self._earlier = earlier
        self._tree = tree
        self._templates = templates
        self._reads = reads
        self._logs = logs
        self._cut = CutLength(tree.spans.values())
        self.unheard: list[Unheard] = []
        steps = {key for key, read in reads.items() if read.role in ("step", "join") and not read.is_retrieval}
        retrievals = {key for key, read in reads.items() if read.is_retrieval}
        if len({span.service for span in tree.spans.values()}) > 1:
            asked = {
                key
                for key in steps
                for read in [reads[key]]
                if read.reader.question(read.span) is not None or read.reader.answer(read.span) is not None
            }
            sources = retrievals.union(key for key, read in reads.items() if read.role == "rerank")
            tree.join_processes(asked, {key for key, read in reads.items() if read.role == "model"}, sources)
        self._tops = tree.outermost(tree.spans, itself=True)
        requests = tree.outermost(steps, itself=True)
        first: dict[str | None, int] = {}
        for key in retrievals:
            begun = tree.spans[key].started_ns
            first[requests[key]] = min(begun, first.get(requests[key], begun))
        # A retrieval that begins after its ancestor had ended belongs to another request: a context leaked.
        later = {
            key
            for key in steps & tree.above(retrievals)
            if (parent := tree.parent(tree.spans[key])) is not None
            and parent.started_ns < parent.ended_ns < tree.spans[key].started_ns
            and first.get(requests[key], math.inf) < tree.spans[key].started_ns
        }
        self._request_of = tree.outermost(steps, itself=True, tops=later) if later else requests
        self._retrieval_above = tree.outermost(retrievals, itself=False)
        self._cut_off = tree.cut_off()
        self._sources: dict[str, str] = {}
        for key, span in tree.spans.items():
            read = reads.get(key)
            own = read is not None and not isinstance(read.reader, AnySpan)
            above = None if own else self._retrieval_above[key]
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
        joined, alone = join_siblings(groups, alone, self._tree, self._tops, self._cut)
        found += [self._best(None, members) for members in joined]
        alone = join_roots(groups, alone, self._reads, self._tops, self._retrieval_above, self._cut)
        for request, members in groups.items():
            if any(map(brings_documents, members)):
                found.append(self._best(self._tree.spans[request], members))
            else:
                bare.append((self._tree.spans[request], members))
        found.extend(self._without_request(alone))
        found = without_repeats(found)
        return [*found, *self._without_retrieval(bare, alone, found)]

    def _without_request(self, alone: Sequence[Read]) -> list[FoundRequest]:
        """Return requests whose own span never arrived.

        Retrievals whose parents are missing belong to one request; so do those of one query below a span that
        did arrive.
        """
        groups: dict[tuple[str, str | None], list[Read]] = {}
        for read in alone:
            if not brings_documents(read):
                continue
            if self._retrieval_above[read.span.span_id] is not None and read.role != "rerank":
                outer = self._tree.spans[self._retrieval_above[read.span.span_id] or ""]
                top = self._reads[outer.span_id]
            else:
                top = read
            present = self._tree.parent(top.span) is not None
            query = top.reader.query(top.span) if present else None
            groups.setdefault((top.reader.name if present else "", query), []).append(read)
        others = [read for read in alone if read.role == "model"]
        if len(groups) == 1 and others:
            [members] = groups.values()
            others = self._beside(members, others)
        if len(groups) < 2:
            return [self._best(None, [*members, *others]) for members in groups.values()]
        # Prompts decide to which of them the calls belong.
        pages = [
            (read, letters_of("\0".join(text for _, text in read.reader.prompt(read.span)))) for read in others
        ]
        return [
            self._best(None, [*members, *(read for read, page in pages if is_shown_in(members, page))])
            for members in groups.values()
        ]

    def _beside(self, members: Sequence[Read], models: list[Read]) -> list[Read]:
        """Return the calls of a retrieval: in other processes only if one was sent its documents."""
        entry = self._tree.entry_above(members[0].span)
        page = letters_of("\0".join(text for read in models for _, text in read.reader.prompt(read.span)))
        if not page or is_given_in(members, page):
            return models
        return [read for read in models if self._tree.entry_above(read.span) is entry]

    def _best(self, request: SpanRecord | None, members: list[Read]) -> FoundRequest:
        """Return the request as described by the convention with the most data about it."""
        names = {read.reader.name: None for read in members if read.is_retrieval or read.role == "rerank"}
        order = [reader.name for reader in READERS if reader.name in names]
        options = [self._describe(request, members, name) for name in order]
        return min(options, key=usable_rank)

    def _describe(self, request: SpanRecord | None, members: list[Read], convention: str) -> FoundRequest:
        seen = reached(
            (read for read in members if read.reader.name == convention),
            lambda span: self._retrieval_above[span.span_id],
            self._tree,
        )
        if not seen:  # a reranking that failed, of documents that no span has
            ours = (read for read in members if read.reader.name == convention)
            lone = next(read for read in ours if read.is_retrieval or read.role == "rerank")
            seen = (Seen(lone, lone.documents()),)
        first = seen[0].retrievals[0]
        models = self._models(members, seen)
        path = [] if request is None else self._tree.path(request.span_id, first.span)
        if request is not None and path[0] is not request:
            path = [request]  # it was retrieved before
        steps = [read for span in path if (read := self._reads.get(span.span_id)) is not None]
        failed = self._is_failure(request, members, first)
        calls = calls_of(models, self._cut, members)
        texts = [item.text for one in seen for item in one.documents.items]
        asked = RequestQuestion.of(steps, seen, models, calls).apart_from(texts, calls)
        answer, answer_hidden = self._answer(request, models, calls, asked.question, texts)
        if request is None and not models and not answer_hidden:
            answer = first.reader.answer_beside(first.span)
        joined = "".join(letters_of(text or "") for text in texts) if len(texts) > 1 and not models else ""
        if joined and letters_of(answer or "") == joined:
            answer = None  # no model wrote it
        own = None if request is None else self._reads.get(request.span_id)
        refused = refusal_was_raised(request, members) if failed else was_refused(own, models, answer)
        if failed and refused and answer is None:
            answer = words_raised(request, members)
        elif failed and not refused:
            answer, answer_hidden = None, False
        contexts = tuple(item for one in seen for item in one.documents.items)
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
            response_id=response_id_of(speakers_of(calls, answer), answer),
            members=self._members(request, members),
            sources=self._sources,
            cut_off=self._cut_off_of(request, members),
        )
        found = self._assess(found, hidden=asked.hidden, answer_hidden=answer_hidden)
        if found.reason in BY_LAYOUT and _was_answered(seen, calls, answer):
            return with_layout(found, calls)
        readable = found.usable == "full" or found.reason == "rerank_invisible"
        if not readable or not _was_answered(seen, calls, answer):
            return found
        calls.sort(key=lambda call: call.started_ns)
        carried = carried_in(calls, answer, [item.text for item in contexts if item.text])
        found = replace(found, carried=carried)
        if not contexts:
            return found
        by_tool = any(read.role == "tool" for read in members)
        exchange = (found.question, answer)
        stood = reached_model(contexts, seen, calls, exchange, by_tool=by_tool)
        if stood is not None and not stood[0] and (made := made_by_steps(members)):
            stood = reached_model(made, seen, calls, exchange, by_tool=by_tool) or stood
        if stood is None or (found.usable == "none" and not stood[0]):
            return found
        if found.usable == "none":  # the reranking does not report its output, the prompt shows it
            last = replace(seen[-1], documents=Documents(stood[0]))
            found = replace(found, usable="full", reason=None, seen=(*seen[:-1], last))
        return replace(found, contexts=stood[0], shown=stood[1])

    def _members(self, request: SpanRecord | None, members: Sequence[Read]) -> tuple[SpanRecord, ...]:
        spans = [read.span for read in members]
        entry = self._tree.entry_above(request or spans[0])
        return tuple(spans) if entry is None else (*spans, entry)

    def _cut_off_of(self, request: SpanRecord | None, members: Sequence[Read]) -> tuple[SpanRecord, ...]:
        """Return the spans at which parts of the request are missing.

        Without a span of its own, they are those above its members. Otherwise they are the spans that ran
        within its time and have no parent: spans above its own span are not its own.
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
        # An instrumentation that leaves spans open while it streams has lost nothing.
        return tuple({top.span_id: top for top in tops if top is not None and top.scope != _NEVER_END}.values())

    def _models(self, members: Sequence[Read], seen: Sequence[Seen]) -> list[Read]:
        """Return the model calls that may have seen the retrieved documents, in start order."""
        begun = min((item.read.span.started_ns for item in seen), default=0)
        return sorted(
            (
                read
                for read in members
                if read.role == "model" and self._retrieval_above[read.span.span_id] is None
            ),
            key=lambda read: (read.span.started_ns < begun, read.span.started_ns, read.span.ended_ns),
        )

    def _is_failure(self, request: SpanRecord | None, members: Sequence[Read], first: Read) -> bool:
        if request is not None:
            return request.failed
        entry = self._tree.entry_above(first.span)
        if entry is not None and (entry.failed or entry.is_server_error):
            return True
        if any(read.span.failed for read in members):
            return True
        lost = first.span.parent_id is not None and self._tree.parent(first.span) is None
        if first.span.scope != _NEVER_END or not lost:
            return False
        # A model would have given the answer, and its span ends also if others do not.
        return not any(_is_model_of(span) for span in self._tree.spans.values())

    def _answer(
        self,
        request: SpanRecord | None,
        models: Sequence[Read],
        calls: Sequence[Step],
        question: str | None,
        texts: Sequence[str | None] = (),
    ) -> tuple[str | None, bool]:
        """Return the answer, and whether the user had it hidden."""
        read = None if request is None else self._reads[request.span_id]
        if read is not None:
            if read.reader.hides(read.span, "output"):
                return None, True
            answer = read.reader.answer(read.span)
            if answer is not None:
                return answer, False
            output = read.span.attributes.get(read.reader.output_key)
            form = mapping_of(output) if models else {}
            said = (function_in(models[-1])[1], *(call.words for call in calls)) if form else ()
            if any(form == mapping_of(one) for one in said):
                return str(output), False  # fields of the application's own
        if any(model.reader.hides(model.span, "output") for model in models):
            return None, True
        by_end = sorted(calls, key=lambda one: (one.ended_ns, -one.started_ns))
        reply = last_reply(by_end, texts, question)
        form = mapping_of(_FENCE.sub("", reply or ""))
        return (answer_in(form) if form else None) or reply, False

    def _assess(self, found: FoundRequest, *, hidden: bool, answer_hidden: bool) -> FoundRequest:
        """Return the request with the extent to which it can be scored, and the reason."""
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
            ours = {span.span_id for span in found.members}
            in_logs = any(note.span_id in ours and holds_messages(note) for note in self._logs)
            reason = "content_in_logs" if in_logs else missing
        elif missing in ("rerank_invisible", "unreadable_result"):
            reason = missing
        elif hidden or answer_hidden or texts_hidden:
            usable, reason = ("ids_only" if texts_hidden and has_ids else "none"), "redacted"
        elif missing == "truncated" or any(
            map(self._cut.is_cut, [found.question, found.answer, *(item.text for item in found.contexts)])
        ):
            reason = "truncated"
        elif any(item.text is None for item in found.contexts):
            usable, reason = "ids_only", "convention_has_no_text"
        else:
            usable, reason = "full", None
        return replace(found, usable=usable, reason=reason)

    def _without_retrieval(
        self,
        bare: Sequence[tuple[SpanRecord, list[Read]]],
        alone: Sequence[Read],
        found: Sequence[FoundRequest],
    ) -> list[FoundRequest]:
        """Return requests whose documents are only in a prompt; record traces without a request.

        Some emitters write the steps of a request side by side: a step that runs within another
        one's time, below the same parent, is a part of it.
        """
        taken = {span.span_id for one in found for span in one.members}
        beside: dict[str | None, list[Read]] = {}
        for read in alone:
            if read.span.span_id not in taken:
                beside.setdefault(read.span.parent_id, []).append(read)
        groups: list[tuple[SpanRecord, list[Read]]] = []
        last: dict[str | None, tuple[SpanRecord, list[Read]]] = {}
        for span, members in sorted(bare, key=lambda item: (item[0].started_ns, -item[0].ended_ns)):
            open_one = last.get(span.parent_id)
            if open_one is not None and span.ended_ns <= open_one[0].ended_ns:
                open_one[1].extend(members)
                continue
            last[span.parent_id] = (span, [*members])
            groups.append(last[span.parent_id])
        for reads in beside.values():
            reads.sort(key=_began)
        for span, members in groups:
            left = beside.get(span.parent_id, [])
            within = slice(
                bisect_left(left, span.started_ns, key=_began), bisect_right(left, span.ended_ns, key=_began)
            )
            members.extend(left[within])
            del left[within]
        times = RequestTimes(found, self._tops)
        made = [self._by_prompt(span, members, taken, times) for span, members in groups]
        tops: dict[str, list[Read]] = {}
        left_over = [read for reads in beside.values() for read in reads]
        # A call may be recorded as two spans of one time: the outer one is the first.
        left_over.sort(
            key=lambda read: (_began(read), -read.span.ended_ns, self._is_within(read), read.span.span_id)
        )
        for read in left_over:
            tops.setdefault(self._tops.get(read.span.span_id) or read.span.span_id, []).append(read)
        made += [
            self._by_prompt(None, members, taken, times)
            for together in tops.values()
            for members in split_requests(together)
        ]
        return [one for one in made if one is not None]

    def _is_within(self, read: Read) -> bool:
        parent = self._tree.parent(read.span)
        return parent is not None and parent.started_ns == read.span.started_ns

    def _by_prompt(
        self, span: SpanRecord | None, members: list[Read], taken: Collection[str], times: RequestTimes
    ) -> FoundRequest | None:
        """Return the request whose documents are in its prompt; else record the reason."""
        models = self._models(members, ())
        calls = calls_of(models, self._cut, members)
        first = span or members[0].span
        own = None if span is None else self._reads[span.span_id]
        if first.span_id in taken or times.hold(first):
            return None
        calls_any = any(read.role in ("model", "tool") or is_indexing(read.span) for read in members)
        if not calls_any and (own is None or not _hands_on(members)):
            return None
        top = self._tree.spans[self._tops.get(first.span_id) or first.span_id]
        if is_evaluation(first) or is_evaluation(top):
            self.unheard.append(note_of(first, "evaluation"))
            return None
        if (joined := self._after_earlier(span, members, calls)) is not None:
            return joined
        asked = RequestQuestion.of([] if own is None else [own], (), models, calls)
        answer, answer_hidden = self._answer(span, models, calls, asked.question)
        hidden = answer_hidden or asked.hidden
        name = f"{first.service} {first.name}"
        steps = (read for read in members if read.role == "step")
        given = (mapping_of(read.span.attributes.get(read.reader.input_key)) for read in steps)
        filled = next(filter(None, map(context_in, given)), None)
        shown = None if hidden else handed_over(members, calls)
        if not hidden and shown is None:
            shown = self._templates.shown(name, calls, answer, asked.question, filled)
        full = shown is not None and shown.is_divided and not first.failed
        if not full and (own is None or not _hands_on(members)):
            is_divided = None if shown is None else shown.is_divided
            note = unheard_of(members, calls, is_divided=is_divided)
            if note.reason == "no_retrieval_seen" and any(
                one.is_linked for one in self._members(span, members)
            ):
                note = note._replace(reason="linked_trace")
            self.unheard.append(note)
            return None
        contexts = shown.documents if shown is not None and full else ()
        asked = asked.apart_from([item.text for item in contexts], calls)
        failed = first.failed
        speakers = speakers_of(calls, answer) if span is None else []
        return FoundRequest(
            convention=members[0].reader.name if own is None else own.reader.name,
            scope=first.scope,
            question=asked.question,
            contexts=contexts,
            answer=None if failed else answer,
            failed=failed,
            usable="full" if full else "none",
            reason=None if full else "no_retrieval_span",
            span=span,
            answering=self._tree.spans[speakers[-1].id] if speakers else None,
            asked_model=bool(models),
            shown=contexts if full else None,
            carried=carried_in(calls, answer, [item.text or "" for item in contexts]) if full else (),
            members=self._members(span, members),
        )

    def _after_earlier(
        self, span: SpanRecord | None, members: list[Read], calls: Sequence[Step]
    ) -> FoundRequest | None:
        """Return the request that began with retrievals of earlier traces; None if with none."""
        page = letters_of("\0".join(text for call in calls for _, text in call.sent))
        earlier = self._earlier.before(span or members[0].span, page)
        if not earlier:
            return None
        found = [read for one in earlier for read in one.reads]
        self._retrieval_above |= {read.span.span_id: None for read in found}
        request = self._best(span, [*members, *found])
        speakers = speakers_of(calls, request.answer) if span is None else []
        answering = self._tree.spans[speakers[-1].id] if speakers else None
        return replace(request, earlier=tuple(one.alone for one in earlier), answering=answering)


def _began(read: Read) -> int:
    return read.span.started_ns


def _hands_on(members: Iterable[Read]) -> bool:
    """Return whether documents were passed on between steps."""
    return has_context(
        value
        for item in members
        for value in (
            item.span.attributes.get(item.reader.input_key),
            item.span.attributes.get(item.reader.output_key),
        )
    )


def _was_answered(seen: Sequence[Seen], calls: Sequence[Step], answer: str | None) -> bool:
    """Return whether a model was called after the last retrieval, or had answered before it.

    Otherwise the documents that it would have seen are unknown.
    """
    last = max(item.read.span.started_ns for item in seen)
    return any(call.started_ns >= last for call in calls) or bool(speakers_of(calls, answer))


def _is_model_of(span: SpanRecord) -> bool:
    """Return whether LlamaIndex's model was called here, by OpenLLMetry's names of such spans."""
    if span.scope != _NEVER_END:
        return "gen_ai.request.model" in span.attributes
    value = span.attributes.get("traceloop.entity.input")
    is_call = span.attributes.get("traceloop.span.kind") == "workflow"
    return (
        is_call
        or "gen_ai.output.messages" in span.attributes
        or (isinstance(value, str) and value.startswith(('{"args"', '{"messages"', '{"prompt"')))
    )
