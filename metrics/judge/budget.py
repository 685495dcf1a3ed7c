"""How much may be asked of a judge: calls and tokens per minute, and money.

The endpoint reserves before each call and settles afterwards.  Windows slide: no sixty seconds
hold more than was allowed.  It limits and counts; it asks nothing.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from ragmeter.metrics.errors import ConfigurationError

from .contract import JudgeError

__all__ = ["JudgeBudget", "Reservation"]

_WINDOW_S = 60.0


@dataclass(slots=True, eq=False)
class Reservation:
    """A call that was allowed: when, and the tokens it took or is expected to take."""

    at: float
    """Monotonic seconds."""
    tokens: int
    """Prompt and completion tokens."""
    cost: float = 0.0
    """What it cost, or is expected to cost, in the currency of the prices."""
    counted: bool = True
    """Whether it still lies within the window."""


class JudgeBudget:
    """Limits what a judge may cost. Thread-safe; several judges may share one.

    Args:
        calls_per_minute: Calls in any sixty seconds; None: no limit.
        tokens_per_minute: Prompt and completion tokens in any sixty seconds; None: no limit. A
            call is let through by an estimate and booked with what it really took.
        cost_per_minute: Money in any sixty seconds, in the currency of the prices; None: no limit.
            Estimated and booked like tokens.
        max_cost: Stop for good once this much was spent, in the currency of the prices.
        input_price: Price of a million prompt tokens.
        output_price: Price of a million completion tokens.
        when_exhausted: ``"skip"`` gives the score the status ``skipped`` with the error type
            ``budget``, as live traffic wants; ``"wait"`` waits for room, as offline runs want.
        clock: Monotonic seconds; tests pass their own.

    Raises:
        ConfigurationError: A limit or price is not positive, or a limit on money has no prices.
    """

    def __init__(
        self,
        calls_per_minute: int | None = None,
        tokens_per_minute: int | None = None,
        *,
        cost_per_minute: float | None = None,
        max_cost: float | None = None,
        input_price: float | None = None,
        output_price: float | None = None,
        when_exhausted: Literal["skip", "wait"] = "skip",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        limits = {
            "calls_per_minute": calls_per_minute,
            "tokens_per_minute": tokens_per_minute,
            "cost_per_minute": cost_per_minute,
            "max_cost": max_cost,
        }
        for name, limit in limits.items():
            if limit is not None and not limit > 0:
                raise ConfigurationError(f"{name} is {limit!r}; pass a positive number or None")
        for name, price in {"input_price": input_price, "output_price": output_price}.items():
            if price is not None and not price >= 0:
                raise ConfigurationError(f"{name} is {price!r}; pass the price of a million tokens")
        if not (input_price or output_price):
            for name, limit in {"max_cost": max_cost, "cost_per_minute": cost_per_minute}.items():
                if limit is not None:
                    raise ConfigurationError(
                        f"{name} needs input_price or output_price, or both, to count with"
                    )
        if when_exhausted not in ("skip", "wait"):
            raise ConfigurationError(f"when_exhausted is {when_exhausted!r}; use 'skip' or 'wait'")
        self.calls_per_minute = calls_per_minute
        self.tokens_per_minute = tokens_per_minute
        self.cost_per_minute = cost_per_minute
        self.max_cost = max_cost
        self.input_price = input_price
        self.output_price = output_price
        self.when_exhausted: Literal["skip", "wait"] = when_exhausted
        self._clock = clock
        self._lock = threading.Lock()
        self._window: deque[Reservation] = deque()
        self._window_tokens = 0
        self._window_cost = 0.0
        self._cost = 0.0

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the limits, not what was spent: another process starts with a window of its own."""
        return partial(JudgeBudget, **self.limits), ()

    @property
    def limits(self) -> dict[str, Any]:
        """The arguments it was made with, less the clock."""
        return {
            "calls_per_minute": self.calls_per_minute,
            "tokens_per_minute": self.tokens_per_minute,
            "cost_per_minute": self.cost_per_minute,
            "max_cost": self.max_cost,
            "input_price": self.input_price,
            "output_price": self.output_price,
            "when_exhausted": self.when_exhausted,
        }

    @property
    def counts(self) -> bool:
        """Whether there is anything to limit or to add up."""
        return any(value for name, value in self.limits.items() if name != "when_exhausted")

    def __repr__(self) -> str:
        return (
            f"JudgeBudget(calls_per_minute={self.calls_per_minute}, "
            f"tokens_per_minute={self.tokens_per_minute}, "
            f"cost_per_minute={self.cost_per_minute}, max_cost={self.max_cost}, "
            f"when_exhausted={self.when_exhausted!r})"
        )

    @property
    def cost(self) -> float:
        """What was spent so far, in the currency of the prices; 0.0 without prices."""
        return self._cost

    async def reserve(self, estimated_tokens: int) -> Reservation:
        """Take room for one call, waiting for it if so configured.

        Raises:
            JudgeError: There is no room (status ``skipped``, error type ``budget``).
        """
        while True:
            room = await self.obtain(estimated_tokens)
            if isinstance(room, Reservation):
                return room
            await asyncio.sleep(room)

    async def obtain(self, estimated_tokens: int) -> Reservation | float:
        """Do as `take`, wherever the budget is kept: a worker process asks the meter's for it."""
        return self.take(estimated_tokens)

    def take(self, estimated_tokens: int) -> Reservation | float:
        """Take room for one call, or return the seconds until it is worth trying again.

        Raises:
            JudgeError: There is no room (status ``skipped``, error type ``budget``), and it is
                either not to be waited for, or there will never be any.
        """
        with self._lock:
            wait_s = self._wait_s(estimated_tokens)
            if wait_s == 0:
                cost = self.price(estimated_tokens, 0)
                reservation = Reservation(self._clock(), estimated_tokens, cost)
                self._window.append(reservation)
                self._window_tokens += estimated_tokens
                self._window_cost += cost
                return reservation
        if wait_s is None or self.when_exhausted == "skip":
            raise JudgeError("the judge's budget is used up", "budget", status="skipped")
        return wait_s

    async def until_room(self, estimated_tokens: int) -> None:
        """Wait until there seems to be room for a call, without taking it."""
        while True:
            with self._lock:
                wait_s = self._wait_s(estimated_tokens)
            if not wait_s:
                return  # there is room, or never will be, as `take` will say
            await asyncio.sleep(wait_s)

    def _wait_s(self, tokens: int) -> float | None:
        """Return the seconds until it is worth trying: 0 when there is room, None: never."""
        now = self._clock()
        while self._window and self._window[0].at <= now - _WINDOW_S:
            expired = self._window.popleft()
            expired.counted = False
            self._window_tokens -= expired.tokens
            self._window_cost -= expired.cost
        cost = self.price(tokens, 0)
        if self.max_cost is not None and self._cost >= self.max_cost:
            return None
        if self.tokens_per_minute is not None and tokens > self.tokens_per_minute:
            return None
        if self.cost_per_minute is not None and cost > self.cost_per_minute:
            return None
        full = (
            (self.calls_per_minute is not None and len(self._window) >= self.calls_per_minute)
            or (
                self.tokens_per_minute is not None
                and self._window_tokens + tokens > self.tokens_per_minute
            )
            or (
                # An empty window takes any call: rounding must not lock it for good.
                self.cost_per_minute is not None
                and bool(self._window)
                and self._window_cost + cost > self.cost_per_minute
            )
        )
        return max(0.001, self._window[0].at + _WINDOW_S - now) if full else 0.0

    def price(self, input_tokens: int, output_tokens: int) -> float:
        """Return what so many tokens cost, in the currency of the prices; 0.0 without prices."""
        return (
            input_tokens * (self.input_price or 0.0) + output_tokens * (self.output_price or 0.0)
        ) / 1e6

    def settle(self, reservation: Reservation, input_tokens: int, output_tokens: int) -> None:
        """Book what a call really took."""
        with self._lock:
            cost = self.price(input_tokens, output_tokens)
            if reservation.counted:
                self._window_tokens += input_tokens + output_tokens - reservation.tokens
                self._window_cost += cost - reservation.cost
            reservation.tokens = input_tokens + output_tokens
            reservation.cost = cost
            self._cost += cost

    def renew_lock(self) -> None:
        """Replace the lock after a fork: a thread of the parent may have held it."""
        self._lock = threading.Lock()
