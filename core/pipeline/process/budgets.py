"""A judge's budget, asked from the worker and kept in the meter's process.

So it holds across restarts of the worker, is shared by all who share it, and its cost can be read
where it was set.  `BudgetAtHome` stands for it in the worker; `Bookkeeping` answers.
"""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import count
from typing import Any

from ragmeter.metrics.judge.budget import JudgeBudget, Reservation
from ragmeter.metrics.judge.protocol import JudgeError

__all__ = ["Bookkeeping", "BudgetAtHome", "Errands"]

MAX_OPEN = 4096
"""Reservations remembered until they are settled."""


class Bookkeeping:
    """Reserves and settles for one worker at a time.

    Args:
        budgets: The budgets, by number.
    """

    def __init__(self, budgets: Sequence[JudgeBudget]) -> None:
        self._budgets = budgets
        self._open: OrderedDict[tuple[int, int], Reservation] = OrderedDict()

    def take(
        self, number: int, request: int, tokens: int, output_tokens: int
    ) -> tuple[bool, float | None]:
        """Try to take room for a call: whether there was, and else the seconds to wait, if any."""
        try:
            room = self._budgets[number].take(tokens, output_tokens, patient=True)
        except JudgeError:
            return False, None
        if not isinstance(room, Reservation):
            return False, room
        self._open[number, request] = room
        if len(self._open) > MAX_OPEN:
            (oldest, _), lost = self._open.popitem(last=False)
            self._budgets[oldest].settle(lost, lost.tokens, 0)
        return True, None

    def settle(
        self,
        number: int,
        request: int,
        input_tokens: int,
        output_tokens: int,
        cached_tokens: int,
    ) -> None:
        """Book what a call took."""
        reservation = self._open.pop((number, request), None)
        if reservation is not None:
            self._budgets[number].settle(reservation, input_tokens, output_tokens, cached_tokens)

    def worker_ended(self) -> None:
        """Book the calls that a worker was making when it ended: as they were expected to be."""
        while self._open:
            (number, _), reservation = self._open.popitem()
            self._budgets[number].settle(reservation, reservation.tokens, 0)


class Errands:
    """Questions of the worker to the meter's process, by number; asked on the judge's loop.

    Args:
        send: Sends an event.
    """

    def __init__(self, send: Callable[[tuple[Any, ...]], None]) -> None:
        self.send = send
        self._numbers = count(1)
        self._lock = threading.Lock()
        self._asked: dict[int, asyncio.Future[tuple[bool, float | None]]] = {}

    async def take(
        self, budget: int, tokens: int, output_tokens: int
    ) -> tuple[int, bool, float | None]:
        """Ask for room in a budget; return the reservation's number and the answer."""
        answer: asyncio.Future[tuple[bool, float | None]] = (
            asyncio.get_running_loop().create_future()
        )
        with self._lock:
            number = next(self._numbers)
            self._asked[number] = answer
        self.send(("reserve", budget, number, tokens, output_tokens))
        granted, wait_s = await answer
        return number, granted, wait_s

    def answered(self, number: int, granted: bool, wait_s: float | None) -> None:
        """Take an answer, on whatever thread."""
        with self._lock:
            future = self._asked.pop(number, None)
        if future is not None:
            with suppress(RuntimeError):  # its loop was closed meanwhile: nobody waits
                future.get_loop().call_soon_threadsafe(_resolve, future, (granted, wait_s))


def _resolve(
    future: asyncio.Future[tuple[bool, float | None]], answer: tuple[bool, float | None]
) -> None:
    if not future.done():
        future.set_result(answer)


class _Numbered(Reservation):
    """A reservation that is kept in the meter's process."""

    number: int = 0


class BudgetAtHome(JudgeBudget):
    """Stands in the worker for a budget of the meter's process.

    Args:
        number: Which one.
        limits: Its limits.
        errands: How it is asked.
    """

    def __init__(self, number: int, limits: Mapping[str, Any], errands: Errands) -> None:
        super().__init__(**limits)
        self._number = number
        self._wait = 0.0
        self._errands = errands

    async def obtain(self, estimated_tokens: int, estimated_output: int) -> Reservation | float:
        """Ask the budget itself."""
        number, granted, wait_s = await self._errands.take(
            self._number, estimated_tokens, estimated_output
        )
        if granted:
            reservation = _Numbered(0.0, estimated_tokens + estimated_output)
            reservation.number = number
            return reservation
        if wait_s is None:
            raise JudgeError("the judge's budget is used up", "budget", status="skipped")
        self._wait = wait_s
        return wait_s

    async def until_room(self, estimated_tokens: int, estimated_output: int) -> None:
        """Wait as long as the budget itself said last."""
        del estimated_tokens, estimated_output
        await asyncio.sleep(self._wait)

    def settle(
        self,
        reservation: Reservation,
        input_tokens: int,
        output_tokens: int,
        cached_tokens: int = 0,
    ) -> None:
        """Tell the budget itself."""
        if isinstance(reservation, _Numbered):
            took = (input_tokens, output_tokens, cached_tokens)
            self._errands.send(("settle", self._number, reservation.number, *took))
