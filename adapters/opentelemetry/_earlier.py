"""Retrievals that are a trace of their own: their documents may stand in the prompt of the next trace.

Without a span around both, ``retriever.invoke(question)`` and the call of a model after it are two traces, as
are a graph that was interrupted and its continuation. They are one request.
"""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from ragmeter.adapters.reading.letters import letters_of
from ragmeter.requests.lone_retrieval import (
    MOST_TOGETHER,
    MOST_WAITING,
    UNKNOWN_SURROUNDINGS,
    LoneRetrieval,
    RecentRetrievals,
)

from ._contexts import Read
from ._roots import is_given_in, is_shown_in

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ._found import FoundRequest
    from .record import SpanRecord

_LEAST = 20
"""Minimum letters of documents by which a retrieval is found again."""


class EarlierRetrieval(NamedTuple):
    """A retrieval that a trace consists of, and what waits for the next trace in the meter."""

    alone: LoneRetrieval
    reads: tuple[Read, ...]
    first: SpanRecord
    """The first span of its trace."""

    def leads_to(self, later: SpanRecord, page: str) -> bool:
        """Return whether a later trace of this service may go on with it, by their times and conversations."""
        sessions = {session for span in (self.first, later) if (session := span.attributes.get("session.id"))}
        passed_s = (later.started_ns - self.first.ended_ns) / 1e9
        is_near = 0 <= passed_s <= self.alone.wait_s and later.resource == self.first.resource
        return is_near and len(sessions) < 2 and is_given_in(self.reads, page)


class EarlierRetrievals:
    """The latest such retrievals of all traces. For one thread."""

    def __init__(self) -> None:
        self._owner = RecentRetrievals()
        self._held: deque[EarlierRetrieval] = deque(maxlen=MOST_WAITING)

    def note(self, found: FoundRequest) -> LoneRetrieval | None:
        """Store a request if it is a retrieval and nothing more, and return what waits for the next trace."""
        texts = "".join(letters_of(item.text or "") for item in found.contexts)
        is_more = found.answer is not None or found.asked_model or found.failed or found.earlier
        if is_more or found.usable != "full" or len(texts) < _LEAST:
            return None
        first = found.span or found.members[0]
        alone = LoneRetrieval(owner=self._owner, run_id=found.key, name=first.name, around=UNKNOWN_SURROUNDINGS)
        alone.end(found.question, found.contexts, is_paused="session.id" in first.attributes)
        reads = tuple(one for seen in found.seen for one in (*seen.retrievals, *seen.within))
        self._held.append(EarlierRetrieval(alone, reads, first))
        return alone

    def before(self, later: SpanRecord, page: str) -> Sequence[EarlierRetrieval]:
        """Take out the retrievals whose documents stand in the prompts of a later trace.

        Several are given whole; one in part, where its query was asked too, or the conversation is the same.

        Args:
            later: The first span of the later trace.
            page: Letters of its prompts.
        """
        near = [one for one in self._held if one.leads_to(later, page)]
        found = [one for one in near if is_shown_in(one.reads, page)][-MOST_TOGETHER:]
        session = later.attributes.get("session.id", "")
        part = (
            one
            for one in reversed(near)
            if (one.alone.query and letters_of(one.alone.query) in page)
            or one.first.attributes.get("session.id") == session
        )
        found = found or [*islice(part, 1)]
        for one in found:
            self._held.remove(one)
        return found
