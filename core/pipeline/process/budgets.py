"""Share a judge's budget between the worker and the meter's process, which owns it.

So it survives restarts of the worker, can be shared by several judges, and shows its cost in the meter's
process. `RemoteBudget` is its proxy in the worker; `Bookkeeping` answers it.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from itertools import count
from typing import Any

from ragmeter.metrics.judge.budget import JudgeBudget, Reservation
from ragmeter.metrics.judge.protocol import JudgeError

MAX_OPEN = 4096
"""Reservations remembered until they are settled."""

Granted = tuple[bool, float | None]
"""Whether it was granted, else the seconds to wait, or None if waiting does not help."""


class Bookkeeping:
    """Reserves and settles for one worker at a time, by the numbers of the budgets."""

    def __init__(self, budgets: Sequence[JudgeBudget]) -> None:
        self._budgets = budgets
        self._open: OrderedDict[tuple[int, int], Reservation] = OrderedDict()

    def take(self, number: int, request: int, tokens: int, output_tokens: int) -> Granted:
        """Try to reserve budget for a call."""
        try:
            room = self._budgets[number].take(tokens, output_tokens, patient=True)
        except JudgeError:
            return False, None
        if not isinstance(room, Reservation):
            return False, room
        self._open[number, request] = room
        if len(self._open) > MAX_OPEN:
            self._settle_as_expected()
        return True, None

    def settle(self, number: int, request: int, *tokens: int) -> None:
        """Book the input, output and cached tokens of a call."""
        reservation = self._open.pop((number, request), None)
        if reservation is not None:
            self._budgets[number].settle(reservation, *tokens)

    def worker_ended(self) -> None:
        """Book the calls of an ended worker at their estimates."""
        while self._open:
            self._settle_as_expected()

    def _settle_as_expected(self) -> None:
        (number, _), oldest = self._open.popitem(last=False)
        self._budgets[number].settle(oldest, oldest.tokens, 0)


class _NumberedReservation(Reservation):
    """A reservation held in the meter's process."""

    number: int = 0


class RemoteBudget(JudgeBudget):
    """The worker's proxy of a budget in the meter's process.

    Args:
        place: Its number.
        limits: Its limits.
        send: Sends an event.
    """

    def __init__(self, place: int, limits: Mapping[str, Any], send: Callable[..., None]) -> None:
        super().__init__(**limits)
        self._place = place
        self._send = send
        self._wait = 0.0
        self._numbers = count(1)
        self._asked: dict[int, Future[Granted]] = {}

    async def obtain(self, estimated_tokens: int, estimated_output: int) -> Reservation | float:
        """Request a reservation from the budget."""
        number = next(self._numbers)
        answer = self._asked[number] = Future()
        self._send("reserve", self._place, number, estimated_tokens, estimated_output)
        granted, wait_s = await asyncio.wrap_future(answer)
        if granted:
            reservation = _NumberedReservation(0.0, estimated_tokens + estimated_output)
            reservation.number = number
            return reservation
        if wait_s is None:
            raise JudgeError("the judge's budget is used up", "budget", status="skipped")
        self._wait = wait_s
        return wait_s

    def take_answer(self, number: int, *granted: Any) -> None:
        """Receive the answer to a request; on another thread."""
        asked = self._asked.pop(number)
        if asked.set_running_or_notify_cancel():
            asked.set_result(granted)
        elif granted[0]:  # the request was cancelled
            self._send("settle", self._place, number, 0, 0, 0)

    async def until_room(self, estimated_tokens: int, estimated_output: int) -> None:
        """Wait for the time in the budget's last answer."""
        del estimated_tokens, estimated_output
        await asyncio.sleep(self._wait)

    def settle(
        self, reservation: Reservation, input_tokens: int, output_tokens: int, cached_tokens: int = 0
    ) -> None:
        """Settle with the budget."""
        if isinstance(reservation, _NumberedReservation):
            took = (input_tokens, output_tokens, cached_tokens)
            self._send("settle", self._place, reservation.number, *took)
