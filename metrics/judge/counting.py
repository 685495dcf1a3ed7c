"""Counts a judge's calls, and passes each to its observers.

`CountingJudge` is the base class for custom judges and of `OpenAIJudge`. It counts the calls of this process
and those that a scoring process made for it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from typing import TYPE_CHECKING, Any

from ragmeter.metrics._process import fork
from ragmeter.metrics.errors import ConfigurationError

from .protocol import Ask, AsksOnly, Judge, JudgeCall, JudgeObserver, JudgeStats, Reply

if TYPE_CHECKING:
    from typing_extensions import Self

    from .budget import JudgeBudget


class JudgeRecord:
    """Counts calls, tokens, errors and cache hits, and notifies observers of calls. Thread-safe."""

    def __init__(self) -> None:
        self._lock = fork.lock()
        self._counts: Counter[str] = Counter()
        self._errors: Counter[str] = Counter()
        self.observers: list[JudgeObserver] = []

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle no counts: another process has separate ones."""
        return JudgeRecord, ()

    def report(self, call: JudgeCall) -> None:
        """Count a call and notify the observers."""
        if not call.cached:
            with self._lock:
                self._counts["calls"] += call.calls
                self._counts["input_tokens"] += call.input_tokens
                self._counts["output_tokens"] += call.output_tokens
                self._counts["cached_tokens"] += call.cached_tokens
                if call.error_type is not None:
                    self._errors[call.error_type] += 1
        for observer in tuple(self.observers):
            observer(call)

    def report_items(self, hits: int, misses: int) -> None:
        """Count items answered from the cache, and items asked."""
        with self._lock:
            self._counts.update(cache_hits=hits, cache_misses=misses)

    def stats(self, cost: float) -> JudgeStats:
        """Return all current counts."""
        with self._lock:
            return JudgeStats(**self._counts, errors=dict(self._errors), cost=cost)


class CountingJudge(ABC):
    """A judge that counts its calls and notifies observers: subclasses add `model` and `ask`.

    A subclass calls `report` once for each call it makes, with the tokens used; a judge without calls, such
    as one that looks verdicts up, reports nothing. Its ``__init__`` is free.
    """

    model: str
    """The model's name."""
    budget: JudgeBudget | None = None
    """The limits of its use: requests are judged with the probability that they allow."""
    endpoint_kind: str = "custom"
    """Kind of its endpoint: one of the words of ``ragmeter.evaluation.judge.endpoint``."""
    _record: JudgeRecord

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Create the judge's counters, whatever its ``__init__`` does."""
        del args, kwargs
        judge = super().__new__(cls)
        object.__setattr__(judge, "_record", JudgeRecord())  # even if it is a frozen dataclass
        return judge

    @abstractmethod
    async def ask(self, ask: Ask) -> Reply:
        """Answer every item of `ask`, once; raise a `JudgeError` without a usable answer."""

    @property
    def stats(self) -> JudgeStats:
        """Calls, tokens, cache hits, errors and cost so far."""
        return self._record.stats(0.0 if self.budget is None else self.budget.cost)

    def subscribe(self, observer: JudgeObserver) -> None:
        """Notify `observer` of every call from now on, on the thread or loop that made it."""
        self._record.observers.append(observer)

    def report(self, call: JudgeCall) -> None:
        """Count a call and notify the observers; also called for calls of a scoring process."""
        self._record.report(call)

    def report_items(self, hits: int, misses: int) -> None:
        """Count items answered from the cache, and items asked."""
        self._record.report_items(hits, misses)

    async def aclose(self) -> None:  # noqa: B027 -- a default, to be overridden where need be
        """Do nothing: there are no connections."""


class _CountedJudge(CountingJudge):
    """Adds the rest of a `Judge` to an object with `model`, `ask`, `subscribe` and `aclose`."""

    def __init__(self, asked: AsksOnly) -> None:
        self.asked = asked
        self._listening = False

    def __reduce__(self) -> tuple[Any, ...]:
        return _CountedJudge, (self.asked,)

    @property
    def model(self) -> str:  # type: ignore[override]  # it may change its mind
        return self.asked.model

    def subscribe(self, observer: JudgeObserver) -> None:
        # Not earlier: a judge that stores its observers could not be pickled with this object among them.
        if not self._listening:
            self._listening = True
            self.asked.subscribe(self.report)
        super().subscribe(observer)

    async def ask(self, ask: Ask) -> Reply:
        return await self.asked.ask(ask)

    async def aclose(self) -> None:
        await self.asked.aclose()


def as_judge(judge: object) -> Judge:
    """Return `judge` as a complete `Judge`.

    An object that has only `model`, `ask`, `subscribe` and `aclose` is wrapped with counters and reports.

    Raises:
        ConfigurationError: It lacks one of these four.
    """
    if not isinstance(judge, type):
        if isinstance(judge, Judge):
            return judge
        if isinstance(judge, AsksOnly):
            return _CountedJudge(judge)
    raise ConfigurationError(
        f"judge: {judge!r} is no judge: pass an OpenAIJudge(...), or an object of a subclass of "
        "ragmeter.metrics.judge.CountingJudge, which needs a `model` and an `ask`"
    )
