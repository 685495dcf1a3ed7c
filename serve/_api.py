"""What the page shows, as JSON: ``/api/overview``, ``/api/requests``, ``/api/requests/{trace_id}``.

The same numbers from the same functions; ``/api/openapi.json`` describes every field.  Nothing here changes
anything.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cache
from typing import Any

from pydantic import TypeAdapter
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from ragmeter.quality.change import Change

from ._counts import Overload
from .store import (
    LONGEST_RANGE_S,
    Filters,
    JudgeOutage,
    Overview,
    Reader,
    RequestPage,
    RequestRow,
    RequestView,
    UnreadableStoreError,
)

__all__ = ["RANGES", "api_routes", "filters_of"]

RANGES: Mapping[str, float] = {
    "15m": 900.0,
    "1h": 3_600.0,
    "6h": 21_600.0,
    "24h": 86_400.0,
    "7d": 604_800.0,
}
"""Stretches of time by the names they have in addresses."""
DEFAULT_LIMIT = 50
_PATHS = ("/api/overview", "/api/requests", "/api/requests/{trace_id}")
_FILTERS = ("range", "since", "until", "service", "workflow", "segment")
_LIST = ("verdict", "sort", "limit", "cursor", "grouped")
_HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
_WORDS: Mapping[str, tuple[str, dict[str, Any]]] = {
    "range": (
        f"The last so much time: {', '.join(RANGES)}, or seconds. Default: 1h.",
        {"type": "string", "default": "1h"},
    ),
    "since": ("From this moment on, in milliseconds since the epoch; instead of `range`.", {"type": "integer"}),
    "until": ("Before this moment, likewise; default: now.", {"type": "integer"}),
    "service": ("Of this `service.name` alone.", {"type": "string"}),
    "workflow": ("Of this workflow alone; empty: of requests without one.", {"type": "string"}),
    "segment": (
        "Of this part alone, as `name:value`: `language:zh`, `metadata.tenant:acme`.",
        {"type": "string"},
    ),
    "verdict": ("With this verdict alone.", {"type": "string", "enum": ["good", "suspect", "bad"]}),
    "sort": (
        "`worst` (by verdict, then by how much worse than usual; the default), `newest`, or a score.",
        {"type": "string"},
    ),
    "limit": (
        "Requests on a page, 1 to 500. Default: 50.",
        {"type": "integer", "minimum": 1, "maximum": 500, "default": DEFAULT_LIMIT},
    ),
    "cursor": ("`next` of the page before.", {"type": "string"}),
    "grouped": (
        "true: several requests of one question are one line, for the worst of them. 1 and 0 are taken, too.",
        {"type": "boolean", "default": False},
    ),
    "span_id": (
        "Which request, where a trace has several; 16 hex digits. Default: the first.",
        {"type": "string"},
    ),
}  # fmt: skip


_OVERVIEW = TypeAdapter(Overview)
_PAGE = TypeAdapter(RequestPage)
_REQUEST = TypeAdapter(RequestView)
_CHANGE = TypeAdapter(Change)
_OVERLOAD = TypeAdapter(Overload)
_OUTAGE = TypeAdapter(JudgeOutage)


def filters_of(asked: Mapping[str, str]) -> Filters:
    """Return the filters that an address names.

    Args:
        asked: ``range``, ``since``, ``until``, ``service``, ``workflow``, ``segment``, ``verdict``.

    Raises:
        ValueError: One makes no sense; the message names it.
    """
    since, until = (_whole(asked, name) for name in ("since", "until"))
    if since is not None and until is not None and since >= until:
        raise ValueError("since is not before until")
    segment = asked.get("segment") or None
    if segment is not None and ":" not in segment:
        raise ValueError("segment is written name:value, for example language:zh")
    verdict = asked.get("verdict") or None
    if verdict not in (None, "good", "suspect", "bad"):
        raise ValueError("verdict is good, suspect or bad")
    return Filters(
        range_s=_seconds(asked.get("range") or "1h"),
        since_ms=since,
        until_ms=until,
        service=asked.get("service"),
        workflow=asked.get("workflow"),
        segment=segment,
        verdict=verdict,
    )


def api_routes(
    reader: Reader,
    changes: Callable[..., Sequence[Change]],
    overloads: Callable[[], Sequence[Overload]],
    guard: AbstractContextManager[None],
) -> list[Route]:
    """Return the routes of the API.

    Args:
        reader: Reads the store.
        changes: Returns what has changed in quality, as `RagMeter.changes`.
        overloads: Returns when senders were told to come again.
        guard: Contains errors of ours.
    """

    def explained(change: Change) -> Change:
        # What is past was explained when it was told, if it was.
        return change if change.new or change.kind == "recovered" else reader.explained(change)

    def overview(asked: Mapping[str, str], _: str) -> Any:
        _check(asked, _FILTERS)
        filters = filters_of(asked)
        said = _OVERVIEW.dump_python(reader.overview(filters), mode="json")
        from_ms = said["from_ms"]
        on = changes(on=True)
        told = [
            {**_CHANGE.dump_python(explained(change), mode="json"), "on": change in on}
            for change in changes(on=False)
            if filters.service in (None, change.service)
            and filters.workflow in (None, change.workflow)
            and filters.segment in (None, change.segment)
            and (change in on or change.at * 1000 >= from_ms)
        ]
        return {
            **said,
            "changes": told,
            "overloads": [
                _OVERLOAD.dump_python(one)
                for one in overloads()
                if one.until_ms >= from_ms and one.from_ms < said["until_ms"]
            ],
            "outages": [
                _OUTAGE.dump_python(one)
                for one in (reader.outages(filters) if said["judge"]["failed"] else ())
            ],
        }

    def requests(asked: Mapping[str, str], _: str) -> Any:
        _check(asked, _FILTERS + _LIST)
        limit = _whole(asked, "limit")
        page = reader.requests(
            filters_of(asked),
            sort=asked.get("sort") or "worst",
            limit=DEFAULT_LIMIT if limit is None else limit,
            cursor=asked.get("cursor") or None,
            grouped=_yes(asked, "grouped"),
        )
        # Written at once: as Python's values hundreds of requests take megabytes, and twice as long.
        return Response(_PAGE.dump_json(page), media_type="application/json", headers=_HEADERS)

    def request(asked: Mapping[str, str], key: str) -> Any:
        _check(asked, ("span_id",))
        span_id = asked.get("span_id") or None
        if span_id is not None and not _is_hex(span_id, 16):
            raise ValueError("span_id is 16 hex digits")
        found = reader.request(
            key.lower() if _is_trace_id(key) else key, span_id and span_id.lower()
        )
        if found is None:
            return None
        said = _REQUEST.dump_python(found, mode="json")
        row = said.pop("row")
        return {**row, **said}

    def endpoint(answer: Callable[[Mapping[str, str], str], Any]) -> Callable[[Request], Response]:
        def answered(asked: Request) -> Response:
            said: Any = None
            failed = True
            with guard:
                try:
                    said = answer(asked.query_params, asked.path_params.get("trace_id", ""))
                except ValueError as error:
                    return _error(400, str(error))
                except UnreadableStoreError:
                    return _error(503, "the store cannot be read just now; ask again")
                failed = False
            if failed:
                return _error(500, "an error of the server's")
            if said is None:
                return _error(404, "no such request, or not yet: scores arrive some seconds late")
            if isinstance(said, Response):
                return said
            return JSONResponse(said, headers=_HEADERS)

        return answered

    def described(_: Request) -> Response:
        return JSONResponse(_description(), headers=_HEADERS)

    handlers = [overview, requests, request]
    return [
        *(
            Route(path, endpoint(answer), methods=["GET"])
            for path, answer in zip(_PATHS, handlers, strict=True)
        ),
        Route("/api/openapi.json", described, methods=["GET"]),
        *(
            Route(path, _only_read, methods=["POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
            for path in (*_PATHS, "/api/openapi.json")
        ),
        Route("/api/{rest:path}", lambda _: _error(404, f"known are {', '.join(_PATHS)}")),
    ]


def _only_read(_: Request) -> Response:
    answer = _error(405, "nothing can be changed here: GET is answered, and nothing else")
    answer.headers["Allow"] = "GET, HEAD"
    return answer


def _check(asked: Mapping[str, str], known: Iterable[str]) -> None:
    names = list(known)
    unknown = sorted(set(asked) - set(names))
    if unknown:
        raise ValueError(f"unknown parameter {unknown[0][:40]!r}; known are {', '.join(names)}")


def _seconds(said: str) -> float:
    try:
        seconds = RANGES[said] if said in RANGES else float(said)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= LONGEST_RANGE_S:
        raise ValueError(f"range is one of {', '.join(RANGES)}, or seconds")
    return seconds


def _whole(asked: Mapping[str, str], name: str) -> int | None:
    said = asked.get(name)
    if not said:
        return None
    if not said.isascii() or not said.isdecimal() or len(said) > len(str(2**53)):
        raise ValueError(
            f"{name} is a whole number" + (" of milliseconds" if name != "limit" else "")
        )
    return int(said)


def _yes(asked: Mapping[str, str], name: str) -> bool:
    said = asked.get(name, "").lower()
    if said not in ("", "0", "false", "no", "1", "true", "yes"):
        raise ValueError(f"{name} is true or false")
    return said in ("1", "true", "yes")


def _is_trace_id(key: str) -> bool:
    return _is_hex(key, 32)


def _is_hex(text: str, digits: int) -> bool:
    return len(text) == digits and all(letter in "0123456789abcdefABCDEF" for letter in text)


def _error(status: int, why: str) -> Response:
    return JSONResponse({"error": why}, status_code=status, headers=_HEADERS)


@cache
def _description() -> Mapping[str, Any]:
    """Return the OpenAPI document."""
    kinds: list[type[Any]] = [
        Overview, RequestPage, RequestRow, RequestView, Change, Overload, JudgeOutage,
    ]  # fmt: skip
    names, schemas = TypeAdapter.json_schemas(
        [(kind.__name__, "serialization", TypeAdapter(kind)) for kind in kinds],
        ref_template="#/components/schemas/{model}",
    )
    components: dict[str, Any] = schemas["$defs"]
    del names
    whole = components["Overview"]
    whole["properties"]["changes"] = {
        "type": "array",
        "items": {"$ref": "#/components/schemas/Change"},
        "description": "What has changed in quality within that time, and what is still so, which comes first.",
    }
    whole["properties"]["overloads"] = {
        "type": "array",
        "items": {"$ref": "#/components/schemas/Overload"},
        "description": "When this server told senders within that time to come again, as there was no room.",
    }
    whole["properties"]["outages"] = {
        "type": "array",
        "items": {"$ref": "#/components/schemas/JudgeOutage"},
        "description": "When the judge failed within that time.",
    }
    components["Change"]["properties"]["on"] = {
        "type": "boolean",
        "description": "Whether it is still so.",
    }
    row, view = components["RequestRow"], components["RequestView"]
    properties = {**row["properties"], **view["properties"]}
    del properties["row"]
    components["Request"] = {
        "type": "object",
        "description": view.get("description", ""),
        "properties": properties,
    }
    del components["RequestView"]
    for schema in components.values():
        # Every field is in every answer, and no other is.
        schema["required"] = list(schema["properties"])
        schema["additionalProperties"] = False
        _in_the_words_of_json(schema)
    components["Error"] = {
        "type": "object",
        "properties": {"error": {"type": "string", "description": "What is wrong, in words."}},
        "required": ["error"],
    }
    answers = {
        "/api/overview": ("Overview", "Everything of a stretch of time at a glance.", _FILTERS),
        "/api/requests": ("RequestPage", "Requests, the worst first.", _FILTERS + _LIST),
        "/api/requests/{trace_id}": ("Request", "One request, whole.", ("span_id",)),
    }
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "ragmeter serve",
            "version": "1",
            "description": "Scored RAG requests. Times are milliseconds since the epoch, those of a change "
            "seconds; null is not known, never 0.",
        },
        "paths": {path: {"get": _operation(path, *answers[path])} for path in _PATHS},
        "components": {"schemas": components},
    }


def _in_the_words_of_json(schema: dict[str, Any]) -> None:
    schema.pop("title", None)
    for part in (schema, *schema["properties"].values()):
        part.pop("title", None)
        part.pop("default", None)
        if "description" in part:
            part["description"] = re.sub(r"\bNone\b", "null", part["description"])


def _operation(path: str, schema: str, summary: str, asked: Sequence[str]) -> Mapping[str, Any]:
    parameters: list[dict[str, Any]] = [
        {
            "name": name,
            "in": "query",
            "required": False,
            "description": _WORDS[name][0],
            "schema": _WORDS[name][1],
        }
        for name in asked
    ]
    codes = {
        "400": "A parameter makes no sense; the reason names it.",
        "401": "A token is needed.",
        "405": "Another method than GET.",
        "421": "It was meant for another host.",
        "500": "An error of the server's.",
        "503": "The store cannot be read just now; ask again.",
    }
    if "{" in path:
        parameters.insert(
            0,
            {
                "name": "trace_id",
                "in": "path",
                "required": True,
                "description": "Its trace id, 32 hex digits; or its own id, `run_id`.",
                "schema": {"type": "string"},
            },
        )
        codes["404"] = "It is not there, or not yet."
    return {
        "summary": summary,
        "parameters": parameters,
        "responses": {
            "200": _answer("As asked.", schema),
            **{code: _answer(words, "Error") for code, words in sorted(codes.items())},
        },
    }


def _answer(words: str, schema: str) -> Mapping[str, Any]:
    content = {"application/json": {"schema": {"$ref": f"#/components/schemas/{schema}"}}}
    return {"description": words, "content": content}
