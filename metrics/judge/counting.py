"""What a judge did, counted as it happens, and the observers that get each call.

`CountingJudge` is what a judge of one's own begins with, and what `OpenAIJudge` is made of.  Counted
are the calls of this process and those that a scoring process made for it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from typing import TYPE_CHECKING, Any

from ragmeter.metrics import _fork as fork

from .protocol import Ask, JudgeCall, JudgeObserver, JudgeStats, Reply

if TYPE_CHECKING:
    from typing_extensions import Self

    from .budget import JudgeBudget

__all__ = ["CountingJudge"]


class JudgeRecord:
    """Counts calls, tokens, errors and cache hits, and tells observers of calls. Thread-safe."""

    def __init__(self) -> None:
        self._lock = fork.lock()
        self._counts: Counter[str] = Counter()
        self._errors: Counter[str] = Counter()
        self.observers: list[JudgeObserver] = []

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle nothing: another process counts for itself."""
        return JudgeRecord, ()

    def report(self, call: JudgeCall) -> None:
        """Count a call and tell the observers."""
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
        """Count items answered without asking, and items asked about."""
        with self._lock:
            self._counts["cache_hits"] += hits
            self._counts["cache_misses"] += misses

    def stats(self, cost: float) -> JudgeStats:
        """Return all counts as of now."""
        with self._lock:
            return JudgeStats(**self._counts, errors=dict(self._errors), cost=cost)


class CountingJudge(ABC):
    """A judge that counts its calls and tells observers: `model` and `ask` are left to write.

    A subclass calls `report` once for each call it makes, with the tokens it took; a judge that makes
    none, such as one that looks verdicts up, reports nothing.  Its ``__init__`` is its own.
    """

    model: str
    """The model that is asked."""
    budget: JudgeBudget | None = None
    """What may be asked of it: requests are judged with the probability that it allows."""
    _record: JudgeRecord

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Give the judge its counters, whatever its ``__init__`` does."""
        del args, kwargs
        judge = super().__new__(cls)
        object.__setattr__(judge, "_record", JudgeRecord())  # even if it is a frozen dataclass
        return judge

    @abstractmethod
    async def ask(self, ask: Ask) -> Reply:
        """Answer every item of `ask`, once.

        Raises:
            JudgeError: The judge could not be asked, or answered nothing usable.
        """

    @property
    def stats(self) -> JudgeStats:
        """Calls, tokens, cache hits, errors and cost so far."""
        return self._record.stats(0.0 if self.budget is None else self.budget.cost)

    def subscribe(self, observer: JudgeObserver) -> None:
        """Tell `observer` about every call from now on, on the thread or loop that made it."""
        self._record.observers.append(observer)

    def report(self, call: JudgeCall) -> None:
        """Count a call and tell the observers; also called for what a scoring process asked."""
        self._record.report(call)

    def report_items(self, hits: int, misses: int) -> None:
        """Count items answered without asking, and items asked about."""
        self._record.report_items(hits, misses)

    async def aclose(self) -> None:  # noqa: B027 -- a default, to be overridden where need be
        """Release nothing: there are no connections."""
