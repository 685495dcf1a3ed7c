"""The page's data as JSON: ``/api/overview``, ``/api/requests``, ``/api/conversations`` and so on.

The same numbers from the same functions; ``/api/openapi.json`` (`_openapi.py`) describes every field. All of
it is read-only.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cache
from typing import Any

from pydantic import TypeAdapter
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from ragmeter.adapters.opentelemetry.heard import HeardService
from ragmeter.metrics import VERDICT_CODES
from ragmeter.quality.corpus.view import ChunkReport
from ragmeter.quality.verdict_rates import VerdictRate
from ragmeter.watch.change import Change

from ._counts import Overload
from ._limits import RETRY_AFTER_S
from ._openapi import DEFAULT_LIMIT, PATHS, SCORE_BOUND, description, parameters_of
from .page import RANGES
from .store import (
    GAPS_RANGE_S,
    LATEST_MS,
    LONGEST_RANGE_S,
    MOST_CHARACTERS,
    Reader,
    ShadowView,
    UnreadableStoreError,
)
from .store.health_views import HealthView
from .store.views import (
    ConversationPage,
    FacetPage,
    Filters,
    GapPage,
    JudgeOutage,
    Overview,
    RequestPage,
    RequestView,
)

_NUMBER = re.compile(r"[0-9]{1,8}(\.[0-9]{1,9})?")
_HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}


# Created when first used: creating all of them at the start would take a quarter of it.
_adapter = cache(TypeAdapter)


def filters_of(asked: Mapping[str, str]) -> Filters:
    """Return the filters in a query string.

    Raises:
        ValueError: A parameter is invalid; the message names it.
    """
    since, until = (_whole(asked, name) for name in ("since", "until"))
    if since is not None and until is not None and since >= until:
        raise ValueError("since is not before until")
    segments = _all(asked, "segment")
    if any(":" not in one for one in segments):
        raise ValueError("segment is written name:value, for example language:zh")
    verdict = asked.get("verdict")
    if verdict not in (None, "good", "suspect", "bad"):
        raise ValueError("verdict is good, suspect or bad")
    reason = asked.get("reason")
    if reason not in (None, *VERDICT_CODES):
        raise ValueError(f"reason is one of {', '.join(VERDICT_CODES)}")
    search = asked.get("q")
    if search is not None and len(search) > MOST_CHARACTERS:
        raise ValueError(f"q has at most {MOST_CHARACTERS} characters")
    gap = asked.get("gap")
    if gap is not None and not re.fullmatch("[0-9a-f]{8}", gap):
        raise ValueError("gap is the id of a knowledge gap, 8 hex digits")
    question = asked.get("question")
    if question is not None and not re.fullmatch("[0-9a-f]{16}", question):
        raise ValueError("question is 16 hex digits")
    return Filters(
        range_s=_seconds(asked.get("range", "1h")),
        since_ms=since,
        until_ms=until,
        service=asked.get("service"),
        workflow=asked.get("workflow"),
        segment=segments[0] if segments else None,
        segments=tuple(segments[1:]),
        verdict=verdict,
        reason=reason,
        scores=tuple(_bound(one) for one in _all(asked, "score")),
        search=search,
        conversation_id=asked.get("conversation_id"),
        gap=gap,
        question=question,
    )


def _all(asked: Mapping[str, str], name: str) -> Sequence[str]:
    """Return every value given for a query parameter."""
    if isinstance(asked, QueryParams):
        return asked.getlist(name)
    return [asked[name]] if name in asked else []


def _bound(said: str) -> tuple[str, str, float]:
    if not re.fullmatch(SCORE_BOUND, said):
        raise ValueError("score is written name>=value or name<=value, as lexical_groundedness>=0.3")
    name, sign, value = re.split("(>=|<=)", said)
    return name, sign, float(value)


def _json(kind: type, value: object) -> Response:
    # Serialised directly: as Python objects, hundreds of requests take megabytes, and twice the time.
    return Response(_adapter(kind).dump_json(value), media_type="application/json", headers=_HEADERS)


def api_routes(
    reader: Reader,
    changes: Callable[..., Sequence[Change]],
    overloads: Callable[[], Sequence[Overload]],
    guard: AbstractContextManager[None],
    rate: Callable[[str | None], VerdictRate | None] = lambda _: None,
    heard: Callable[[], Sequence[HeardService]] = tuple,
) -> list[Route]:
    """Return the routes of the API."""

    def explain_change(change: Change) -> Change:
        # A past change was explained when it was reported, if at all.
        return change if change.new or change.kind in ("recovered", "version") else reader.explained(change)

    def overview(asked: QueryParams, _: str) -> Any:
        filters = filters_of(asked)
        said = _adapter(Overview).dump_python(reader.overview(filters), mode="json")
        said |= _adapter(HealthView).dump_python(reader.health(filters, by=asked.get("by", "")), mode="json")
        from_ms = said["from_ms"]
        on = changes(on=True)
        listed = [
            {**_adapter(Change).dump_python(explain_change(change), mode="json"), "on": change in on}
            for change in changes(on=False)
            if filters.service in (None, change.service)
            and filters.workflow in (None, change.workflow)
            and filters.segment in (None, change.segment)
            and (change in on or change.at * 1000 >= from_ms)
        ]
        return {
            **said,
            "changes": listed,
            "shadows": [_adapter(ShadowView).dump_python(one) for one in reader.shadows(filters.service)],
            "heard": [
                _adapter(HeardService).dump_python(one)
                for one in heard()
                if filters.service in (None, one.service)
            ],
            "overloads": [
                _adapter(Overload).dump_python(one)
                for one in overloads()
                if one.until_ms >= from_ms and one.from_ms < said["until_ms"]
            ],
            "outages": [
                _adapter(JudgeOutage).dump_python(one)
                for one in (reader.outages(filters) if said["judge"]["failed"] else ())
            ],
        }

    def requests(asked: QueryParams, _: str) -> Any:
        limit = _whole(asked, "limit")
        page = reader.requests(
            filters_of(asked),
            sort=asked.get("sort", "worst"),
            limit=DEFAULT_LIMIT if limit is None else limit,
            cursor=asked.get("cursor"),
            grouped=_yes(asked, "grouped"),
        )
        return _json(RequestPage, page)

    def request(asked: QueryParams, key: str) -> Any:
        span_id = asked.get("span_id")
        if span_id is not None and not re.fullmatch("[0-9a-fA-F]{16}", span_id):
            raise ValueError("span_id is 16 hex digits")
        is_trace_id = re.fullmatch("[0-9a-fA-F]{32}", key)
        found = reader.request(key.lower() if is_trace_id else key, span_id and span_id.lower())
        if found is None:
            return None
        said = _adapter(RequestView).dump_python(found, mode="json")
        row = said.pop("row")
        known = rate(row["verdict"])
        return {**row, **said, "verdict_rate": None if known is None else known._asdict()}

    def facets(asked: QueryParams, _: str) -> Any:
        return _json(FacetPage, reader.facets(filters_of(asked)))

    def conversations(asked: QueryParams, _: str) -> Any:
        limit = _whole(asked, "limit")
        page = reader.conversations(
            filters_of(asked),
            limit=DEFAULT_LIMIT if limit is None else limit,
            conversation_id=asked.get("conversation_id"),
            asked_again=_yes(asked, "asked_again"),
        )
        return _json(ConversationPage, page)

    def gaps(asked: QueryParams, _: str) -> Any:
        return _json(GapPage, reader.gaps(filters_of({"range": str(GAPS_RANGE_S), **asked})))

    def endpoint(path: str, answer: Callable[[QueryParams, str], Any]) -> Callable[[Request], Response]:
        def respond(asked: Request) -> Response:
            with guard:
                try:
                    _check(asked.query_params, parameters_of(path))
                    said = answer(asked.query_params, asked.path_params.get("trace_id", ""))
                except ValueError as error:
                    return error_response(400, str(error))
                except UnreadableStoreError:
                    return error_response(
                        503, "the store cannot be read just now; ask again",
                        {"Retry-After": str(RETRY_AFTER_S)},
                    )  # fmt: skip
                if said is None:
                    return error_response(404, "no such request, or not yet: scores arrive some seconds late")
                if isinstance(said, Response):
                    return said
                return JSONResponse(said, headers=_HEADERS)
            return error_response(500, "an error of the server's")

        return respond

    def describe(_: Request) -> Response:
        return JSONResponse(description(), headers=_HEADERS)

    def chunks(asked: QueryParams, _: str) -> Any:
        return _json(ChunkReport, reader.chunks(filters_of({"range": str(GAPS_RANGE_S), **asked})))

    handlers = [overview, requests, request, facets, conversations, gaps, chunks]
    return [
        *(
            Route(path, endpoint(path, answer), methods=["GET"])
            for path, answer in zip(PATHS, handlers, strict=True)
        ),
        Route("/api/openapi.json", describe, methods=["GET"]),
        *(Route(path, NoSuchMethod("GET", "HEAD")) for path in (*PATHS, "/api/openapi.json")),
        Route("/api", _Unknown()),
        Route("/api/{rest:path}", _Unknown()),
    ]


class NoSuchMethod:
    """The answer of an address to every method that it does not support, including unknown ones."""

    def __init__(self, *allowed: str) -> None:
        self._allowed = allowed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the answer."""
        why = f"{self._allowed[0]} is answered here, and nothing else; the page is at /"
        answer = error_response(405, why, {"Allow": ", ".join(self._allowed)})
        await answer(scope, receive, send)


class _Unknown:
    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        known = ", ".join((*description()["paths"], "/api/openapi.json"))
        await error_response(404, f"known are {known}")(scope, receive, send)


def _check(asked: QueryParams, known: Mapping[str, Mapping[str, Any]]) -> None:
    given = [name for name, _ in asked.multi_items()]
    for name, schema in known.items():
        if given.count(name) > 1 and schema.get("type") != "array":
            raise ValueError(f"{name} is given {given.count(name)} times")
        # For these two, an empty value selects requests without a name.
        if name not in ("service", "workflow") and asked.get(name) == "":
            raise ValueError(f"{name} is empty; leave it out")
    unknown = sorted(set(asked) - set(known))
    if unknown:
        raise ValueError(f"unknown parameter {unknown[0][:40]!r}; known are {', '.join(known)}")


def _seconds(said: str) -> float:
    seconds = RANGES.get(said, 0.0)
    if _NUMBER.fullmatch(said):
        seconds = float(said)
    if not 0 < seconds <= LONGEST_RANGE_S:
        raise ValueError(f"range is one of {', '.join(RANGES)}, or seconds")
    return seconds


def _whole(asked: Mapping[str, str], name: str) -> int | None:
    said = asked.get(name)
    if said is None:
        return None
    if not said.isascii() or not said.isdecimal() or len(said) > len(str(2**53)):
        raise ValueError(f"{name} is a whole number" + (" of milliseconds" if name != "limit" else ""))
    if name != "limit" and int(said) > LATEST_MS:
        raise ValueError(f"{name} is beyond the year 9999, {LATEST_MS}")
    return int(said)


def _yes(asked: Mapping[str, str], name: str) -> bool:
    said = asked.get(name, "0").lower()
    if said not in ("0", "false", "1", "true"):
        raise ValueError(f"{name} is true or false")
    return said in ("1", "true")


def error_response(status: int, why: str, headers: Mapping[str, str] | None = None) -> Response:
    """Return the answer to a request that failed, with the reason."""
    return JSONResponse({"error": why}, status, headers={**_HEADERS, **(headers or {})})
