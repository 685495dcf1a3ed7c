"""A retrieval that the application called directly: perhaps the first half of a request.

``docs = retriever.invoke(question)`` and then ``chain.invoke({"context": docs, ...})`` are two calls of a
framework, but one request of a user. An adapter offers the first as a `LoneRetrieval`, which waits on the
meter's worker, among its `LoneRetrievals`: a few seconds, or longer while a call that may have received its
documents is running. Without such a call it is scored as a request, as are all that still wait at a flush. A
call that begins after it in the same context follows it, and claims it if its prompt, read on that worker,
shows its documents; so does a call of the same trace or conversation in another context.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from ragmeter._runtime.queue import WorkerQueue, remaining
from ragmeter._runtime.stats import Counters
from ragmeter._runtime.threads import Bell
from ragmeter.metrics._process import fork
from ragmeter.metrics.sample import search_query_of

from ._grouping import alike, joined_stages

if TYPE_CHECKING:
    from ragmeter.exporters.protocol import RagRun
    from ragmeter.pipeline.scoring import Offer

    from .by_hand import RunBuilder

WAIT_S = 5.0
"""Seconds to wait for a following call to begin."""
LONGEST_S = 120.0
"""Seconds to wait for running calls that follow it to end."""
MOST_PLACES = 1_000
MOST_WAITING = 256
"""Most retrievals that wait."""
MOST_BYTES = 4 * 1024 * 1024
LOOK_S = 1.0
"""Seconds between two checks of the waiting time."""
MOST_TOGETHER = 8
"""Most lone retrievals whose documents one call may have received: the latest ones."""


class Surroundings(NamedTuple):
    """The context of a call, as far as it is known."""

    trace_id: int | None = None
    """Trace of the surrounding span, except a span that an instrumentation made for the call itself."""
    conversation_id: str | None = None
    user_id: str | None = None

    @property
    def places(self) -> tuple[tuple[str, object], ...]:
        """The trace and the conversation."""
        known = (("trace", self.trace_id), ("conversation", self.conversation_id))
        return tuple([place for place in known if place[1]])

    def suits(self, other: Surroundings) -> bool | None:
        """Return whether both belong to one request; None: they have no known field in common."""
        known = [one == two for one, two in zip(self, other, strict=True) if one and two]
        return all(known) if known else None


UNKNOWN_SURROUNDINGS = Surroundings()


@dataclass(slots=True, eq=False, kw_only=True)
class LoneRetrieval:
    """The data of a lone retrieval that a following call needs, and whether it still waits.

    It may be created when a call begins; only when that ends is it known to be one or not.
    """

    owner: RecentRetrievals
    """The recent retrievals of the meter that it is offered to."""
    run_id: Any
    name: str
    around: Surroundings
    query: str | None = None
    documents: tuple[Any, ...] = ()
    """The documents found, as recorded by the framework's adapter."""
    ended_s: float = math.inf
    """When the call ended; infinite while it is running."""
    wait_s: float = WAIT_S
    _followers: dict[Any, None] = field(default_factory=dict)
    _build: RunBuilder | None = None

    def end(
        self, query: str | None, documents: tuple[Any, ...], *, is_paused: bool = False
    ) -> LoneRetrieval | None:
        """Record query and documents; return the retrieval, if it is one.

        Args:
            query: The query of the retrieval.
            documents: The documents found.
            is_paused: Whether it waits for a person before it continues.
        """
        self.query, self.documents, self.ended_s = query, documents, time.monotonic()
        if not documents:
            return None
        self.wait_s = LONGEST_S if is_paused else WAIT_S
        self.owner.note(self)
        return self

    def follow(self, run_id: object) -> None:
        """Record a call that may have been sent its documents."""
        self._followers[run_id] = None

    def leave(self, run_id: object) -> None:
        """Record that such a call has ended and was offered to the meter, if it is a request."""
        self._followers.pop(run_id, None)

    def wait(self, build: RunBuilder) -> None:
        """Begin to wait. Like the following methods, to be called on the meter's worker."""
        self._build = build

    def left_s(self, now: float) -> float:
        """Return the remaining seconds to wait; 0 if another call has claimed it."""
        if self._build is None:
            return 0.0
        return max(0.0, self.ended_s + (LONGEST_S if self._followers else self.wait_s) - now)

    @property
    def is_taken(self) -> bool:
        """Whether it no longer waits."""
        return self._build is None

    def take(self) -> RagRun | None:
        """Claim it and return its run, if it still waits; then it is no separate request."""
        build, self._build = self._build, None
        return None if build is None else build()


class RecentRetrievals:
    """The lone retrievals of one meter and framework by trace and conversation. Thread-safe and bounded.

    They find a retrieval made in another task or thread than the call that follows it.
    """

    def __init__(self) -> None:
        self._by_place: dict[tuple[str, object], tuple[LoneRetrieval, ...]] = {}

    def note(self, alone: LoneRetrieval) -> None:
        """Store a retrieval that has ended."""
        for place in alone.around.places:
            self._by_place[place] = (*recent(self._by_place.pop(place, ())), alone)
        if len(self._by_place) > MOST_PLACES:
            for place in tuple(self._by_place)[: MOST_PLACES // 10]:
                self._by_place.pop(place, None)

    def before(self, own: Sequence[LoneRetrieval], around: Surroundings) -> tuple[LoneRetrieval, ...]:
        """Return the retrievals whose documents a call may have received.

        Args:
            own: The recent retrievals of its context, perhaps of other meters or frameworks.
            around: The surroundings of the call.
        """
        if not (own or self._by_place):
            return ()
        found = dict[LoneRetrieval, None]()
        for one in own:
            if one.documents and one.owner is self:
                found[one] = None
        if self._by_place:
            for place in around.places:
                found |= dict.fromkeys(recent(self._by_place.get(place, ())))
        return tuple(sorted(found, key=lambda one: one.ended_s)[-MOST_TOGETHER:])


def recent(before: Sequence[LoneRetrieval]) -> Sequence[LoneRetrieval]:
    """Return the retrievals that ended recently or are still running; at least the last one."""
    if not before:
        return ()
    since = time.monotonic() - LONGEST_S
    found = [one for one in before if one.ended_s > since and (one.documents or one.ended_s == math.inf)]
    return found[-MOST_TOGETHER:] or before[-1:]


def take_shown(
    before: Sequence[LoneRetrieval],
    around: Surroundings,
    *,
    shown: Callable[[LoneRetrieval], Collection[Any]],
    was_asked: Callable[[str], bool],
    is_label: bool,
) -> list[RagRun]:
    """Claim the lone retrievals with which a request began, and return their runs.

    Retrievals whose query was sent to the request's model come first; of the others, those with documents
    that the former did not find. Threads may continue with another user's request in the same context: if it
    is unknown whether both calls belong to one user, a retrieval with another query counts only if all of its
    documents are in the prompt.

    Args:
        before: The lone retrievals before the request.
        around: The surroundings of the request.
        shown: Returns the documents of a retrieval that the request's prompt shows.
        was_asked: Returns whether a query was sent to the request's model.
        is_label: Whether its answer is one word; such an answer about some of the documents grades them.
    """
    asked = [alone.query is not None and was_asked(alone.query) for alone in before]
    explained = set[Any]()
    found: list[tuple[int, RagRun]] = []
    for place in sorted(range(len(before)), key=lambda place: not asked[place]):
        alone = before[place]
        seen = set() if alone.is_taken else set(shown(alone))
        is_whole = len(seen) >= len(alone.documents)
        if not seen or (is_label and not is_whole) or (seen <= explained and not asked[place]):
            continue
        suits = alone.around.suits(around)
        if suits is None:
            suits = is_whole or asked[place]
        run = alone.take() if suits else None
        if run is not None:
            explained |= seen
            found.append((place, run))
    return [run for _, run in sorted(found, key=lambda item: item[0])]


def with_retrievals(run: RagRun, found: Collection[RagRun]) -> RagRun:
    """Return the run of a request, extended by the runs of the retrievals that it began with."""
    if not found:
        return run
    samples = [one.sample for one in found]
    retrieved = [context for sample in samples for context in sample.contexts or ()]
    retrievals = sorted(
        (item for one in (*found, run) for item in one.retrievals), key=lambda one: one.started_ns
    )
    stages = joined_stages(sample.stages for sample in (*samples, run.sample))
    contexts = run.sample.contexts
    return replace(
        run,
        started_ns=min(run.started_ns, *(one.started_ns for one in found)),
        retrievals=tuple(retrievals),
        sample=run.sample.model_copy(
            update={
                "stages": tuple(stages) or None,
                "search_query": search_query_of(run.sample.question, [one.query for one in retrievals]),
                "contexts": None if contexts is None else alike(retrieved, contexts),
            }
        ),
    )


class LoneRetrievals:
    """The waiting lone retrievals of one pipeline. For the scoring thread.

    Args:
        score: Scores the retrievals that no call has claimed.
        counters: Counts the claimed ones.
    """

    def __init__(self, score: Callable[[Sequence[Offer]], None], counters: Counters) -> None:
        self._score = score
        self._counters = counters
        self._fresh()
        fork.forget(self._fresh)  # a forked child discards those of its parent

    def _fresh(self) -> None:
        self._held: deque[tuple[LoneRetrieval, Offer]] = deque()
        self._is_called = False

    def hold(self, offer: Offer) -> bool:
        """Store a request if it is a lone retrieval; return whether it is."""
        if offer.alone is None:
            return False
        offer.alone.wait(offer.build)
        self._held.append((offer.alone, offer))
        while len(self._held) > MOST_WAITING or sum(one.size_bytes for _, one in self._held) > MOST_BYTES:
            self._end(*self._held.popleft())
        return True

    def look(self, queue: WorkerQueue[Any]) -> float | None:
        """Score the retrievals that have waited long enough; return the seconds until the next check.

        Queued behind the offers that have already arrived, as a following call may be among them.
        """
        if not self._held:
            return None
        now = time.monotonic()
        if not self._is_called and not all(alone.left_s(now) for alone, _ in self._held):
            self._is_called = queue.errand(self._end_due) is not None
        return LOOK_S

    def _end_due(self) -> None:
        self._is_called = False
        now = time.monotonic()
        for _ in range(len(self._held)):
            alone, offer = self._held.popleft()
            if alone.left_s(now):
                self._held.append((alone, offer))
            else:
                self._end(alone, offer)

    def end_all(self, queue: WorkerQueue[Any], deadline: float) -> bool:
        """Score all waiting retrievals, until `deadline` (monotonic); return whether that finished in time."""
        if not self._held:
            return True
        through = Bell()

        def end_all() -> None:
            try:
                while self._held:
                    self._end(*self._held.popleft())
            finally:
                through.ring()

        if queue.errand(end_all) is None:
            end_all()  # no thread can be started any more
        return through.wait(remaining(deadline))

    def drop_all(self) -> None:
        """Count the remaining retrievals as dropped."""
        while self._held:
            _, offer = self._held.popleft()
            self._counters.count_drop("shutdown", capture=offer.capture, once=offer.leave)

    def _end(self, alone: LoneRetrieval, offer: Offer) -> None:
        if alone.is_taken:
            self._counters.withdraw()
        else:
            self._score([offer._replace(build=alone.take)])
