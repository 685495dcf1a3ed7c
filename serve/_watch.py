"""Additions to the meter's watch over quality: scores from elsewhere, and people's notes about changes.

Applications with a callback of ragmeter's send their own scores, which the server's meter never gets:
`ScoredElsewhere` reads them from the store, so that one watch covers everything. ``POST /api/marks`` records
a deployment, ``POST /api/changes/accept`` accepts the current state as usual, ``POST /api/gaps/state`` sets
the state of a knowledge gap, each with a JSON object of names. Access is checked before, for the whole port.
The meter itself reports changes.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from ragmeter import RagMeter
from ragmeter.metrics import ConfigurationError
from ragmeter.quality.sums import SlotSums
from ragmeter.quality.sums_by_time import SLOT_S
from ragmeter.watch.alarming import Alarming
from ragmeter.watch.baseline import LEAST_SCORES
from ragmeter.watch.change import Change

from ._api import NoSuchMethod, error_response
from ._limits import RETRY_AFTER_S
from .page import Standing
from .store import Reader, Store, StoreFullError, resource_of

MAX_BYTES = 16_384
"""Most bytes of a body, which has a few names."""


SELF_REPORTING_S = 86_400.0
"""Seconds after the last request of an application that reports changes itself, until the server does
instead."""
MAX_SELF_REPORTING = 1_000
"""Most remembered services that do so; for others, people are notified twice rather than never."""


class ScoredElsewhere:
    """Scores from elsewhere in the store: a `ragmeter.watch.alarming.Elsewhere`.

    Args:
        reader: Reads the store.
        clock: The store's clock, seconds since the epoch.
    """

    def __init__(self, reader: Reader, clock: Callable[[], float] = time.time) -> None:
        self._reader = reader
        self._clock = clock
        self._self_reporting: dict[_Resource, float] = {}

    def slots(self, since: float, until: float) -> Iterator[tuple[float, Sequence[SlotSums]]]:
        """Yield the counts of each five minutes, oldest first."""
        for slot in self._reader.received(since, until):
            for service, environment in slot.self_reporting:
                key = _key_of(resource_of(service, environment))
                if key in self._self_reporting or len(self._self_reporting) < MAX_SELF_REPORTING:
                    self._self_reporting[key] = slot.at
            yield slot.at, slot.sums

    def complete(self) -> float:
        """Return the time up to which data counts as complete, with five minutes for late data."""
        return (self._clock() // SLOT_S - 1) * SLOT_S

    def explained(self, change: Change) -> Change:
        """Return the change with the values that are new since then, from the store.

        Raises:
            UnreadableStoreError: The store cannot be read at the moment; the change is reported without them.
        """
        return self._reader.explained(change)

    def notifies_itself(self, resource: Mapping[str, str]) -> bool:
        """Return whether an application reports its own changes, so that people are notified once."""
        last = self._self_reporting.get(_key_of(resource))
        return last is not None and last >= self._clock() - SELF_REPORTING_S


_Resource = tuple[tuple[str, str], ...]
_Done = dict[str, int | str]


def _key_of(resource: Mapping[str, str]) -> _Resource:
    return tuple(sorted(resource.items()))


def watch_routes(meter: RagMeter, guard: AbstractContextManager[None], store: Store | None) -> list[Route]:
    """Return the routes for people's notes."""

    def mark(names: Mapping[str, str]) -> _Done:
        return {"series": meter.watch.mark(**names)}

    def accept(names: Mapping[str, str]) -> _Done:
        return {"series": meter.watch.accept(**names)}

    def decide(names: Mapping[str, str]) -> _Done:
        if store is None:
            raise ConfigurationError("this server keeps no requests, so it lists no gaps")
        state = names.get("state", "")
        store.decide_gap(names.get("gap", ""), state)
        return {"state": state}

    acts: dict[str, tuple[Callable[[Mapping[str, str]], _Done], tuple[str, ...]]] = {
        "/api/marks": (mark, ("service",)),
        "/api/changes/accept": (accept, ("score", "workflow", "segment", "service")),
        "/api/gaps/state": (decide, ("gap", "state")),
    }
    return [
        *(Route(path, _endpoint(*act, guard), methods=["POST"]) for path, act in acts.items()),
        *(Route(path, NoSuchMethod("POST")) for path in acts),
    ]


def changes_of(alarming: Alarming | None) -> Callable[..., Sequence[Change]]:
    """Return the function that lists the changes of a meter's scores, or None if it does not watch."""
    return (lambda **_: ()) if alarming is None else alarming.watch.changes


def standing_of(alarming: Alarming | None) -> Standing:
    """Return the state of the detectors, for the page's first sentence."""
    series = () if alarming is None else alarming.watch.series()
    watched = [one for one in series if one.status != "learning"]
    known = max((one.scores for one in series), default=0)
    return Standing(
        len(watched),
        None if watched else (min(known, LEAST_SCORES), LEAST_SCORES),
        sum(one.baseline is None for one in watched),
    )


def _endpoint(
    act: Callable[[Mapping[str, str]], _Done], allowed: tuple[str, ...], guard: AbstractContextManager[None]
) -> Callable[[Request], Awaitable[Response]]:
    def run_guarded(names: Mapping[str, str]) -> Response:
        with guard:
            try:
                return JSONResponse(act(names))
            except ConfigurationError as error:
                return error_response(409, str(error))
            except ValueError as error:
                return error_response(400, str(error))
            except StoreFullError as error:
                return error_response(503, str(error), {"Retry-After": str(RETRY_AFTER_S)})
        return error_response(500, "an error of the server's")

    async def answer(request: Request) -> Response:
        media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if media_type != "application/json":
            # A form of another site cannot send this.
            return error_response(415, "Content-Type must be application/json")
        body = b""
        async for part in request.stream():
            body += part
            if len(body) > MAX_BYTES:
                return error_response(413, f"more than {MAX_BYTES} bytes")
        names = _names(body, allowed)
        if names is None:
            words = ", ".join(allowed)
            return error_response(400, f"a JSON object is expected, with texts under any of: {words}")
        return await asyncio.get_running_loop().run_in_executor(None, run_guarded, names)

    return answer


def _names(body: bytes, allowed: tuple[str, ...]) -> dict[str, str] | None:
    """Return the names in a body, or None if it is not such an object."""
    try:
        read: Any = json.loads(body or b"{}")
    except (ValueError, RecursionError):
        return None
    if not isinstance(read, dict):
        return None
    given = {name: value for name, value in read.items() if value is not None}
    if not all(name in allowed for name in read):
        return None
    return given if all(isinstance(value, str) for value in given.values()) else None
