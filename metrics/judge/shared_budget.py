"""One judge's budget for many processes, stored in Redis by the server's clock.

Each call makes one request to Redis, which decides about calls, tokens and money at once; the actual use
follows when it is known. While Redis is unreachable, each process grants itself a configured share of the
limits, so that neither all judging ends nor the bill is multiplied by the number of processes.
"""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections import deque
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

from ragmeter.metrics._process import fork
from ragmeter.metrics._process.redis import LEFT_ALONE_S, Answers, Command, RedisLine, Script, made_again
from ragmeter.metrics.errors import ConfigurationError

from .budget import LIMITS, JudgeBudget, Reservation
from .protocol import JudgeError

SHARED_URL = "RAGMETER_JUDGE_SHARED_URL"
"""The variable with the URL, including the password, for an unpickled budget or cache."""

_SCRIPT = Script(Path(__file__).with_suffix(".lua").read_text(encoding="utf-8"))
_REMEMBERED_S = 61.0
"""Seconds for which a process keeps its own record, in case Redis loses it."""
_MOST_FAR = 16.0
"""Assumed largest ratio of a call's use to its estimate, for `max_cost`."""
_CAME = 3
"""Index of the number of requests in the record."""
_POLL_MS = 20
"""Seconds until open calls may have been settled, as in the script."""
_CLOSING_S = 0.5
_SETTINGS_SHARED_EVERY_S = 3600.0
_SETTINGS_KEPT_S = 86_400


def settings_key(name: str) -> str:
    """Return the key under which processes record their settings, and when they used them."""
    return f"ragmeter:{{judge-budget:{name}}}:settings"


class SharedBudget(JudgeBudget):
    """Limits the cost of a judge over all processes with the same budget name in the same Redis.

    Limits apply to any sixty seconds of the Redis server's clock, over all processes. Calls are admitted by
    an estimate and booked with their actual use, as in a `JudgeBudget`. A process that ends with open calls
    leaves their estimates, which expire after a minute. If Redis is emptied, the running processes restore
    their own last minute, and nothing is granted for two seconds.

    Args:
        url: ``redis://``, ``rediss://`` or ``unix://``. It has few and small keys; use a database that evicts
            nothing.
        calls_per_minute: As in `JudgeBudget`, for all processes together.
        tokens_per_minute: Likewise.
        name: Processes with the same name share one budget: letters, digits, ``.``, ``-``, ``_`` and ``:``.
        share: Share of each limit that a process may grant itself, per minute, while Redis is unreachable,
            0.0 to 1.0: one divided by the number of processes; 0.0: nothing is granted.
        cost_per_minute: As in `JudgeBudget`, for all processes together.
        max_cost: Likewise, and permanent: the sum spent under `name` stays in Redis. While Redis is
            unreachable, nothing is granted if this is set. Running processes remember the sum: use another
            name to start again.
        input_price: As in `JudgeBudget`.
        output_price: Likewise.
        cached_input_price: Likewise.
        when_exhausted: Likewise.

    Raises:
        ConfigurationError: The URL, the name, the share, a limit or a price is wrong.
        MissingDependencyError: The package ``redis`` is not installed.
    """

    def __init__(
        self,
        url: str,
        calls_per_minute: int | None = None,
        tokens_per_minute: int | None = None,
        *,
        name: str = "default",
        share: float = 0.125,
        cost_per_minute: float | None = None,
        max_cost: float | None = None,
        input_price: float | None = None,
        output_price: float | None = None,
        cached_input_price: float | None = None,
        when_exhausted: Literal["skip", "wait"] = "skip",
    ) -> None:
        super().__init__(
            calls_per_minute,
            tokens_per_minute,
            cost_per_minute=cost_per_minute,
            max_cost=max_cost,
            input_price=input_price,
            output_price=output_price,
            cached_input_price=cached_input_price,
            when_exhausted=when_exhausted,
        )
        if not 0 <= share <= 1:
            raise ConfigurationError(
                f"share is {share!r}; pass 1 divided by the number of processes, 0.0 to 1.0"
            )
        if not name or not all(c.isalnum() or c in ".-_:" for c in name):
            raise ConfigurationError(
                f"name is {name!r}; pass letters, digits, '.', '-', '_' or ':', e.g. 'shop-judge'"
            )
        self.name = name
        self.share = share
        meanwhile = (
            "nothing is judged, as max_cost is set"
            if max_cost is not None
            else f"this process takes {share:g} of the limits"
        )
        self._line = RedisLine(url, "the judge's shared budget", meanwhile)
        tag = f"ragmeter:{{judge-budget:{name}}}"  # in braces, for one node of a cluster
        self._keys = (f"{tag}:window", f"{tag}:spent")
        self._limited = any(self.limits[limit] is not None for limit in LIMITS)
        self._wait = 0.0
        self._begin()
        fork.forget(self._begin)

    def _begin(self) -> None:
        """Start with an empty record: those of other processes are separate."""
        self._alone = self._own_share()
        self._granted_alone = 0
        self._books: deque[_Page] = deque()
        self._in_books = [0, 0, 0, 0]
        self._known_window = ""
        self._known_spent = 0
        self._came = 0
        self._part: float | None = None
        self._settings_shared_at = -math.inf

    def _own_share(self) -> JudgeBudget | None:
        """Return this process's budget while Redis is unreachable; None: nothing."""
        if self.max_cost is not None or not self._limited:
            return None
        limits = {
            "calls_per_minute": _times(self.calls_per_minute, self.share, int),
            "tokens_per_minute": _times(self.tokens_per_minute, self.share, int),
            "cost_per_minute": _times(self.cost_per_minute, self.share, float),
        }
        if any(limit == 0 for limit in limits.values()):
            return None
        return JudgeBudget(**{**self.limits, **limits})

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the settings without the secrets of the URL, which are in the environment."""
        settings = {**self.limits, "name": self.name, "share": self.share}
        return made_again, (SharedBudget, self._line.address, SHARED_URL, settings)

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value!r}" for name, value in self.limits.items())
        return f"SharedBudget({self._line.address!r}, name={self.name!r}, share={self.share}, {shown})"

    @property
    def settings(self) -> str:
        """Limits, prices and share as JSON, which should be equal in all processes with this budget."""
        return json.dumps({**self.limits, "share": self.share}, sort_keys=True)

    def _share_settings(self) -> None:
        """Record the settings in Redis once an hour, so that the doctor can compare them."""
        now = time.monotonic()
        if now - self._settings_shared_at >= _SETTINGS_SHARED_EVERY_S:
            self._settings_shared_at = now
            key = settings_key(self.name)
            self._line.send([("HSET", key, self.settings, int(time.time())), ("EXPIRE", key, _SETTINGS_KEPT_S)])

    @property
    def part(self) -> float:
        """The part of the limits for this process: its share of the incoming requests.

        While Redis is unreachable, and before the first request to it: `share`.
        """
        if not self._limited:
            return 1.0
        return self.share if self._part is None or self._line.is_away else self._part

    @property
    def granted_alone(self) -> int:
        """Calls that this process granted itself while Redis was unreachable."""
        return self._granted_alone

    def came(self) -> None:
        """Record the arrival of a request that may be judged."""
        with self._lock:
            self._came += 1

    async def obtain(self, estimated_tokens: int, estimated_output: int) -> Reservation | float:
        """Do as a patient `take`, without blocking the event loop."""
        if not self._limited:
            return super().take(estimated_tokens, estimated_output, patient=True)
        wanted = self._room_request(estimated_tokens, estimated_output, patient=True)
        give_back = partial(self._give_back, wanted)
        return self._outcome(wanted, await self._line.asked([wanted.command], give_back))

    def take(
        self, estimated_tokens: int, estimated_output: int = 0, *, patient: bool = False
    ) -> Reservation | float:
        """Do as `JudgeBudget.take`. Waits at most 0.2 s for Redis, and not in the second after a failure."""
        if not self._limited:
            return super().take(estimated_tokens, estimated_output, patient=patient)
        wanted = self._room_request(estimated_tokens, estimated_output, patient=patient)
        return self._outcome(wanted, self._line.ask([wanted.command]))

    async def until_room(self, estimated_tokens: int, estimated_output: int) -> None:
        """Wait for the time that the budget returned last."""
        if not self._limited:
            await super().until_room(estimated_tokens, estimated_output)
            return
        await asyncio.sleep(self._wait)

    def settle(
        self, reservation: Reservation, input_tokens: int, output_tokens: int, cached_tokens: int = 0
    ) -> None:
        """Book a call's actual use, once. Does not wait."""
        if not self._limited:
            super().settle(reservation, input_tokens, output_tokens, cached_tokens)
            return
        if reservation.settled:
            return
        tokens = input_tokens + output_tokens
        cost = self.price(input_tokens, output_tokens, cached_tokens)
        booked: Command = ()
        with self._lock:
            self._cost += cost
            held, took = _billionths(reservation.held_cost), _billionths(cost)
            self._note(0, tokens - reservation.tokens, took - held, 0)
            if reservation.window:
                reservation.settled = True
                estimated = reservation.estimated_tokens
                booked = (_SCRIPT, 2, *self._keys, "settle", self._limit_for_good())
                booked += (reservation.window, self._known_spent, int(reservation.at), estimated)
                booked += (held, _billionths(reservation.estimated_cost), tokens, took)
                reservation.tokens, reservation.cost = tokens, cost
                if tokens:
                    self._remember(reservation)
        if booked:
            self._line.send([booked])  # unreachable: it remains booked at its estimate
        elif self._alone is not None:
            self._alone.settle(reservation, input_tokens, output_tokens, cached_tokens)

    def close(self) -> None:
        """Send open bookings, with a short timeout, and disconnect; the next use connects again."""
        self._line.close(_CLOSING_S)

    def _limit_for_good(self) -> int:
        return 0 if self.max_cost is None else max(1, _billionths(self.max_cost))

    def _room_request(self, estimated_tokens: int, estimated_output: int, *, patient: bool) -> _RoomRequest:
        """Return the request for a call's room."""
        tokens = estimated_tokens + estimated_output
        cost = self.price(estimated_tokens, estimated_output)
        with self._lock:
            held = cost * self._calibration()
            above = self._above()
            came, self._came = self._came, 0
            self._forget_old()
            mine = [max(0, number) for number in self._in_books]
            command: Command = (
                *(_SCRIPT, 2, *self._keys, "take", self._limit_for_good()),
                *(self._known_window, self._known_spent),
                *(self.calls_per_minute or 0, self.tokens_per_minute or 0),
                0 if self.cost_per_minute is None else max(1, _billionths(self.cost_per_minute)),
                *(tokens, _billionths(held), _billionths(cost)),
                *(above, max(_MOST_FAR, above + 1.0)),
                *(int(bool(self._cost_ratios)), int(patient), came, *mine),
            )
        return _RoomRequest(command, estimated_tokens, estimated_output, cost, held, came, patient)

    def _outcome(self, wanted: _RoomRequest, answers: Answers) -> Reservation | float:
        """Return the room granted by Redis, or by this process from its own share.

        Raises:
            JudgeError: There is no room.
        """
        try:
            answer: list[Any] = answers[0] if answers else []
            wait_ms, second, name, total, came = answer
            window, spent = str(name.decode()), int(total)
        except (TypeError, ValueError, AttributeError):  # unreachable, or another program's keys
            return self._taken_alone(wanted)
        self._share_settings()
        with self._lock:
            self._known_window = window
            self._known_spent = max(self._known_spent, spent)
            self._note(0, 0, 0, wanted.came)
            mine = self._in_books[_CAME]
            self._part = mine / max(came, mine) if mine > 0 else None
            if wait_ms == 0:
                reservation = Reservation(
                    second,
                    wanted.tokens,
                    wanted.held,
                    estimated_tokens=wanted.tokens,
                    estimated_cost=wanted.cost,
                    held_cost=wanted.held,
                    window=window,
                )
                self._note(1, wanted.tokens, _billionths(wanted.held), 0)
                return reservation
        self._wait = wait_ms / 1000
        if wanted.patient and wait_ms == _POLL_MS:
            return self._wait
        if wait_ms < 0 or self.when_exhausted == "skip":
            raise JudgeError("the judge's budget is used up", "budget", status="skipped")
        return self._wait

    def _give_back(self, wanted: _RoomRequest, answers: Answers) -> None:
        """Return room that was granted after the caller's timeout."""
        if answers is not None:
            with suppress(JudgeError):
                room = self._outcome(wanted, answers)
                if isinstance(room, Reservation):
                    self.settle(room, 0, 0)

    def _taken_alone(self, wanted: _RoomRequest) -> Reservation | float:
        # Requests that arrived meanwhile are never reported: all those of an outage at once would look like a
        # flood.
        alone = self._alone
        if alone is None:
            raise JudgeError("the shared budget cannot be asked", "budget", status="skipped")
        room = alone.take(wanted.input, wanted.output, patient=wanted.patient)
        if not isinstance(room, Reservation):
            self._wait = min(room, LEFT_ALONE_S)
            return self._wait
        with self._lock:
            self._granted_alone += 1
            self._note(1, room.tokens, _billionths(room.held_cost), 0)
        return room

    def _note(self, *numbers: int) -> None:
        """Update this process's own record: calls, tokens, billionths, requests."""
        self._forget_old()
        now = time.monotonic()
        if not self._books or self._books[-1].at + 1.0 < now:
            self._books.append(_Page(now, [0] * len(numbers)))
        page = self._books[-1].numbers
        for place, number in enumerate(numbers):
            page[place] += number
            self._in_books[place] += number

    def _forget_old(self) -> None:
        oldest = time.monotonic() - _REMEMBERED_S
        while self._books and self._books[0].at < oldest:
            for place, number in enumerate(self._books.popleft().numbers):
                self._in_books[place] -= number


class _Page(NamedTuple):
    """The bookings of a process within a second."""

    at: float
    numbers: list[int]


class _RoomRequest(NamedTuple):
    """A request for a call's room."""

    command: Command
    input: int
    output: int
    cost: float
    held: float
    came: int
    patient: bool

    @property
    def tokens(self) -> int:
        return self.input + self.output


def _times(limit: float | None, share: float, kind: type[int | float]) -> float | None:
    return None if limit is None else kind(limit * share)


def _billionths(money: float) -> int:
    return round(money * 1e9)
