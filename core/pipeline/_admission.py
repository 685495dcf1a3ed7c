"""Turn a judge's budget into a probability of being judged, independent of the request itself.

Refusing requests over the budget would judge the first ones of every burst, with unknown weights. `Admission`
estimates the request rate and the cost of judging one, and lowers the probability for all of them alike.
Exporters record it, so that the sum of its inverses over the judged requests is the number of requests. The
judge's own budget remains a fuse behind it: a request it refuses is a missing value.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from ragmeter.metrics._process import fork

if TYPE_CHECKING:
    from ragmeter.metrics.judge import JudgeBudget, JudgeCall

WINDOW_S = 300.0
"""Seconds of arrivals that estimate the request rate."""
SLOT_S = 5.0
"""Seconds of one count."""
MINUTE_S = 60.0
"""Budgets are given per minute."""
SHORTEST_S = 10.0
"""Least divisor of arrivals, in seconds: three requests at the start are not a burst."""
USED_SHARE = 0.8
"""Share of the budget to plan with; the rest absorbs bursts, so that the fuse rarely blows."""
LEAST = 2.0**-12
"""The smallest probability: with smaller ones, single weights would dominate a mean."""
WORST_SHARE = 0.5
"""Share of the budget for requests selected as bad."""
WORST_BURST_S = 5.0
"""Largest burst of those, in seconds of their share."""
MEMORY = 0.05
"""Weight of the newest request in the running averages of cost."""
FIRST_CALLS = 3.0
"""Calls per request assumed at the start."""


class Arrivals:
    """Counts of arrivals over the last `WINDOW_S` seconds. For one thread."""

    def __init__(self) -> None:
        # Number of the slot, arrivals in it, and arrivals in the minute that ends with it.
        self._slots: deque[tuple[float, int, int]] = deque()
        self._count = 0
        self._earlier = 0
        self._since: float | None = None
        self.busiest_minute = 0
        """Arrivals in the busiest minute of the window that ended with the last call of `per_second`."""

    def add(self, now: float) -> None:
        """Count an arrival."""
        if self._since is None:
            self._since = now
        number = now // SLOT_S
        count = 1
        if self._slots and self._slots[-1][0] >= number:
            number, before, _ = self._slots.pop()
            count += before
        else:
            first = number - MINUTE_S / SLOT_S
            self._earlier = sum(n for slot, n, _ in self._slots if slot > first)
        minute = self._earlier + count
        self._slots.append((number, count, minute))
        self._count += 1
        self.busiest_minute = max(self.busiest_minute, minute)

    def per_second(self, now: float) -> float:
        """Return arrivals per second, within the window or since the first one."""
        oldest = (now - WINDOW_S) // SLOT_S
        known = len(self._slots)
        while self._slots and self._slots[0][0] < oldest:
            self._count -= self._slots.popleft()[1]
        if len(self._slots) < known:
            self.busiest_minute = max((minute for _, _, minute in self._slots), default=0)
        if self._since is None or not self._count:
            return 0.0
        # The oldest slot counts as a whole, so time starts at its beginning.
        covered = now - max(self._since, oldest * SLOT_S)
        return self._count / max(covered, SHORTEST_S)


class Admission:
    """Sets the probability that the next request is judged. Thread-safe.

    Args:
        budget: The judge's limits; None: always `rate`.
        rate: The probability where the budget suffices, 0.0 to 1.0.
        clock: Monotonic seconds.
    """

    def __init__(
        self, budget: JudgeBudget | None, rate: float = 1.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._budget = budget
        self._rate = rate
        self._clock = clock
        self._lock = fork.lock()
        self._calls_per_request = FIRST_CALLS
        self._tokens_per_request = 0.0
        self._cost_per_request = 0.0
        self._calls = 0
        self._tokens = 0
        self._cost = 0.0
        self._prices = budget if budget is not None and budget.prices_known else None
        self._arrivals = Arrivals()
        self._worst = Arrivals()
        self._worst_credit = 1.0
        self._credited_at = clock()

    def count_request(self) -> float:
        """Count a request and return its probability of being judged.

        It depends only on earlier requests, and is `rate` or, if the budget allows less, a power of two, to
        keep the number of different weights small.
        """
        if self._budget is None:
            return self._rate
        self._budget.came()
        with self._lock:
            now = self._clock()
            # A burst has to fit into the budget of its minute, even if other minutes are quiet.
            arrivals_per_s = max(
                self._arrivals.per_second(now), USED_SHARE * self._arrivals.busiest_minute / MINUTE_S
            )
            self._arrivals.add(now)
            budget_per_s = self._requests_per_second()
            if budget_per_s is None or not arrivals_per_s:
                return self._rate
            left_per_s = USED_SHARE * budget_per_s - self._worst.per_second(now)
            affordable = max(left_per_s / arrivals_per_s, LEAST)
            if affordable >= self._rate:
                return self._rate
            return min(self._rate, 2.0 ** math.floor(math.log2(affordable)))

    def takes_worst(self) -> bool:
        """Reserve budget to judge a request selected as bad; return whether there was any.

        Whether there is does not depend on the request.
        """
        with self._lock:
            budget_per_s = self._requests_per_second()
            if budget_per_s is None:
                return True
            now = self._clock()
            worst_per_s = WORST_SHARE * budget_per_s
            earned = (now - self._credited_at) * worst_per_s
            self._worst_credit = min(max(1.0, worst_per_s * WORST_BURST_S), self._worst_credit + earned)
            self._credited_at = now
            if self._worst_credit < 1.0:
                return False
            self._worst_credit -= 1.0
            self._worst.add(now)
            return True

    def note_call(self, call: JudgeCall) -> None:
        """Record a call to the judge."""
        if call.cached:
            return
        with self._lock:
            self._calls += call.calls
            self._tokens += call.input_tokens + call.output_tokens
            if self._prices is not None:
                self._cost += self._prices.price(call.input_tokens, call.output_tokens, call.cached_tokens)

    def with_cost(self, call: JudgeCall) -> JudgeCall:
        """Return `call` with its cost, if the budget has prices and the call has no cost yet."""
        prices = self._prices
        if prices is None or call.cached or call.cost is not None:
            return call
        return replace(call, cost=prices.price(call.input_tokens, call.output_tokens, call.cached_tokens))

    def finish_request(self) -> None:
        """Record that all calls of a request are done.

        Not for a request that the budget refused, which says nothing about the cost of judging.
        """
        with self._lock:
            self._calls_per_request += MEMORY * (self._calls - self._calls_per_request)
            self._tokens_per_request = _moving_average(self._tokens_per_request, self._tokens)
            self._cost_per_request = _moving_average(self._cost_per_request, self._cost)
            self._calls = 0
            self._tokens = 0
            self._cost = 0.0

    def _requests_per_second(self) -> float | None:
        if self._budget is None:
            return None
        rates: list[float] = []
        if self._budget.calls_per_minute is not None:
            # A warm cache makes requests cheap, but not free: the divisor has a floor.
            rates.append(self._budget.calls_per_minute / max(self._calls_per_request, 0.1))
        if self._budget.tokens_per_minute is not None and self._tokens_per_request:
            rates.append(self._budget.tokens_per_minute / self._tokens_per_request)
        limit = None if self._prices is None else self._prices.cost_per_minute
        if limit is not None and self._cost_per_request:
            rates.append(limit / self._cost_per_request)
        # Processes that share the limits each plan with their part.
        return min(rates) * self._budget.part / 60.0 if rates else None


def _moving_average(average: float, newest: float) -> float:
    """Add a value to a running average; the first value is the average."""
    return average + MEMORY * (newest - average) if average else float(newest)
