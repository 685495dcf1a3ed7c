"""Detection of incomplete requests: `Wholeness`, which learns the spans whose parents are never sent here.

A span whose parent did not arrive means one of two things. Either the parent was lost, on its way or with its
process: then other spans below and beside it may be lost, too. Or it is never sent here, as when an
application exports the spans of one instrumentation alone: then nothing is missing. Other requests decide
between these and, until others have arrived, whether the request was answered. Called by the reporter of
traces; not locked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from .conventions import reading
from .record import SpanRecord

ALWAYS_AFTER = 10
"""Spans of a kind with missing parents, without one whose parent arrived, beyond which they never arrive."""
MAX_KINDS = 1_000
"""Maximum number of separate kinds; a span without its parent of any other kind counts as a loss."""


class _Kind(NamedTuple):
    """The kind of a span: spans of one kind are sent alike."""

    service: str
    scope: str
    role: str


class Wholeness:
    """Learns which spans' parents never arrive, and detects requests with missing parts."""

    def __init__(self) -> None:
        self._with_parent: set[_Kind] = set()
        self._without: Counter[_Kind] = Counter()

    def see(self, spans: Iterable[SpanRecord]) -> None:
        """Learn from the spans of a trace which kinds arrive with their parents."""
        spans = tuple(spans)
        here = {span.span_id for span in spans}
        for span in spans:
            if span.parent_id in here:
                kind = _kind_of(span)
                if kind not in self._with_parent and len(self._with_parent) < MAX_KINDS:
                    self._with_parent.add(kind)

    def is_partial(self, cut_off: Iterable[SpanRecord], *, answered: bool) -> bool:
        """Return whether one of these spans, which arrived without their parents, indicates a loss.

        Args:
            cut_off: The spans of a request whose parents did not arrive.
            answered: Whether its answer did. An answered request counts as complete until spans of the kind
                are known.
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
    return _Kind(span.service, span.scope, "" if known is None else known[1])
