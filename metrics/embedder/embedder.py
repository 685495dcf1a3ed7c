"""What every embedder does: ask once for a text, for many requests at a time, and within limits.

`SemanticContextRelevance` asks it on the event loop on which judged metrics run.  Texts that come together,
or while a call is under way, go out in one; vectors are remembered; a budget and a circuit breaker hold calls
back.  How a text becomes a vector is known to the subclasses: in this process, or at an endpoint.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b
from typing import Literal, TypeAlias

from ragmeter.metrics import _fork as fork
from ragmeter.metrics._connection.failures import FailedCall
from ragmeter.metrics._connection.loops import PerLoop
from ragmeter.metrics._connection.tokens import estimate_tokens
from ragmeter.metrics._tables import BoundedTable
from ragmeter.metrics.errors import ConfigurationError, loggable
from ragmeter.metrics.judge.breaker import CircuitBreaker
from ragmeter.metrics.judge.budget import JudgeBudget, Reservation
from ragmeter.metrics.judge.protocol import JudgeError

from .vectors import BYTES_A_NUMBER, Vector, unit

__all__ = ["Embedder", "EmbedderStats", "Numbers"]

Numbers = Sequence[Sequence[float]]
"""One vector per text, in order: lists, or rows of a numpy array."""

MAX_VECTORS = 20_000
"""Vectors remembered by default."""
MAX_BYTES = 64 * 2**20
"""Memory for them: 20,000 of 384 numbers take half of it, of 1,536 numbers there is room for 10,000."""

_OF_THE_TEXT = frozenset({"bad_request", "request_too_large", "refusal", "reply_too_large"})
"""Failures of which a text may be the cause: the next call may pass."""
_OF_THE_SERVICE = frozenset({
    "authentication", "connection", "not_found", "permission", "quota", "rate_limited", "redirected",
    "server_error", "timeout", "unusable_reply",
})  # fmt: skip
"""Failures that no other texts would spare."""

_Outcome: TypeAlias = "Vector | JudgeError"


@dataclass(frozen=True, slots=True)
class EmbedderStats:
    """What an embedder did in this process since it was built."""

    calls: int = 0
    """Calls, each of many texts; retries are calls."""
    texts: int = 0
    """Texts embedded."""
    remembered: int = 0
    """Texts that were known, or were just being embedded for another request."""
    failed: int = 0
    """Calls that failed."""


@dataclass(slots=True)
class _Wanted:
    """A text that is to be embedded."""

    key: bytes
    text: str
    query: bool
    outcome: asyncio.Future[_Outcome]


@dataclass(slots=True)
class _OnLoop:
    """What belongs to one event loop."""

    waiting: deque[_Wanted] = field(default_factory=deque)
    under_way: dict[bytes, asyncio.Future[_Outcome]] = field(default_factory=dict)
    """The texts that wait or are being embedded, by key."""
    calls: set[asyncio.Task[None]] = field(default_factory=set)
    is_called: bool = False
    """Whether the loop is going to look what waits."""


class Embedder(ABC):
    """Turns texts into vectors. Thread-safe; works on several event loops; a fork starts afresh.

    Args:
        name: The model's name; stands in every score's ``definition``: another model is another score.
        query_prefix: Put before every question. Some models want one (e5: ``"query: "``), most none;
            it is never guessed.
        passage_prefix: Put before every chunk (e5: ``"passage: "``).
        batch_size: Texts of one call, at most.
        concurrency: Calls under way at once, per event loop.
        timeout_s: Seconds for one call.
        max_vectors: Vectors remembered, least recently used out first; they take 64 MiB at most.
        budget: Limits on calls and tokens per minute; tokens are estimated. None: no limits.

    Raises:
        ConfigurationError: A number is out of range, or there is no name.
    """

    knows_questions = False
    """Whether it treats questions differently, other than by a prefix: they go out apart then."""

    def __init__(
        self,
        name: str,
        *,
        query_prefix: str = "",
        passage_prefix: str = "",
        batch_size: int = 64,
        concurrency: int = 1,
        timeout_s: float = 30.0,
        max_vectors: int = MAX_VECTORS,
        budget: JudgeBudget | None = None,
    ) -> None:
        if not name or not isinstance(name, str):
            raise ConfigurationError(f"an embedder's name is {name!r}; pass its model's name")
        for what, number in (
            ("batch_size", batch_size),
            ("concurrency", concurrency),
            ("timeout_s", timeout_s),
        ):
            if not number > 0:
                raise ConfigurationError(f"{what} is {number!r}; pass a number greater than 0")
        if max_vectors < 0:
            raise ConfigurationError(f"max_vectors is {max_vectors!r}; pass 0 or more")
        self.name = name
        self.budget = budget
        self.query_prefix = query_prefix
        self.passage_prefix = passage_prefix
        self.batch_size = batch_size
        self.timeout_s = timeout_s
        self.max_vectors = max_vectors
        self._concurrency = concurrency
        self._breaker = CircuitBreaker(name, whose="embedder")
        self._lock = fork.lock()
        self._known: BoundedTable[bytes, Vector] = BoundedTable(
            max_entries=max_vectors, max_size=MAX_BYTES
        )
        self._counts = {"calls": 0, "texts": 0, "remembered": 0, "failed": 0}
        self._loops = PerLoop(_OnLoop)

    @property
    def definition(self) -> str:
        """What a score depends on: the model and the prefixes, if there are any."""
        prefixes = f"{self.query_prefix}|{self.passage_prefix}"
        return f"model={self.name}" + (f";prefixes={prefixes}" if prefixes != "|" else "")

    @property
    def stats(self) -> EmbedderStats:
        """What it did so far in this process."""
        with self._lock:
            return EmbedderStats(**self._counts)

    @abstractmethod
    async def embed(self, texts: Sequence[str], *, query: bool) -> Numbers:
        """Return one vector per text, in order; prefixes are in the texts. Makes one call.

        Args:
            texts: At most `batch_size` of them, none blank.
            query: Whether they are questions; models may treat them differently.

        Raises:
            FailedCall: The endpoint refused, or there was no connection.
            Exception: Anything that the model raises.
        """

    async def vectors(self, texts: Sequence[str], *, query: bool = False) -> list[Vector]:
        """Return the vector of each text, of length 1; those known are not asked for again.

        Raises:
            JudgeError: A call failed (``error_type`` says how), there is no room in the budget
                (status ``skipped``), or a text has no usable vector.
        """
        prefix = self.query_prefix if query else self.passage_prefix
        here = self._loops.here()
        found: dict[bytes, Vector] = {}
        open_ones: dict[bytes, asyncio.Future[_Outcome]] = {}
        keys = [_key(text, query=query) for text in texts]
        for key, text in zip(keys, texts, strict=True):
            known = self._recall(key)
            if known is not None:
                found[key] = known
            elif key in here.under_way:
                open_ones[key] = here.under_way[key]
                self._count(remembered=1)
            else:
                outcome = asyncio.get_running_loop().create_future()
                open_ones[key] = here.under_way[key] = outcome
                here.waiting.append(_Wanted(key, prefix + _sendable(text), query, outcome))
        self._soon(here)
        for key, outcome in open_ones.items():
            got = await asyncio.shield(outcome)
            if isinstance(got, JudgeError):
                raise JudgeError(str(got), got.error_type, status=got.status)
            found[key] = got
        return [found[key] for key in keys]

    async def aclose(self) -> None:
        """End what is under way on the running event loop. The embedder can be used again."""
        here = self._loops.take()
        if here is None:
            return
        calls = tuple(here.calls)
        for call in calls:
            call.cancel()
        if calls:
            await asyncio.wait(calls, timeout=1.0)

    def _recall(self, key: bytes) -> Vector | None:
        with self._lock:
            known = self._known.get(key)
            self._counts["remembered"] += known is not None
        return known

    def _count(self, **counts: int) -> None:
        with self._lock:
            for name, number in counts.items():
                self._counts[name] += number

    def _soon(self, here: _OnLoop) -> None:
        """Look what waits once all that is ready to run has asked: so one call serves many requests."""
        if here.waiting and not here.is_called:
            here.is_called = True
            asyncio.get_running_loop().call_soon(self._dispatch, here)

    def _dispatch(self, here: _OnLoop) -> None:
        here.is_called = False
        while here.waiting and len(here.calls) < self._concurrency:
            query = here.waiting[0].query
            batch: list[_Wanted] = []
            others: deque[_Wanted] = deque()
            while here.waiting and len(batch) < self.batch_size:
                one = here.waiting.popleft()
                alike = one.query is query or not self.knows_questions
                (batch if alike else others).append(one)
            here.waiting.extendleft(reversed(others))
            call = asyncio.get_running_loop().create_task(self._call(here, batch, query))
            here.calls.add(call)
            call.add_done_callback(partial(self._landed, here))

    def _landed(self, here: _OnLoop, call: asyncio.Task[None]) -> None:
        here.calls.discard(call)
        self._dispatch(here)

    async def _call(self, here: _OnLoop, batch: list[_Wanted], query: bool) -> None:
        outcomes: Sequence[_Outcome] = ()
        gave_up = JudgeError("it was given up", "cancelled")
        try:
            outcomes = await self._outcomes([one.text for one in batch], query)
        finally:
            for place, one in enumerate(batch):
                here.under_way.pop(one.key, None)
                outcome = outcomes[place] if outcomes else gave_up
                if not isinstance(outcome, JudgeError):
                    with self._lock:
                        size = len(outcome) * BYTES_A_NUMBER
                        self._known.put(one.key, outcome, size)
                if not one.outcome.done():
                    one.outcome.set_result(outcome)

    async def _outcomes(self, texts: list[str], query: bool) -> Sequence[_Outcome]:
        """Return for each text of a batch its vector, or why there is none."""
        reservation: Reservation | None = None
        tokens = sum(map(estimate_tokens, texts))
        admitted = concluded = False
        try:
            reservation = await self._room(tokens)
            self._breaker.admit()
            admitted = True
            outcomes, failure = await self._tried(texts, query)
            concluded = True
        except JudgeError as error:  # no room, or no circuit
            return [error] * len(texts)
        finally:
            if reservation is not None and self.budget is not None:
                self.budget.settle(reservation, tokens if admitted else 0, 0)
            if admitted and not concluded:
                self._breaker.abandoned()
        made = sum(not isinstance(outcome, JudgeError) for outcome in outcomes)
        self._count(texts=made)
        if failure is None or made or failure.error_type in _OF_THE_TEXT:
            self._breaker.succeeded()
        else:
            self._breaker.failed(failure.error_type, failure.detail, fatal=failure.fatal)
        return outcomes

    async def _tried(
        self, texts: list[str], query: bool
    ) -> tuple[Sequence[_Outcome], FailedCall | None]:
        """Make a call; and where one of the texts may be why it failed, one for each half of them.

        The texts are those of several requests: what is wrong with one must not cost the others.
        """
        self._count(calls=1)
        try:
            rows = await asyncio.wait_for(self._contained(texts, query), self.timeout_s)
        except (TimeoutError, asyncio.TimeoutError):
            failure = FailedCall("timeout", f"it did not answer within {self.timeout_s:g} s")
        except FailedCall as failed:
            failure = failed
        else:
            return [_vector(row) for row in rows], None
        self._count(failed=1)
        if failure.error_type in _OF_THE_SERVICE or len(texts) == 1:
            status: Literal["judge_error", "timeout"] = "judge_error"
            if failure.error_type == "timeout":
                status = "timeout"
            said = f"the embedder failed: {failure.detail}"
            return [JudgeError(said, failure.error_type, status=status)] * len(texts), failure
        half = len(texts) // 2
        first, _ = await self._tried(texts[:half], query)
        second, _ = await self._tried(texts[half:], query)
        return [*first, *second], failure

    async def _contained(self, texts: list[str], query: bool) -> Numbers:
        """Embed; what the model raises becomes a failed call, without its message, which may quote texts."""
        (outcome,) = await asyncio.gather(self.embed(texts, query=query), return_exceptions=True)
        if isinstance(outcome, Exception) and not isinstance(
            outcome, (FailedCall, TimeoutError, asyncio.TimeoutError)
        ):
            raise FailedCall(type(outcome).__name__, f"it raised {loggable(outcome)}") from None
        if isinstance(outcome, BaseException):
            raise outcome
        if len(outcome) != len(texts):
            raise FailedCall("unusable_reply", f"{len(outcome)} vectors for {len(texts)} texts")
        return outcome

    async def _room(self, tokens: int) -> Reservation | None:
        """Take room in the budget.

        Raises:
            JudgeError: There is none, and there is nothing to wait for.
        """
        budget = self.budget
        while budget is not None:
            room = await budget.obtain(tokens, 0)
            if isinstance(room, Reservation):
                return room
            await budget.until_room(tokens, 0)
        return None


def _key(text: str, *, query: bool) -> bytes:
    kind = b"q" if query else b"p"
    return blake2b(kind + text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _sendable(text: str) -> str:
    """Replace lone surrogates, which neither models nor request bodies take."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def _vector(row: Sequence[float]) -> _Outcome:
    try:
        return unit(row)
    except (TypeError, ValueError):
        said = "the embedder returned a vector that is none: no numbers, no length, or not finite"
        return JudgeError(said, "unusable_vector")
