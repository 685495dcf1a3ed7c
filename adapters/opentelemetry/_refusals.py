"""Refusals by the model's provider in the spans of one request, with their words."""

from __future__ import annotations

from collections.abc import Sequence

from ragmeter.adapters.reading.values import is_hidden
from ragmeter.requests.refusals import is_refusal_name

from ._contexts import Read
from .record import SpanRecord


def was_refused(own: Read | None, models: Sequence[Read], answer: str | None) -> bool:
    """Return whether the request's own span, or that of the answering call, reports a refusal.

    The answering call is the one whose reply is the answer; if unknown, the one that ended last.
    """
    if own is not None and own.reader.refuses(own.span):
        return True
    by_end = sorted(models, key=lambda item: (item.span.ended_ns, -item.span.started_ns))
    if answer is not None:
        plain = answer.strip()
        said = [(item, item.reader.said(item.span) or "") for item in by_end]
        by_end = [item for item, text in said if text.strip() == plain] or by_end
    return bool(by_end) and by_end[-1].reader.refuses(by_end[-1].span)


def refusal_was_raised(request: SpanRecord | None, members: Sequence[Read]) -> bool:
    """Return whether a request failed by a refusal."""
    return any(is_refusal_name(span.error_type) for span in _error_spans(request, members))


def words_raised(request: SpanRecord | None, members: Sequence[Read]) -> str | None:
    """Return the words of the refusal that was raised, if a span has them."""
    for span in _error_spans(request, members):
        for event in span.events:
            raised = str(event.attributes.get("exception.type"))
            words = event.attributes.get("exception.message")
            if "Refusal" in raised and isinstance(words, str) and words and not is_hidden(words):
                return words
    return None


def _error_spans(request: SpanRecord | None, members: Sequence[Read]) -> list[SpanRecord]:
    """Return the spans with the request's errors: its own, or all that failed if that has no error type."""
    if request is not None and request.error_type not in (None, "Error"):
        return [request]
    return [read.span for read in members if read.span.failed]
