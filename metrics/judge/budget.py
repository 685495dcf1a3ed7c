"""The budget of a judge: calls and tokens per minute, and money.

The endpoint reserves before each call and books the actual use afterwards. Windows slide: no sixty seconds
exceed the limits. It limits and counts; it calls nothing.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from ragmeter.metrics._process import fork
from ragmeter.metrics.errors import ConfigurationError

from .protocol import JudgeError

_WINDOW_S = 60.0
_POLL_S = 0.02
"""Seconds until open calls may have been settled."""
_FAR = 16.0
"""Assumed largest ratio of a call's use to its estimate."""
_ROUNDED = 1.0 + 1e-9
"""Largest ratio of two sums of money that count as equal."""
_RATIOS = 64
"""Number of settled calls whose ratio of use to estimate is stored."""


@dataclass(slots=True, eq=False)
class Reservation:
    """An admitted call: its time, and its actual or expected tokens."""

    at: float
    """Monotonic seconds."""
    tokens: int
    """Prompt and completion tokens."""
    cost: float = 0.0
    """Its actual or expected cost, in the currency of the prices."""
    counted: bool = True
    """Whether it is still within the window."""
    settled: bool = False
    """Whether its actual use is known."""
    estimated_tokens: int = 0
    """Its expected tokens."""
    estimated_cost: float = 0.0
    """The cost of its estimated tokens."""
    held_cost: float = 0.0
    """The cost reserved for it until it is settled."""
    window: str = ""
    """The window of a shared budget in which it is booked: `at` is the second of that Redis' clock."""


LIMITS = ("calls_per_minute", "tokens_per_minute", "cost_per_minute", "max_cost")
_PRICES = ("input_price", "output_price", "cached_input_price")


class JudgeBudget:
    """Limits the cost of a judge. Thread-safe; several judges may share one.

    Args:
        calls_per_minute: Calls in any sixty seconds; None: no limit.
        tokens_per_minute: Prompt and completion tokens in any sixty seconds; None: no limit. A call is
            admitted by an estimate and booked with its actual use.
        cost_per_minute: Money in any sixty seconds, in the currency of the prices; None: no limit.
            Estimated and booked like tokens.
        max_cost: Stop for good once this much was spent, in the currency of the prices. Open calls count at
            their estimate, and near the limit calls are sent one by one: it is exceeded at most by one call's
            use above its estimate.
        input_price: Price of a million prompt tokens.
        output_price: Price of a million completion tokens.
        cached_input_price: Price of a million prompt tokens that the endpoint read from its cache; None: as
            the others.
        when_exhausted: ``"skip"`` gives the score the status ``skipped`` with the error type ``budget``, for
            live traffic; ``"wait"`` waits for room, for offline runs.
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
        cached_input_price: float | None = None,
        when_exhausted: Literal["skip", "wait"] = "skip",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.calls_per_minute = calls_per_minute
        self.tokens_per_minute = tokens_per_minute
        self.cost_per_minute = cost_per_minute
        self.max_cost = max_cost
        self.input_price = input_price
        self.output_price = output_price
        self.cached_input_price = cached_input_price
        self.when_exhausted: Literal["skip", "wait"] = when_exhausted
        given = self.limits
        for name in LIMITS:
            if given[name] is not None and not given[name] > 0:
                raise ConfigurationError(f"{name} is {given[name]!r}; pass a positive number or None")
        for name in _PRICES:
            if given[name] is not None and not given[name] >= 0:
                raise ConfigurationError(f"{name} is {given[name]!r}; pass the price of a million tokens")
        for name in ("max_cost", "cost_per_minute"):
            if given[name] is not None and not (input_price or output_price):
                raise ConfigurationError(f"{name} needs input_price or output_price, or both, to count with")
        if when_exhausted not in ("skip", "wait"):
            raise ConfigurationError(f"when_exhausted is {when_exhausted!r}; use 'skip' or 'wait'")
        self._clock = clock
        self._lock = fork.lock()
        self._window: deque[Reservation] = deque()
        self._window_tokens = 0
        self._window_cost = 0.0
        self._cost = 0.0
        self._open = 0
        self._open_tokens = 0
        self._open_cost = 0.0
        self._open_estimates = 0.0
        self._ratios: deque[float] = deque(maxlen=_RATIOS)
        self._cost_ratios: deque[float] = deque(maxlen=_RATIOS)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the limits, not the use: another process starts with an empty window."""
        return partial(JudgeBudget, **self.limits), ()

    @property
    def limits(self) -> dict[str, Any]:
        """Its constructor arguments, without the clock."""
        return {name: getattr(self, name) for name in (*LIMITS, *_PRICES, "when_exhausted")}

    @property
    def prices_known(self) -> bool:
        """Whether the cost of calls is known."""
        return self.input_price is not None or self.output_price is not None

    @property
    def counts(self) -> bool:
        """Whether there is anything to limit or to sum up."""
        return any(value for name, value in self.limits.items() if name != "when_exhausted")

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value!r}" for name, value in self.limits.items())
        return f"{type(self).__name__}({shown})"

    @property
    def part(self) -> float:
        """The part of the limits for this process, 0.0 to 1.0: all, unless others share them."""
        return 1.0

    @property
    def granted_alone(self) -> int:
        """Calls that this process granted itself, without the shared budget; 0 if it is not shared."""
        return 0

    def came(self) -> None:
        """Record the arrival of a request that may be judged, from which a shared budget derives its part."""

    @property
    def cost(self) -> float:
        """The money spent so far, in the currency of the prices; 0.0 without prices."""
        return self._cost

    def report_cost(self, cost: float) -> None:
        """Count money that another process spent under these limits, as `Judge.report` counts its calls."""
        with self._lock:
            self._cost += cost

    async def obtain(self, estimated_tokens: int, estimated_output: int) -> Reservation | float:
        """Do as a patient `take`; in a scoring process, ask the meter's process for it."""
        return self.take(estimated_tokens, estimated_output, patient=True)

    def take(
        self, estimated_tokens: int, estimated_output: int = 0, *, patient: bool = False
    ) -> Reservation | float:
        """Reserve room for one call, or return the seconds until another attempt is worthwhile.

        Open calls count at their estimate until they are settled.

        Args:
            estimated_tokens: Prompt tokens expected.
            estimated_output: Completion tokens expected.
            patient: Wait for open calls while their actual use could leave no room.

        Raises:
            JudgeError: There is no room (status ``skipped``, error type ``budget``), and the budget does not
                wait, or there will never be any.
        """
        tokens = estimated_tokens + estimated_output
        estimated_cost = self.price(estimated_tokens, estimated_output)
        with self._lock:
            wait_s = self._wait_s(tokens, estimated_cost, patient=patient)
            if wait_s == 0:
                cost = estimated_cost * self._calibration()
                reservation = Reservation(
                    self._clock(),
                    tokens,
                    cost,
                    estimated_tokens=tokens,
                    estimated_cost=estimated_cost,
                    held_cost=cost,
                )
                self._window.append(reservation)
                self._window_tokens += tokens
                self._window_cost += cost
                self._open += 1
                self._open_tokens += tokens
                self._open_cost += cost
                self._open_estimates += estimated_cost
                return reservation
        if patient and wait_s == _POLL_S:
            return _POLL_S
        if wait_s is None or self.when_exhausted == "skip":
            raise JudgeError("the judge's budget is used up", "budget", status="skipped")
        return wait_s

    async def until_room(self, estimated_tokens: int, estimated_output: int) -> None:
        """Wait until there seems to be room for a call, without reserving it."""
        tokens = estimated_tokens + estimated_output
        estimated_cost = self.price(estimated_tokens, estimated_output)
        while True:
            with self._lock:
                wait_s = self._wait_s(tokens, estimated_cost, patient=True)
            if not wait_s or (self.when_exhausted == "skip" and wait_s != _POLL_S):
                return  # there is room, or not in time, which `take` will report
            await asyncio.sleep(wait_s)

    def _wait_s(self, tokens: int, estimated_cost: float, *, patient: bool) -> float | None:
        """Return the seconds until another attempt is worthwhile: 0 if there is room, None: never."""
        now, cost = self._clock(), estimated_cost * self._calibration()
        while self._window and self._window[0].at <= now - _WINDOW_S:
            expired = self._window.popleft()
            expired.counted = False
            self._window_tokens -= expired.tokens
            self._window_cost -= expired.cost
        if self.max_cost is not None:
            first = not self._open and not self._cost_ratios  # the cost of calls is unknown
            if self._cost >= self.max_cost or (self._cost + cost > self.max_cost * _ROUNDED and not first):
                return None
            if self._open and self._cost + self._open_cost + cost > self.max_cost * _ROUNDED:
                return _POLL_S  # open calls may turn out cheaper
        if self.tokens_per_minute is not None and tokens > self.tokens_per_minute:
            return None
        if self.cost_per_minute is not None and cost > self.cost_per_minute:
            return None
        full = (
            (self.calls_per_minute is not None and len(self._window) >= self.calls_per_minute)
            or (self.tokens_per_minute is not None and self._window_tokens + tokens > self.tokens_per_minute)
            or (
                # An empty window admits any call: rounding must not block it for good.
                self.cost_per_minute is not None
                and bool(self._window)
                and self._window_cost + cost > self.cost_per_minute
            )
        )
        if full:
            return max(0.001, self._window[0].at + _WINDOW_S - now)
        return _POLL_S if patient and not self._surely_fits(tokens, estimated_cost) else 0.0

    def _surely_fits(self, tokens: int, cost: float) -> bool:
        """Return whether a call fits even if it and all open calls reach their highest use.

        An estimate may be wrong, and those of many open calls are wrong together; a single one may be.
        """
        if not self._open:
            return True
        above = self._above()
        more_tokens = above * (self._open_tokens + tokens)
        more_cost = above * (self._open_estimates + cost)
        # `max_cost` never recovers, so it takes the most careful estimate.
        most_cost = max(_FAR, above + 1.0) * (self._open_estimates + cost)
        return (
            (self.max_cost is None or self._cost + most_cost <= self.max_cost)
            and (
                self.tokens_per_minute is None
                or self._window_tokens + tokens + more_tokens <= self.tokens_per_minute
            )
            and (self.cost_per_minute is None or self._window_cost + cost + more_cost <= self.cost_per_minute)
        )

    def _above(self) -> float:
        """Return the largest excess of a call over its estimate, as a multiple of it, among recent calls."""
        return (max(1.0, *self._ratios) * 1.5 if self._ratios else _FAR) - 1.0

    def _calibration(self) -> float:
        """Return the largest ratio of a call's cost to its estimate, among recent calls."""
        return min(1.0, max(self._cost_ratios)) if self._cost_ratios else 1.0

    def price(self, input_tokens: int, output_tokens: int, cached_tokens: int = 0) -> float:
        """Return the cost of these tokens, in the currency of the prices; 0.0 without prices.

        Args:
            input_tokens: Prompt tokens, those read from the endpoint's cache among them.
            output_tokens: Completion tokens.
            cached_tokens: Prompt tokens that the endpoint read from its cache.
        """
        full = self.input_price or 0.0
        cached = full if self.cached_input_price is None else self.cached_input_price
        written = output_tokens * (self.output_price or 0.0)
        return ((input_tokens - cached_tokens) * full + cached_tokens * cached + written) / 1e6

    def settle(
        self, reservation: Reservation, input_tokens: int, output_tokens: int, cached_tokens: int = 0
    ) -> None:
        """Book the actual use of a call, once."""
        with self._lock:
            tokens = input_tokens + output_tokens
            cost = self.price(input_tokens, output_tokens, cached_tokens)
            if reservation.counted:
                self._window_tokens += tokens - reservation.tokens
                self._window_cost += cost - reservation.cost
            reservation.tokens = tokens
            reservation.cost = cost
            self._cost += cost
            if not reservation.settled:
                reservation.settled = True
                self._open -= 1
                self._open_tokens -= reservation.estimated_tokens
                self._open_cost -= reservation.held_cost
                self._open_estimates -= reservation.estimated_cost
                if not self._open:
                    self._open_cost = self._open_estimates = 0.0  # a rounding remainder
                if tokens:
                    self._remember(reservation)

    def _remember(self, reservation: Reservation) -> None:
        """Store the ratio of a call's use to its estimate."""
        ratio = reservation.tokens / max(1, reservation.estimated_tokens)
        if reservation.estimated_cost:
            cost_ratio = reservation.cost / reservation.estimated_cost
            self._cost_ratios.append(cost_ratio)
            ratio = max(ratio, cost_ratio / self._calibration())
        self._ratios.append(ratio)
