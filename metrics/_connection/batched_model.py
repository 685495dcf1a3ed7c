"""A model called with batches of items, within limits: the base of embedders and detectors.

It runs on the event loop of the judged metrics. Items that arrive together, or during a call, are sent in one
call; results are cached; a budget and a circuit breaker limit calls. Subclasses define the items and the
call.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Callable, Hashable, Sequence
from contextvars import copy_context
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, Generic, TypeVar

from ragmeter.metrics._process import fork
from ragmeter.metrics._process.background_thread import BackgroundThread
from ragmeter.metrics._process.bounded_table import BoundedTable
from ragmeter.metrics.errors import ConfigurationError, loggable
from ragmeter.metrics.judge.breaker import CircuitBreaker
from ragmeter.metrics.judge.budget import JudgeBudget, Reservation
from ragmeter.metrics.judge.protocol import JudgeError

from .failures import FailedCall
from .loops import PerLoop

_OF_THE_ITEM = frozenset({"bad_request", "request_too_large", "refusal", "reply_too_large"})
"""Failures that an item may have caused: the next call may pass."""
_OF_THE_SERVICE = frozenset({
    "authentication", "connection", "not_found", "permission", "quota", "rate_limited", "redirected",
    "server_error", "timeout", "unusable_reply",
})  # fmt: skip
"""Failures that other items would not avoid."""

I = TypeVar("I")  # noqa: E741 -- an item
R = TypeVar("R")
T = TypeVar("T")


@dataclass(slots=True)
class _PendingItem(Generic[I, R]):
    """An item waiting for the model."""

    key: bytes
    item: I
    group: Hashable
    outcome: asyncio.Future[R | JudgeError]


@dataclass(slots=True)
class _OnLoop(Generic[I, R]):
    """State of one event loop."""

    waiting: deque[_PendingItem[I, R]] = field(default_factory=deque)
    under_way: dict[bytes, asyncio.Future[R | JudgeError]] = field(default_factory=dict)
    """The waiting and pending items, by key."""
    calls: set[asyncio.Task[None]] = field(default_factory=set)
    is_called: bool = False
    """Whether a dispatch of the waiting items is scheduled."""


class BatchedModel(ABC, Generic[I, R]):
    """Sends items to a model. Thread-safe; works on several event loops; a fork starts empty.

    At most `max_known` results are cached; the least recently used is evicted first. `Embedder` and
    `SpanDetector` describe the other arguments.
    """

    whose: ClassVar[str]
    """Its kind, in messages: ``embedder``;"""
    items: ClassVar[str]
    """its input: ``texts``;"""
    says: ClassVar[str]
    """and its output: ``vectors``."""
    max_bytes: ClassVar[int]
    """Memory for cached results."""

    def __init__(
        self,
        name: str,
        *,
        batch_size: int = 8,
        concurrency: int = 1,
        timeout_s: float = 30.0,
        budget: JudgeBudget | None = None,
        max_known: int = 5_000,
    ) -> None:
        if not name or not isinstance(name, str):
            raise ConfigurationError(f"the {self.whose}'s name is {name!r}; pass its model's name")
        numbers = {"batch_size": batch_size, "concurrency": concurrency, "timeout_s": timeout_s}
        for what, number in numbers.items():
            if not number > 0:
                raise ConfigurationError(f"{what} is {number!r}; pass a number greater than 0")
        self.name = name
        self.budget = budget
        self.batch_size = batch_size
        self.timeout_s = timeout_s
        self._concurrency = concurrency
        self._breaker = CircuitBreaker(name, whose=self.whose)
        self._lock = fork.lock()
        self._known: BoundedTable[bytes, R] = BoundedTable(max_entries=max_known, max_size=self.max_bytes)
        self._counts = Counter(calls=0, items=0, remembered=0, failed=0)
        self._loops: PerLoop[_OnLoop[I, R]] = PerLoop(_OnLoop)
        self._thread = BackgroundThread(f"ragmeter-{self.whose}")

    def __repr__(self) -> str:
        return f"{type(self).__name__}(name={self.name!r})"

    @abstractmethod
    async def _ask(self, items: Sequence[I], group: Hashable) -> Sequence[Any]:
        """Make one call; return the model's output for each item, in order."""

    @abstractmethod
    def _tokens(self, item: I) -> int:
        """Return an estimate of the item's tokens."""

    @abstractmethod
    def _read(self, said: Any, item: I) -> R | JudgeError:
        """Return the result in the model's output for an item, or why it is unusable."""

    @abstractmethod
    def _size(self, result: R) -> int:
        """Return the bytes of a cached result."""

    async def results(self, items: Sequence[tuple[bytes, I]], group: Hashable = None) -> list[R]:
        """Return the result of each item, given with its key; known results are not requested again.

        Items of different groups are sent in different calls.

        Raises:
            JudgeError: A call failed (``error_type`` has the class), there is no room in the budget (status
                ``skipped``), or the model's output for an item is unusable.
        """
        here = self._loops.here()
        found: dict[bytes, R] = {}
        open_ones: dict[bytes, asyncio.Future[R | JudgeError]] = {}
        for key, item in items:
            with self._lock:
                known = self._known.get(key)
                self._counts["remembered"] += known is not None
            if known is not None:
                found[key] = known
            elif key in here.under_way:
                open_ones[key] = here.under_way[key]
                self._count(remembered=1)
            else:
                outcome = asyncio.get_running_loop().create_future()
                open_ones[key] = here.under_way[key] = outcome
                here.waiting.append(_PendingItem(key, item, group, outcome))
        if here.waiting and not here.is_called:
            # After all ready tasks have asked, so that one call serves many requests.
            here.is_called = True
            asyncio.get_running_loop().call_soon(self._dispatch, here)
        for key, outcome in open_ones.items():
            got = await asyncio.shield(outcome)
            if isinstance(got, JudgeError):
                raise JudgeError(str(got), got.error_type, status=got.status)
            found[key] = got
        return [found[key] for key, _ in items]

    async def aclose(self) -> None:
        """Cancel open calls of the running event loop. The model can be used again.

        A call that hangs on the thread is abandoned there, without delaying the exit.
        """
        here = self._loops.take()
        calls = () if here is None else tuple(here.calls)
        for call in calls:
            call.cancel()
        if calls:
            await asyncio.wait(calls, timeout=1.0)
        self._thread.finish(0.0)

    def _count(self, **counts: int) -> None:
        with self._lock:
            self._counts.update(counts)

    def _dispatch(self, here: _OnLoop[I, R]) -> None:
        here.is_called = False
        while here.waiting and len(here.calls) < self._concurrency:
            group = here.waiting[0].group
            batch: list[_PendingItem[I, R]] = []
            others: deque[_PendingItem[I, R]] = deque()
            while here.waiting and len(batch) < self.batch_size:
                one = here.waiting.popleft()
                (batch if one.group == group else others).append(one)
            here.waiting.extendleft(reversed(others))
            call = asyncio.get_running_loop().create_task(self._call(here, batch, group))
            here.calls.add(call)
            call.add_done_callback(partial(self._finish_call, here))

    def _finish_call(self, here: _OnLoop[I, R], call: asyncio.Task[None]) -> None:
        here.calls.discard(call)
        self._dispatch(here)

    async def _call(self, here: _OnLoop[I, R], batch: list[_PendingItem[I, R]], group: Hashable) -> None:
        outcomes: Sequence[R | JudgeError] = ()
        gave_up = JudgeError("it was given up", "cancelled")
        try:
            outcomes = await self._outcomes([one.item for one in batch], group)
        finally:
            for place, one in enumerate(batch):
                here.under_way.pop(one.key, None)
                outcome = outcomes[place] if outcomes else gave_up
                if not isinstance(outcome, JudgeError):
                    with self._lock:
                        self._known.put(one.key, outcome, self._size(outcome))
                if not one.outcome.done():
                    one.outcome.set_result(outcome)

    async def _outcomes(self, items: list[I], group: Hashable) -> Sequence[R | JudgeError]:
        """Return for each item of a batch its result, or the reason of its absence."""
        reservation: Reservation | None = None
        tokens = sum(map(self._tokens, items))
        admitted = concluded = False
        try:
            while self.budget is not None and reservation is None:
                room = await self.budget.obtain(tokens, 0)
                if isinstance(room, Reservation):
                    reservation = room
                else:
                    await self.budget.until_room(tokens, 0)
            self._breaker.admit()
            admitted = True
            outcomes, failure = await self._call_or_halve(items, group)
            concluded = True
        except JudgeError as error:  # no room, or open circuit
            return [error] * len(items)
        finally:
            if reservation is not None and self.budget is not None:
                self.budget.settle(reservation, tokens if admitted else 0, 0)
            if admitted and not concluded:
                self._breaker.record_abandonment()
        made = sum(not isinstance(outcome, JudgeError) for outcome in outcomes)
        self._count(items=made)
        if failure is None or made or failure.error_type in _OF_THE_ITEM:
            self._breaker.record_success()
        else:
            self._breaker.record_failure(failure.error_type, failure.detail, fatal=failure.fatal)
        return outcomes

    async def _call_or_halve(
        self, items: list[I], group: Hashable
    ) -> tuple[Sequence[R | JudgeError], FailedCall | None]:
        """Make a call, or one for each half of the items if one of them may have caused a failure.

        The items belong to several requests: a fault of one must not cost the others.
        """
        self._count(calls=1)
        try:
            said = await asyncio.wait_for(self._call_model(items, group), self.timeout_s)
        except (TimeoutError, asyncio.TimeoutError):
            failure = FailedCall("timeout", f"it did not answer within {self.timeout_s:g} s")
        except FailedCall as failed:
            failure = failed
        else:
            return [self._read(one, item) for one, item in zip(said, items, strict=True)], None
        self._count(failed=1)
        if failure.error_type in _OF_THE_SERVICE or len(items) == 1:
            words = f"the {self.whose} failed: {failure.detail}"
            is_late = failure.error_type == "timeout"
            error = JudgeError(words, failure.error_type, status="timeout" if is_late else "judge_error")
            return [error] * len(items), failure
        half = len(items) // 2
        first, _ = await self._call_or_halve(items[:half], group)
        second, _ = await self._call_or_halve(items[half:], group)
        return [*first, *second], failure

    async def _call_model(self, items: list[I], group: Hashable) -> Sequence[Any]:
        """Call the model; its exceptions become failed calls without their messages, which may quote texts."""
        outcome: Sequence[Any] | BaseException
        (outcome,) = await asyncio.gather(self._ask(items, group), return_exceptions=True)
        if isinstance(outcome, Exception) and not isinstance(
            outcome, (FailedCall, TimeoutError, asyncio.TimeoutError)
        ):
            raise FailedCall(type(outcome).__name__, f"it raised {loggable(outcome)}") from None
        if isinstance(outcome, BaseException):
            raise outcome
        if len(outcome) != len(items):
            raise FailedCall("unusable_reply", f"{len(outcome)} {self.says} for {len(items)} {self.items}")
        return outcome

    async def _on_thread(self, call: Callable[[], Any]) -> Any:
        """Run a blocking call on this model's thread, and return its result.

        It has a separate context: no instrumentation attributes the call to the application.
        """
        return await asyncio.wrap_future(self._thread.call(partial(copy_context().run, call)))
