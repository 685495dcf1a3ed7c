"""The spans of one trace as a tree: ancestors of a span, and the request it is part of.

All functions take time linear in the number of spans, even if their parents form cycles.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from .record import SpanRecord


class SpanTree:
    """The spans of one trace.

    Args:
        spans: In any order; of two with one id the one with more data counts.
    """

    def __init__(self, spans: Iterable[SpanRecord]) -> None:
        self.spans: dict[str, SpanRecord] = {}
        self._entries: dict[str, SpanRecord | None] = {}
        self._passed: Collection[str] = ()
        for span in spans:
            known = self.spans.get(span.span_id)
            if known is None or len(span.attributes) > len(known.attributes):
                self.spans[span.span_id] = span

    def parent(self, span: SpanRecord) -> SpanRecord | None:
        """Return the span's parent, if it is here."""
        return None if span.parent_id is None else self.spans.get(span.parent_id)

    def lacks_parent(self, span: SpanRecord) -> bool:
        """Return whether its parent is missing; one in another process is not."""
        return span.parent_id is not None and not span.is_entry and self.parent(span) is None

    def above(self, keys: Iterable[str]) -> set[str]:
        """Return the ids of all spans above these."""
        found: set[str] = set()
        for key in keys:
            span = self.parent(self.spans[key])
            while span is not None and span.span_id not in found:
                found.add(span.span_id)
                span = self.parent(span)
        return found

    def join_processes(
        self, asked: Collection[str], models: Collection[str], retrievals: Collection[str]
    ) -> None:
        """Let a request, a step that was asked, reach into the processes that only retrieve or ask a model."""
        half = self.above(models).union(models) ^ self.above(retrievals).union(retrievals)
        self._passed = {key for key in half if self.spans[key].is_entry and self.parent(self.spans[key])}
        if self._passed:
            above = self.outermost(asked, itself=False)
            self._passed = {key for key in self._passed if above[key] is not None}

    def outermost(
        self, wanted: Collection[str], *, itself: bool, tops: Collection[str] = ()
    ) -> dict[str, str | None]:
        """Return, for each span, the id of the outermost wanted span above it, within its process.

        Args:
            wanted: Ids of the spans that may be returned.
            itself: Whether a span itself may be returned for it.
            tops: Ids of spans whose parents are ignored.
        """

        def begins(span: SpanRecord) -> bool:
            return (span.is_entry and span.span_id not in self._passed) or span.span_id in tops

        found: dict[str, str | None] = {}
        # Spans arrive as they end, the inner ones first: in reverse, most find their ancestors' result known.
        for start in reversed(self.spans.values()):
            if start.span_id in found:
                continue
            span = None if begins(start) else self.parent(start)
            if span is None or span.span_id in found:
                found[start.span_id] = None if span is None else _or(found, span.span_id, wanted)
                continue
            path: list[SpanRecord] = []
            on_path: set[str] = set()
            span = start
            while span is not None and span.span_id not in found and span.span_id not in on_path:
                path.append(span)
                on_path.add(span.span_id)
                span = None if begins(span) else self.parent(span)
            above = None
            if span is not None and span.span_id in found:
                above = _or(found, span.span_id, wanted)
            for step in reversed(path):
                if begins(step):
                    above = None
                found[step.span_id] = above
                if above is None and step.span_id in wanted:
                    above = step.span_id
        if not itself:
            return found
        return {key: _or(found, key, wanted) for key in found}

    def cut_off(self) -> dict[str, SpanRecord]:
        """Return, for each span below a missing parent, the uppermost span that is present."""
        missing = {key for key, span in self.spans.items() if self.lacks_parent(span)}
        if not missing:
            return {}
        tops = self.outermost(missing, itself=True)
        return {key: self.spans[top] for key, top in tops.items() if top is not None}

    def entry_above(self, span: SpanRecord) -> SpanRecord | None:
        """Return the span by which the request entered the process, or None."""
        path: list[str] = []
        above: SpanRecord | None = span
        while above is not None and above.span_id not in self._entries:
            self._entries[above.span_id] = above if above.is_entry else None
            path.append(above.span_id)
            above = None if above.is_entry else self.parent(above)
        entry = self._entries[above.span_id] if above is not None else self._entries[path[-1]]
        self._entries.update(dict.fromkeys(path, entry))
        return entry

    def path(self, top: str, below: SpanRecord) -> list[SpanRecord]:
        """Return the spans from `top` down to `below`."""
        steps: list[SpanRecord] = []
        passed: set[str] = set()
        span: SpanRecord | None = below
        while span is not None and span.span_id not in passed:
            steps.append(span)
            passed.add(span.span_id)
            if span.span_id == top:
                break
            span = self.parent(span)
        return steps[::-1]


def _or(found: Mapping[str, str | None], key: str, wanted: Collection[str]) -> str | None:
    """Return the result found above a span, or the span if it is wanted itself."""
    return found[key] or (key if key in wanted else None)
