"""A judge's budget, asked from the worker and kept in the meter's process.

So it holds across restarts of the worker, is shared by all who share it, and its cost can be read
where it was set.  `RemoteBudget` stands for it in the worker; `Bookkeeping` answers.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import count
from typing import Any

from ragmeter.metrics.judge.budget import JudgeBudget, Reservation
from ragmeter.metrics.judge.protocol import JudgeError

__all__ = ["Bookkeeping", "Questions", "RemoteBudget"]

MAX_OPEN = 4096
"""Reservations remembered until they are settled."""

Granted = tuple[bool, float | None]
"""Whether there was room, and else the seconds to wait, if that helps."""


class Bookkeeping:
    """Reserves and settles for one worker at a time.

    Args:
        budgets: The budgets, by number.
    """

    def __init__(self, budgets: Sequence[JudgeBudget]) -> None:
        self._budgets = budgets
        self._open: OrderedDict[tuple[int, int], Reservation] = OrderedDict()

    def take(self, number: int, request: int, tokens: int, output_tokens: int) -> Granted:
        """Try to take room for a call."""
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
        """Book what a call took: input, output and cached tokens."""
        reservation = self._open.pop((number, request), None)
        if reservation is not None:
            self._budgets[number].settle(reservation, *tokens)

    def worker_ended(self) -> None:
        """Book the calls that a worker was making when it ended: as they were expected to be."""
        while self._open:
            self._settle_as_expected()

    def _settle_as_expected(self) -> None:
        (number, _), oldest = self._open.popitem(last=False)
        self._budgets[number].settle(oldest, oldest.tokens, 0)


class Questions:
    """Questions of the worker to the meter's process, by number; asked on the judge's loop.

    Args:
        send: Sends an event.
    """

    def __init__(self, send: Callable[[tuple[Any, ...]], None]) -> None:
        self.send = send
        self._numbers = count(1)
        self._asked: dict[int, asyncio.Future[Granted]] = {}

    async def take(self, budget: int, tokens: int, output_tokens: int) -> tuple[int, Granted]:
        """Ask for room in a budget; return the reservation's number and the answer."""
        number = next(self._numbers)
        answer = self._asked[number] = asyncio.get_running_loop().create_future()
        self.send(("reserve", budget, number, tokens, output_tokens))
        return number, await answer

    def answered(self, number: int, *granted: Any) -> None:
        """Take an answer, on another thread."""
        future = self._asked.pop(number, None)
        if future is not None:
            with suppress(RuntimeError):  # its loop was closed meanwhile: nothing waits
                future.get_loop().call_soon_threadsafe(_resolve, future, granted)


def _resolve(future: asyncio.Future[Any], answer: Any) -> None:
    if not future.done():
        future.set_result(answer)


class _Numbered(Reservation):
    """A reservation that is kept in the meter's process."""

    number: int = 0


class RemoteBudget(JudgeBudget):
    """Stands in the worker for a budget of the meter's process.

    Args:
        number: Which one.
        limits: Its limits.
        questions: How it is asked.
    """

    def __init__(self, number: int, limits: Mapping[str, Any], questions: Questions) -> None:
        super().__init__(**limits)
        self._number = number
        self._wait = 0.0
        self._questions = questions

    async def obtain(self, estimated_tokens: int, estimated_output: int) -> Reservation | float:
        """Ask the budget itself."""
        number, (granted, wait_s) = await self._questions.take(
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
            self._questions.send(("settle", self._number, reservation.number, *took))
