"""Requests and model calls that were recorded twice: by two conventions, or in two traces.

LangChain's instrumentations make no span current, so that calls by its model, or the spans of a second
instrumentation, begin another trace; Logfire writes streamed replies into a separate trace. A call that is
its whole trace, without additional data, is no second request.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from ragmeter.adapters.reading.letters import letters_of
from ragmeter.metrics._process.bounded_table import BoundedTable

from ._found import FoundRequest
from .conventions import reading
from .record import SpanRecord

_MOST = 10_000
_LATER_NS = 1_000_000
"""Some emitters have times in milliseconds."""
_REPLY = re.compile(r"(?:gen_ai|llm)\.(?:output.messages|(?:content\.)?completion)|output\.value")
"""Names of attributes with a model's reply: a text, or calls of tools."""


class _Call(NamedTuple):
    trace_id: str
    scope: str
    service: str
    started_ns: int
    ended_ns: int


def _call_of(span: SpanRecord, scope: str | None = None) -> _Call:
    return _Call(span.trace_id, scope or span.scope, span.service, span.started_ns, span.ended_ns)


class RecentCalls:
    """The latest model calls: those with a parent by their reply, others by their input."""

    def __init__(self) -> None:
        self._calls = BoundedTable[int, _Call](max_entries=_MOST)

    def note(self, span: SpanRecord) -> None:
        """Store a received span, if it is such a call."""
        said = _said_in(span)
        place = said if span.parent_id is not None or not said else _sent_in(span)
        if place:
            self._calls.put(place, _call_of(span))

    def repeat(self, spans: Sequence[SpanRecord]) -> bool:
        """Return whether a trace is one call of which another trace has more data."""
        if len(spans) != 1 or spans[0].parent_id is not None:
            return False
        inner, said = spans[0], _said_in(spans[0])
        outer = self._calls.get(said or (_sent_in(inner) if is_unanswered(inner) else 0))
        if outer is None or outer.trace_id == inner.trace_id or outer.service != inner.service:
            return False
        if not said:
            return outer.scope == inner.scope and inner.started_ns <= outer.ended_ns
        return (
            outer.scope != inner.scope
            and outer.started_ns - _LATER_NS <= inner.started_ns
            and inner.ended_ns <= outer.ended_ns + _LATER_NS
        )


class RecentRequests:
    """The latest requests, by question and answer: two instrumentations may record one in a trace each."""

    def __init__(self) -> None:
        self._requests = BoundedTable[int, _Call](max_entries=_MOST)

    def repeats(self, found: FoundRequest) -> bool:
        """Return whether another instrumentation recorded the request in another trace; else store it."""
        if found.question is None or found.answer is None:
            return False
        ours = _call_of(found.span or found.members[0], found.scope)
        key = hash((ours.service, found.question, found.answer))
        other = self._requests.get(key)
        if (
            other is not None
            and other.trace_id != ours.trace_id
            and other.scope != ours.scope
            and _overlap(ours, other)
        ):
            return True
        self._requests.put(key, ours)
        return False


def usable_rank(found: FoundRequest) -> int:
    """Return the rank of a request by the extent to which it can be scored, 0 for the best."""
    return ("full", "ids_only", "none").index(found.usable)


def without_repeats(found: Sequence[FoundRequest]) -> list[FoundRequest]:
    """Return the requests without those that a second convention reports again."""
    if len({one.convention for one in found}) < 2:
        return [*found]
    kept: dict[str | None, list[FoundRequest]] = {}
    for one in sorted(found, key=usable_rank):
        others = kept.setdefault(one.question, [])
        if not any(
            one.convention != other.convention
            and _overlap(*(item.span or item.members[0] for item in (one, other)))
            for other in others
        ):
            others.append(one)
    return [one for others in kept.values() for one in others]


def _overlap(one: _Call | SpanRecord, other: _Call | SpanRecord) -> bool:
    return one.started_ns <= other.ended_ns and other.started_ns <= one.ended_ns


def is_unanswered(span: SpanRecord) -> bool:
    """Return whether a span has a model's input and no reply: a stream's may arrive separately."""
    known = reading(span)
    return (
        known is not None
        and known[1] == "model"
        and not span.failed
        and known[0].output_key not in span.attributes
        and not any(map(_REPLY.match, span.attributes))
        and not any(event.name == "gen_ai.choice" for event in span.events)
        and known[0].said(span) is None
        and bool(known[0].prompt(span))
    )


def _sent_in(span: SpanRecord) -> int:
    """Return a hash of a model's input."""
    known = reading(span)
    sent = [] if known is None else known[0].prompt(span)
    return hash(("sent", *(letters_of(text) for _, text in sent)))


def _said_in(span: SpanRecord) -> int:
    """Return a hash of a model's reply; 0 if the span is not a model call or has no reply."""
    known = reading(span)
    if known is None or known[1] != "model":
        return 0
    said = letters_of(known[0].said(span) or "")
    return hash(said) if said else 0
