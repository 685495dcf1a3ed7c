"""What was heard and is no request: why, from whom, and the line to add."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from ragmeter.adapters.reading.step import Step, Unknown

from ._contexts import Read
from .conventions import is_indexing
from .record import SpanRecord

__all__ = ["REMEDIES", "Silence", "Unheard", "evaluation_of", "unheard_of"]

Silence = Literal[
    "no_retrieval_seen",
    "tool_not_shown",
    "content_off",
    "redacted",
    "truncated",
    "prompt_not_divided",
    "no_model_call",
    "indexing",
    "evaluation",
]
"""Why what was heard is no request."""

REMEDIES: Mapping[str, str] = {
    "no_retrieval_seen": "no span tells a retrieval: trace it, or name the tool that retrieves",
    "tool_not_shown": "if a tool of these retrieves, name it: {}",
    "prompt_not_divided": "trace the retrieval, or put --- between the documents in the prompt",
    "redacted": "what was hidden is not read",
    "truncated": "set OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT=1000 and no limit on the length of values",
    "no_model_call": "no model's call was traced beside it",
    "indexing": "nothing to add: it fills a store",
    "evaluation": "nothing to add: it judges other requests",
}
_MOST_TOOLS = 5


class Unheard(NamedTuple):
    """What gave no request."""

    service: str
    """``service.name``; empty: not told."""
    scope: str
    """The instrumentation."""
    reason: Silence
    """Why not."""
    tools: tuple[str, ...] = ()
    """Tools that were called, some of which may retrieve."""
    line: str = ""
    """What to add."""


def unheard_of(reads: Sequence[Read], calls: Sequence[Step], *, is_divided: bool | None) -> Unheard:
    """Return why spans that belong together are no request.

    Args:
        reads: The spans.
        calls: The models' calls among them.
        is_divided: Whether the prompt tells where one document ends; None: it has no place for any.
    """
    models = [read for read in reads if read.role == "model"]
    tools = [read for read in reads if read.role == "tool"]
    names = tuple(dict.fromkeys(read.reader.tool_name(read.span) for read in tools))[:_MOST_TOOLS]
    first = (models or tools or reads)[0]
    reason: Silence
    if not models:
        fills = not tools and any(is_indexing(read.span) for read in reads)
        reason = "indexing" if fills else "no_model_call"
    elif is_divided is False:
        reason = "prompt_not_divided"
    elif not any(call.sent for call in calls):
        told = {call.messages.reason for call in calls if isinstance(call.messages, Unknown)}
        reason = (
            "redacted"
            if "redacted" in told
            else "truncated"
            if "truncated" in told
            else "content_off"
        )
    else:
        reason = "tool_not_shown" if tools else "no_retrieval_seen"
    line = REMEDIES.get(reason) or first.reader.switch
    option = " ".join(f"--retrieval-tool {name!r}" for name in names)
    if reason == "content_off" and tools and option:
        line = f"{line}; then {REMEDIES['tool_not_shown'].format(option)}"
    return Unheard(_service(first.span), first.span.scope, reason, names, line.format(option))


def _service(span: SpanRecord) -> str:
    return str(span.resource.get("service.name", ""))


def evaluation_of(span: SpanRecord) -> Unheard:
    """Return the note of an evaluation, which is no user's request."""
    return Unheard(_service(span), span.scope, "evaluation", (), REMEDIES["evaluation"])
