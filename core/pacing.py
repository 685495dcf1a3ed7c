"""How a judge's budget becomes fewer judged requests, evenly over time.

Without pacing, a budget per minute is spent in the minute's first seconds and the rest
goes unjudged.  `JudgePacer` learns what judging one request costs and admits
requests at the rate the budget allows, a few at a time; it also knows which share of the
requests it admits, which exporters write down as the judge's sample rate.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, cast

if TYPE_CHECKING:
    from ragmeter.metrics.judge.contract import JudgeCall

__all__ = ["Budget", "JudgePacer"]

BURST_S = 5.0
"""Seconds' worth of requests that may be admitted at once."""
MEMORY = 0.05
"""Weight of the newest request in the running averages."""
FIRST_CALLS = 3.0
"""Calls per request assumed until some were seen."""


class Budget(Protocol):
    """The limits a judge was given; `ragmeter.metrics.judge.JudgeBudget` has them."""

    @property
    def calls_per_minute(self) -> int | None:
        """Calls in any sixty seconds."""
        ...

    @property
    def tokens_per_minute(self) -> int | None:
        """Tokens in any sixty seconds."""
        ...


class PricedBudget(Protocol):
    """A budget that also limits money; `ragmeter.metrics.judge.JudgeBudget` does."""

    @property
    def cost_per_minute(self) -> float | None:
        """Money in any sixty seconds."""
        ...

    def price(self, input_tokens: int, output_tokens: int) -> float:
        """Return what so many tokens cost."""
        ...


class JudgePacer:
    """Admits requests to judging as evenly as the judge's budget allows. Thread-safe.

    Args:
        budget: The judge's limits; None: everything is admitted.
        clock: Monotonic seconds.
    """

    def __init__(self, budget: Budget | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._budget = budget
        self._clock = clock
        self._lock = threading.Lock()
        self._calls_per_request = FIRST_CALLS
        self._tokens_per_request = 0.0
        self._cost_per_request = 0.0
        self._calls = 0
        self._tokens = 0
        self._cost = 0.0
        priced = getattr(budget, "cost_per_minute", None) is not None
        self._prices: PricedBudget | None = cast("PricedBudget", budget) if priced else None
        self._admitted = 0
        self._share = 1.0
        self._credit = 1.0
        self._credited_at = clock()

    @property
    def share(self) -> float:
        """The share of requests admitted of late, 0.0 to 1.0."""
        return self._share

    def admits(self) -> bool:
        """Decide about the next request."""
        with self._lock:
            rate = self._requests_per_second()
            if rate is None:
                return True
            now = self._clock()
            most = max(1.0, rate * BURST_S)
            self._credit = min(most, self._credit + (now - self._credited_at) * rate)
            self._credited_at = now
            admitted = self._credit >= 1.0
            if admitted:
                self._credit -= 1.0
                self._admitted += 1
            self._share += MEMORY * (float(admitted) - self._share)
            return admitted

    def called(self, call: JudgeCall) -> None:
        """Note a call to the judge."""
        if call.cached:
            return
        with self._lock:
            self._calls += 1
            self._tokens += call.input_tokens + call.output_tokens
            if self._prices is not None:
                self._cost += self._prices.price(call.input_tokens, call.output_tokens)

    def judged(self) -> None:
        """Note that judging one request has ended: its calls are in."""
        with self._lock:
            self._calls_per_request += MEMORY * (self._calls - self._calls_per_request)
            self._tokens_per_request = _moved(self._tokens_per_request, self._tokens)
            self._cost_per_request = _moved(self._cost_per_request, self._cost)
            self._calls = 0
            self._tokens = 0
            self._cost = 0.0

    def reset_after_fork(self) -> None:
        """Replace the lock, which a thread of the parent may have held."""
        self._lock = threading.Lock()

    def _requests_per_second(self) -> float | None:
        if self._budget is None:
            return None
        rates: list[float] = []
        if self._budget.calls_per_minute is not None:
            # A warm cache makes requests cheap, never free: the divisor has a floor.
            rates.append(self._budget.calls_per_minute / max(self._calls_per_request, 0.1))
        if self._budget.tokens_per_minute is not None and self._tokens_per_request:
            rates.append(self._budget.tokens_per_minute / self._tokens_per_request)
        if self._prices is not None and self._cost_per_request:
            limit = self._prices.cost_per_minute
            rates.append(0.0 if limit is None else limit / self._cost_per_request)
        return min(rates) / 60.0 if rates else None


def _moved(average: float, newest: float) -> float:
    """Return the running average with one more value in it; the first value is the average."""
    return average + MEMORY * (newest - average) if average else float(newest)
