"""Whether a request came whole: `Wholeness`, which knows whose parents are never sent here.

A span whose parent did not come means one of two things.  Either the parent was lost, on its way or with the
process that had it: then what hung below it and beside it may be lost, too.  Or it never is sent here,
as when an application exports the spans of one instrumentation alone: then nothing is missing.
Which of them it is shows in other requests, and
until others came, in whether it was answered.  Called by the reporter of traces; not locked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from .conventions import reading
from .record import SpanRecord

ALWAYS_AFTER = 10
"""So many spans of a kind whose parents did not come, and none whose parent did, show that they never do."""
MAX_KINDS = 1_000
"""Kinds that are kept separate; what is cut off and of another kind is taken for a loss."""


class _Kind(NamedTuple):
    """Spans that are sent alike."""

    service: str
    scope: str
    role: str


class Wholeness:
    """Learns whose parents never come, and says of a request whether a part of it is missing."""

    def __init__(self) -> None:
        self._with_parent: set[_Kind] = set()
        self._without: Counter[_Kind] = Counter()

    def see(self, spans: Iterable[SpanRecord]) -> None:
        """Learn from the spans of a trace which kinds come with their parents."""
        spans = tuple(spans)
        here = {span.span_id for span in spans}
        for span in spans:
            if span.parent_id in here:
                kind = _kind_of(span)
                if kind not in self._with_parent and len(self._with_parent) < MAX_KINDS:
                    self._with_parent.add(kind)

    def is_partial(self, cut_off: Iterable[SpanRecord], *, answered: bool) -> bool:
        """Return whether one of these spans, which came without their parents, shows a loss.

        Args:
            cut_off: The spans of a request whose parents did not come.
            answered: Whether its answer did. As long as nothing is known of spans of the kind, it then
                counts as whole.
        """
        lost = False
        for kind in {_kind_of(span) for span in cut_off}:
            if kind in self._with_parent:
                lost = True
                continue
            if kind in self._without or len(self._without) < MAX_KINDS:
                self._without[kind] += 1
            lost = lost or (not answered and self._without[kind] <= ALWAYS_AFTER)
        return lost


def _kind_of(span: SpanRecord) -> _Kind:
    known = reading(span)
    return _Kind(
        span.resource.get("service.name", ""), span.scope, "" if known is None else known[1]
    )
