"""A retrieval that the application called by itself: perhaps the first half of a request.

``docs = retriever.invoke(question)`` and then ``chain.invoke({"context": docs, ...})`` are two calls of a
framework, and one request of a user's. An adapter offers the first as a `LoneRetrieval`, which waits on the
meter's worker, among its `LoneRetrievals`: a few seconds, or longer while a call is under way that may have
been given what it found. Without such a call it is scored as a request of its own, as all are that wait at a
flush. A call that begins after it in the same context follows it, and takes it once its prompt, read on that
worker, shows what was found; so does one of the same trace or conversation in another context.
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

from ._grouping import joined_stages

if TYPE_CHECKING:
    from ragmeter.exporters.protocol import RagRun
    from ragmeter.pipeline.scoring import Offer

    from .by_hand import RunBuilder

__all__ = [
    "UNKNOWN_SURROUNDINGS",
    "LoneRetrieval",
    "LoneRetrievals",
    "RecentRetrievals",
    "Surroundings",
    "recent",
    "take_shown",
    "with_retrievals",
]

WAIT_S = 5.0
"""Seconds for which a lone retrieval waits for a call that follows it to begin."""
LONGEST_S = 120.0
"""Seconds for which it waits for those to end that have begun."""
MOST_PLACES = 1_000
MOST_WAITING = 256
"""Retrievals that wait."""
MOST_BYTES = 4 * 1024 * 1024
LOOK_S = 1.0
"""Seconds between two looks whether one has waited long enough."""
MOST_TOGETHER = 8
"""Lone retrievals that one call can be given the documents of: the last ones."""


class Surroundings(NamedTuple):
    """The context of a call, as far as it is known."""

    trace_id: int | None = None
    """The trace of the span around it, the one that an instrumentation made for the call itself aside."""
    conversation_id: str | None = None
    user_id: str | None = None

    @property
    def places(self) -> tuple[tuple[str, object], ...]:
        """The trace and the conversation."""
        known = (("trace", self.trace_id), ("conversation", self.conversation_id))
        return tuple([place for place in known if place[1]])

    def suits(self, other: Surroundings) -> bool | None:
        """Return whether both are one request's; None: nothing is known of both."""
        known = [one == two for one, two in zip(self, other, strict=True) if one and two]
        return all(known) if known else None


UNKNOWN_SURROUNDINGS = Surroundings()


@dataclass(slots=True, eq=False, kw_only=True)
class LoneRetrieval:
    """What the call that follows needs to know of such a retrieval, and whether it still waits.

    It may be noted when a call begins, and turn out to be one, or not, when that ends.
    """

    owner: RecentRetrievals
    """Those of the meter that it is offered to."""
    run_id: Any
    name: str
    around: Surroundings
    query: str | None = None
    documents: tuple[Any, ...] = ()
    """What it found, as its framework's adapter notes it."""
    ended_s: float = math.inf
    """When the call ended; infinite while it is under way."""
    wait_s: float = WAIT_S
    _followers: dict[Any, None] = field(default_factory=dict)
    _build: RunBuilder | None = None

    def end(
        self, query: str | None, documents: tuple[Any, ...], *, is_paused: bool = False
    ) -> LoneRetrieval | None:
        """Record query and documents; return the retrieval, if it is one.

        Args:
            query: What it was asked.
            documents: What it found.
            is_paused: It waits for a person to go on.
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
        """Note that such a call has ended and was offered to the meter, if it is a request at all."""
        self._followers.pop(run_id, None)

    def wait(self, build: RunBuilder) -> None:
        """Begin to wait. Like all that follows, to be called on the meter's worker."""
        self._build = build

    def left_s(self, now: float) -> float:
        """Return for how many seconds it is still to wait; 0 where another call has taken it."""
        if self._build is None:
            return 0.0
        return max(0.0, self.ended_s + (LONGEST_S if self._followers else self.wait_s) - now)

    @property
    def is_taken(self) -> bool:
        """Whether it does not wait any more."""
        return self._build is None

    def take(self) -> RagRun | None:
        """Return its run, if it still waits; it is no request of its own then."""
        build, self._build = self._build, None
        return None if build is None else build()


class RecentRetrievals:
    """The lone retrievals of one meter and framework by trace and conversation. Thread-safe and bounded.

    They show one that was made in another task or thread than the call that follows it.
    """

    def __init__(self) -> None:
        self._by_place: dict[tuple[str, object], tuple[LoneRetrieval, ...]] = {}

    def note(self, alone: LoneRetrieval) -> None:
        """Remember one that has ended."""
        for place in alone.around.places:
            self._by_place[place] = (*recent(self._by_place.pop(place, ())), alone)
        if len(self._by_place) > MOST_PLACES:
            for place in tuple(self._by_place)[: MOST_PLACES // 10]:
                self._by_place.pop(place, None)

    def before(
        self, own: Sequence[LoneRetrieval], around: Surroundings
    ) -> tuple[LoneRetrieval, ...]:
        """Return the retrievals that a call may have been given the documents of.

        Args:
            own: The recent ones of its context, perhaps of other meters or frameworks.
            around: Where it is made.
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
    """Return those that are not over for long, or are under way; at least the last one."""
    if not before:
        return ()
    since = time.monotonic() - LONGEST_S
    found = [
        one for one in before if one.ended_s > since and (one.documents or one.ended_s == math.inf)
    ]
    return found[-MOST_TOGETHER:] or before[-1:]


def take_shown(
    before: Sequence[LoneRetrieval],
    around: Surroundings,
    *,
    shown: Callable[[LoneRetrieval], Collection[Any]],
    was_asked: Callable[[str], bool],
    is_label: bool,
) -> list[RagRun]:
    """Return the runs of those lone retrievals with which a request began; they wait no longer.

    Those that were asked what its model was sent come first; of the others those that found what these did not.
    Threads may go on to another user's request in the same context: where nothing says that both calls are one
    user's, a retrieval that was asked something else counts if all of its documents stand in the prompt.

    Args:
        before: The lone retrievals that it follows.
        around: Where it was made.
        shown: Returns those documents of one that its prompt shows.
        was_asked: Returns whether its model was sent a query.
        is_label: Its answer is one word: about a part of the documents, that grades them.
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
    """Return the run of a request with the runs of the retrievals that it began with."""
    if not found:
        return run
    samples = [one.sample for one in found]
    retrievals = (*(item for one in found for item in one.retrievals), *run.retrievals)
    stages = joined_stages(sample.stages for sample in (*samples, run.sample))
    known = {
        (one.id, one.text, one.score): one for sample in samples for one in sample.contexts or ()
    }
    contexts = run.sample.contexts
    return replace(
        run,
        started_ns=min(run.started_ns, *(one.started_ns for one in found)),
        retrievals=retrievals,
        sample=run.sample.model_copy(
            update={
                "stages": tuple(stages) or None,
                "search_query": search_query_of(
                    run.sample.question, [one.query for one in retrievals]
                ),
                "contexts": None
                if contexts is None
                else tuple(known.get((one.id, one.text, one.score), one) for one in contexts),
            }
        ),
    )


class LoneRetrievals:
    """The lone retrievals that wait in one pipeline. For the scoring thread.

    Args:
        score: Scores what no call has taken.
        counters: Where those are counted that one has.
    """

    def __init__(self, score: Callable[[Sequence[Offer]], None], counters: Counters) -> None:
        self._score = score
        self._counters = counters
        self._fresh()
        fork.forget(self._fresh)  # in a child: they are the parent's

    def _fresh(self) -> None:
        self._held: deque[tuple[LoneRetrieval, Offer]] = deque()
        self._is_called = False

    def hold(self, offer: Offer) -> bool:
        """Take a request if it is a lone retrieval; return whether it is."""
        if offer.alone is None:
            return False
        offer.alone.wait(offer.build)
        self._held.append((offer.alone, offer))
        while (
            len(self._held) > MOST_WAITING
            or sum(one.size_bytes for _, one in self._held) > MOST_BYTES
        ):
            self._end(*self._held.popleft())
        return True

    def look(self, queue: WorkerQueue[Any]) -> float | None:
        """Score the retrievals that have waited long enough; return the seconds until the next check.

        Not at once, but behind what has come by now: a call that has ended meanwhile is among that.
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
        """Have all scored that wait, until `deadline` (monotonic); return whether that came true."""
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
            end_all()  # no thread can be had any more
        return through.wait(remaining(deadline))

    def drop_all(self) -> None:
        """Count as dropped what there was no time to score."""
        while self._held:
            _, offer = self._held.popleft()
            self._counters.count_drop("shutdown", capture=offer.capture, once=offer.leave)

    def _end(self, alone: LoneRetrieval, offer: Offer) -> None:
        if alone.is_taken:
            self._counters.withdraw()
        else:
            self._score([offer._replace(build=alone.take)])
