"""Calls of models that two instrumentations recorded in two traces: LangChain's, and its client's.

LangChain's instrumentations make no span current, so what its model calls begins another trace.  That call,
which is all of its trace, is no second request.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import NamedTuple

from ragmeter.adapters.reading.letters import letters_of

from .conventions import reading
from .record import SpanRecord

_MOST = 10_000
_LATER_NS = 1_000_000
"""Some emitters know times to the millisecond."""


class _Call(NamedTuple):
    trace_id: str
    scope: str
    service: str
    started_ns: int
    ended_ns: int


class RecentCalls:
    """The latest calls of models that stand below something else, by what they said."""

    def __init__(self) -> None:
        self._calls: OrderedDict[int, _Call] = OrderedDict()

    def note(self, span: SpanRecord) -> None:
        """Note a span that came, if it is such a call."""
        if span.parent_id is not None and (said := _said_in(span)):
            self._calls[said] = _Call(
                span.trace_id, span.scope, _service(span), span.started_ns, span.ended_ns
            )
            if len(self._calls) > _MOST:
                self._calls.popitem(last=False)

    def repeat(self, spans: Sequence[SpanRecord]) -> bool:
        """Return whether a trace is one call that another instrumentation recorded within another trace."""
        if len(spans) != 1 or spans[0].parent_id is not None or not (said := _said_in(spans[0])):
            return False
        inner, outer = spans[0], self._calls.get(said)
        return (
            outer is not None
            and outer.trace_id != inner.trace_id
            and outer.scope != inner.scope
            and outer.service == _service(inner)
            and outer.started_ns - _LATER_NS <= inner.started_ns
            and inner.ended_ns <= outer.ended_ns + _LATER_NS
        )


def _service(span: SpanRecord) -> str:
    return span.resource.get("service.name", "")


def _said_in(span: SpanRecord) -> int:
    """Return a hash of a model's reply; 0 if the span is not a model call or has no reply."""
    known = reading(span)
    if known is None or known[1] != "model":
        return 0
    said = letters_of(known[0].said(span) or "")
    return hash(said) if said else 0
