"""What a trace tells in which nothing was retrieved: models' calls, and tools that may be what retrieves."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ragmeter.adapters._unseen import GaveOut
from ragmeter.adapters.reading.fields import strings_in
from ragmeter.adapters.reading.prompts import Sent
from ragmeter.adapters.reading.values import opened

from .conventions import reading
from .record import SpanRecord
from .requests import OWN_SCOPE

__all__ = ["UnseenTrace", "unseen_in"]


class UnseenTrace(NamedTuple):
    """What a trace tells in which nothing was retrieved."""

    calls: tuple[Sent, ...]
    """What models were sent."""
    given: tuple[GaveOut, ...]
    """What tools gave out, in that order."""
    said: tuple[str, ...]
    """What models said."""


def unseen_in(spans: Iterable[SpanRecord]) -> UnseenTrace:
    """Return the models' calls of a trace, and the tools': one of them may be a retrieval."""
    known = [
        (span, *read)
        for span in sorted(spans, key=lambda span: span.ended_ns)
        if span.scope != OWN_SCOPE and (read := reading(span)) is not None
    ]
    models = [(span, reader) for span, reader, role in known if role == "model"]
    return UnseenTrace(
        tuple(
            tuple((role, (text,)) for role, text in reader.prompt(span)) for span, reader in models
        ),
        tuple(
            GaveOut("tool", reader.tool_name(span), _texts_of(reader.result(span)))
            for span, reader, role in known
            if role == "tool"
        ),
        tuple(said for span, reader in models if (said := reader.said(span))),
    )


def _texts_of(result: object) -> tuple[str, ...]:
    """Return the texts of a tool's result: as it stands on the span, and what it holds."""
    held = [item.text for item in strings_in(opened(result))]
    return tuple(dict.fromkeys([*([result] if isinstance(result, str) else []), *held]))
