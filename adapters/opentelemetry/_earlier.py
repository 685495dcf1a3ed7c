"""Retrievals that are a trace of their own: their documents may stand in the prompt of the next trace.

Without a span around both, ``retriever.invoke(question)`` and the call of a model after it are two traces, as
are a graph that was interrupted and its continuation. They are one request.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ragmeter.adapters.reading.letters import letters_of
from ragmeter.requests.lone_retrieval import (
    LONGEST_S,
    MOST_TOGETHER,
    UNKNOWN_SURROUNDINGS,
    WAIT_S,
    LoneRetrieval,
    RecentRetrievals,
)

from ._roots import is_given_in, is_shown_in

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ._contexts import Read
    from ._found import FoundRequest
    from .record import SpanRecord

_MOST = 256
_LEAST = 20
"""Minimum letters of documents by which a retrieval is found again."""


@dataclass(slots=True, eq=False)
class EarlierRetrieval:
    """A retrieval that a trace consists of, and whether it still waits in the meter."""

    alone: LoneRetrieval
    reads: tuple[Read, ...]
    first: SpanRecord
    """The first span of its trace."""
    query: str
    """Letters of what was asked."""

    def leads_to(self, later: SpanRecord, page: str) -> bool:
        """Return whether a later trace of this service may go on with it, by their times and conversations."""
        sessions = {session for span in (self.first, later) if (session := span.attributes.get("session.id"))}
        wait_s = LONGEST_S if len(sessions) == 1 and self.alone.wait_s == LONGEST_S else WAIT_S
        passed_s = (later.started_ns - self.first.ended_ns) / 1e9
        is_near = len(sessions) < 2 and 0 <= passed_s <= wait_s and later.resource == self.first.resource
        return is_near and is_given_in(self.reads, page)


class EarlierRetrievals:
    """The latest such retrievals of all traces. For one thread."""

    def __init__(self) -> None:
        self._owner = RecentRetrievals()
        self._held: deque[EarlierRetrieval] = deque(maxlen=_MOST)

    def note(self, found: FoundRequest) -> LoneRetrieval | None:
        """Store a request if it is a retrieval and nothing more, and return what waits for the next trace."""
        texts = "".join(letters_of(item.text or "") for item in found.contexts)
        reads = tuple(one for seen in found.seen for one in (*seen.retrievals, *seen.within))
        is_alone = found.answer is None and not (found.asked_model or found.failed or found.earlier)
        if not is_alone or found.usable != "full" or len(texts) < _LEAST:
            return None
        first = found.span or found.members[0]
        alone = LoneRetrieval(
            owner=self._owner, run_id=found.key, name=first.name, around=UNKNOWN_SURROUNDINGS
        ).end(found.question, found.contexts, is_paused="session.id" in first.attributes)
        if alone is not None:
            self._held.append(EarlierRetrieval(alone, reads, first, letters_of(found.question or "")))
        return alone

    def before(self, later: SpanRecord, page: str) -> Sequence[EarlierRetrieval]:
        """Take out the retrievals whose documents stand in the prompts of a later trace.

        Several are given whole; one in part, where its query was asked too, or the conversation is the same.

        Args:
            later: The first span of the later trace.
            page: Letters of its prompts.
        """
        near = [one for one in self._held if one.leads_to(later, page)]
        found = [one for one in near if is_shown_in(one.reads, page)][-MOST_TOGETHER:] or [
            one for one in near if one.query in page or one.alone.wait_s == LONGEST_S
        ][-1:]
        for one in found:
            self._held.remove(one)
        return found
