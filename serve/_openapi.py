"""The description of the API, of which a client can be made: an OpenAPI document, made of the values.

What is answered and how is ``_api.py``'s and ``_watch.py``'s; each parameter, field and refusal stands here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from pydantic import TypeAdapter

from ragmeter.adapters.opentelemetry.reporter import HeardService
from ragmeter.metrics import VERDICT_CODES
from ragmeter.quality.corpus.view import ChunkReport
from ragmeter.watch.change import Change

from ._counts import Overload
from .store import (
    LATEST_MS,
    LONGEST_RANGE_S,
    MOST_CHARACTERS,
    ConversationPage,
    FacetPage,
    GapPage,
    HealthView,
    JudgeOutage,
    Overview,
    RequestPage,
    RequestRow,
    RequestView,
)

__all__ = [
    "DEFAULT_LIMIT",
    "FILTERS",
    "LANES",
    "LIST",
    "MAY_BE_EMPTY",
    "NARROWING",
    "PATHS",
    "RANGES",
    "REPEATED",
    "SCORE_BOUND",
    "TURNS",
    "description",
]

RANGES: Mapping[str, float] = {
    "15m": 900.0,
    "1h": 3_600.0,
    "6h": 21_600.0,
    "24h": 86_400.0,
    "7d": 604_800.0,
}
"""Stretches of time by the names they have in addresses."""
DEFAULT_LIMIT = 50
PATHS = (
    "/api/overview",
    "/api/requests",
    "/api/requests/{trace_id}",
    "/api/facets",
    "/api/conversations",
    "/api/gaps",
    "/api/chunks",
)
"""What can be read."""
FILTERS = ("range", "since", "until", "service", "workflow", "segment")
NARROWING = ("verdict", "reason", "score", "q", "question", "conversation_id", "gap")
LIST = (*NARROWING, "sort", "limit", "cursor", "grouped")
REPEATED = ("segment", "score")
"""What may be given several times where a list is asked for: all of it must hold."""
LANES = ("by",)
TURNS = ("limit", "conversation_id", "asked_again")
MAY_BE_EMPTY = ("service", "workflow")
"""Parameters of which an empty value says something."""
SCORE_BOUND = r"^[^<>=]{1,256}(>=|<=)-?[0-9]{1,15}(\.[0-9]{1,15})?$"
_VERDICTS = ("good", "suspect", "bad")
_DIRECTIONS = ("higher", "lower", "none")
_ENUMS = (
    ("RequestRow", "verdict", _VERDICTS),
    ("Request", "verdict", _VERDICTS),
    ("ConversationView", "verdict", _VERDICTS),
    ("TurnView", "verdict", _VERDICTS),
    ("ScoreSummary", "direction", _DIRECTIONS),
    ("ScoreView", "direction", _DIRECTIONS),
    ("ComparisonView", "effect", ("worse", "better", "none")),
    ("SignalView", "name", ("support", "relevance", "refusals", "nothing_found")),
)
"""Fields that are one of a few words."""
_MOMENT = {"type": "integer", "minimum": 0, "maximum": LATEST_MS}
_WORDS: Mapping[str, tuple[str, dict[str, Any]]] = {
    "range": (
        f"The last so much time before `until`: {', '.join(RANGES)}, or seconds. Default: 1h.",
        {
            "anyOf": [
                {"type": "string", "enum": list(RANGES)},
                {"type": "number", "exclusiveMinimum": 0, "maximum": LONGEST_RANGE_S},
            ],
            "default": "1h",
        },
    ),
    "since": ("From this moment on, in milliseconds since the epoch; instead of `range`.", _MOMENT),
    "until": (
        (
            "Before this moment, likewise, and after `since`; default: now. At most 366 days before it "
            "are looked at."
        ),
        _MOMENT,
    ),
    "service": (
        "Of this `service.name` alone; empty: of requests of which none is told.",
        {"type": "string"},
    ),
    "workflow": ("Of this workflow alone; empty: of requests without one.", {"type": "string"}),
    "segment": (
        "Of this part alone, as `name:value`: `language:zh`, `metadata.tenant:acme`.",
        {"type": "string", "pattern": ":"},
    ),
    "verdict": ("With this verdict alone.", {"type": "string", "enum": list(_VERDICTS)}),
    "reason": (
        "With this code among those of its verdict, as `unsupported_answer`.",
        {"type": "string", "enum": list(VERDICT_CODES)},
    ),
    "score": (
        "With a score within a bound, as `support>=0.3` or `context_tokens<=900`; may be repeated.",
        {"type": "string", "pattern": SCORE_BOUND, "maxLength": 300},
    ),
    "q": (
        (
            "With these words, or their beginnings, in question, answer or chunks; between quotation marks "
            "they stand together. Refused where the server keeps no texts."
        ),
        {"type": "string", "minLength": 1, "maxLength": MOST_CHARACTERS},
    ),
    "gap": (
        "Of the knowledge gap with this `id`: its requests that went badly within the last 14 days.",
        {"type": "string", "pattern": "^[0-9a-f]{8}$"},
    ),
    "question": (
        "Of this question alone: `QuestionView.key`, 16 hex digits.",
        {"type": "string", "pattern": "^[0-9a-f]{16}$"},
    ),
    "by": (
        (
            "What lanes are of: `service`, `workflow`, or the name of a segment. Default: services, and of one "
            "service its workflows."
        ),
        {"type": "string", "minLength": 1},
    ),
    "sort": (
        (
            "`worst` (by verdict, then by how much worse than usual; the default), `question` (a line for each "
            "question of a service, those of which most are surely bad first), `newest`, or a score."
        ),
        {"type": "string", "minLength": 1},
    ),
    "limit": (
        "Requests, or conversations, on a page, 1 to 500. Default: 50.",
        {"type": "integer", "minimum": 1, "maximum": 500, "default": DEFAULT_LIMIT},
    ),
    "cursor": ("`next` of the page before.", {"type": "string", "minLength": 1}),
    "grouped": (
        "true: several requests of one question are one line, for the worst of them. 1 and 0 are taken, too.",
        {"anyOf": [{"type": "boolean"}, {"type": "integer", "enum": [0, 1]}], "default": False},
    ),
    "conversation_id": (
        "This conversation alone, by the id that the application gave it.",
        {"type": "string", "minLength": 1},
    ),
    "asked_again": (
        "Whether turns that ask the one before again are looked for, by phrases. Default: false.",
        {"anyOf": [{"type": "boolean"}, {"type": "integer", "enum": [0, 1]}], "default": False},
    ),
    "span_id": (
        "Which request, where a trace has several; 16 hex digits. Default: the first.",
        {"type": "string", "pattern": "^[0-9a-fA-F]{16}$"},
    ),
}  # fmt: skip

_ALWAYS = {
    "401": "A token is needed.",
    "405": "Another method than this.",
    "421": "It was meant for another host.",
    "500": "An error of the server's.",
}
"""What every address may answer."""
_SAID_BESIDE = {
    "401": ("WWW-Authenticate", "`Bearer`."),
    "405": ("Allow", "The methods that there are."),
    "503": ("Retry-After", "Seconds until it is worth asking again."),
}
"""What stands in a header, by status."""
_IDS: Mapping[str, str] = dict(
    zip(
        PATHS,
        ("overview", "requests", "request", "facets", "conversations", "gaps", "chunks"),
        strict=True,
    )
)
"""What clients call them."""
_ACTIONS = {
    "/api/marks": (
        "mark",
        "Note a deployment: what is usual is learned anew, of one service or of all.",
        ("service",),
    ),
    "/api/changes/accept": (
        "accept",
        "What is now is usual from now on: of what is named, each of which may be left out.",
        ("score", "workflow", "segment", "service"),
    ),
}


@cache
def description() -> Mapping[str, Any]:
    """Return the OpenAPI document."""
    kinds: list[type[Any]] = [
        Overview, HealthView, HeardService, RequestPage, RequestRow, RequestView, FacetPage, Change, Overload,
        JudgeOutage, ConversationPage, GapPage, ChunkReport,
    ]  # fmt: skip
    names, schemas = TypeAdapter.json_schemas(
        [(kind.__name__, "serialization", TypeAdapter(kind)) for kind in kinds],
        ref_template="#/components/schemas/{model}",
    )
    components: dict[str, Any] = schemas["$defs"]
    del names
    whole = components["Overview"]
    whole["properties"] |= components.pop("HealthView")["properties"]
    whole["properties"]["heard"] = {
        "type": "array",
        "items": {"$ref": "#/components/schemas/HeardService"},
        "description": "What came of each service since this server began, those without any score first.",
    }
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
    properties["verdict_rate"] = {
        "anyOf": [{"$ref": "#/components/schemas/VerdictRate"}, {"type": "null"}],
        "description": "What people of this application make of its word; null below 50 drawn labels.",
    }
    share = {"type": "number", "minimum": 0, "maximum": 1}
    components["VerdictRate"] = {
        "type": "object",
        "description": "Of labelled requests with a word, the share that people call bad; 95 % interval.",
        "properties": {
            "word": {"type": "string", "enum": list(_VERDICTS), "description": "The word."},
            "share": {**share, "description": "The share."},
            "lower": {**share, "description": "The interval's lower end."},
            "upper": {**share, "description": "The interval's upper end."},
            "n": {"type": "integer", "minimum": 1, "description": "Labelled requests with it."},
        },
    }
    components["Request"] = {
        "type": "object",
        "description": view.get("description", ""),
        "properties": properties,
    }
    del components["RequestView"]
    for kind, name, allowed in _ENUMS:
        said = components[kind]["properties"][name]
        said.get("anyOf", [said])[0]["enum"] = list(allowed)
    for schema in components.values():
        # Every field is in every answer, and no other is.
        schema["required"] = list(schema["properties"])
        schema["additionalProperties"] = False
        _in_the_words_of_json(schema)
    components["Error"] = {
        "type": "object",
        "properties": {"error": {"type": "string", "description": "What is wrong, in words."}},
        "required": ["error"],
        "additionalProperties": False,
    }
    components["Done"] = {
        "type": "object",
        "properties": {
            "series": {"type": "integer", "minimum": 0, "description": "How many series it is of."}
        },
        "required": ["series"],
        "additionalProperties": False,
    }
    answers = {
        "/api/overview": (
            "Overview",
            "Everything of a stretch of time at a glance.",
            FILTERS + LANES,
        ),
        "/api/requests": ("RequestPage", "Requests, the worst first.", FILTERS + LIST),
        "/api/requests/{trace_id}": ("Request", "One request, whole.", ("span_id",)),
        "/api/facets": (
            "FacetPage",
            "What a list of requests can be narrowed to, each value counted under all other filters.",
            FILTERS + NARROWING,
        ),
        "/api/conversations": (
            "ConversationPage",
            "Conversations with their turns in order, those that went badly first.",
            FILTERS + TURNS,
        ),
        "/api/gaps": (
            "GapPage",
            "Topics whose requests go badly, of the last 14 days if not asked.",
            FILTERS,
        ),
        "/api/chunks": (
            "ChunkReport",
            "Chunks to look at, of those that the newest 5,000 requests got.",
            FILTERS,
        ),
    }
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "ragmeter serve",
            "version": "1",
            "description": "Scored RAG requests. Times are milliseconds since the epoch, seconds in a change, "
            "a gap and a chunk; null is not known, never 0. HEAD is answered as GET, without a body. No "
            "answer is to be kept. A parameter that is not described, or is given twice, is refused.",
        },
        "security": [{"token": []}, {"cookie": []}, {}],
        "paths": {
            **{path: {"get": _operation(path, *answers[path])} for path in PATHS},
            **{path: {"post": _action(*said)} for path, said in _ACTIONS.items()},
        },
        "components": {
            "schemas": components,
            "securitySchemes": {
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "The token of the server; on this machine alone there may be none.",
                },
                "cookie": {
                    "type": "apiKey",
                    "in": "cookie",
                    "name": "ragmeter_token",
                    "description": "The same, as a browser has it.",
                },
            },
        },
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
            "schema": {"type": "array", "items": _WORDS[name][1]}
            if name in REPEATED and "verdict" in asked
            else _WORDS[name][1],
        }
        for name in asked
    ]
    codes = {
        **_ALWAYS,
        "400": "A parameter makes no sense; the reason names it.",
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
        "operationId": _IDS[path],
        "summary": summary,
        "parameters": parameters,
        "responses": {
            "200": _answer("As asked.", schema),
            **{code: _answer(words, "Error", code) for code, words in sorted(codes.items())},
        },
    }


def _action(name: str, summary: str, allowed: Sequence[str]) -> Mapping[str, Any]:
    codes = {
        **_ALWAYS,
        "400": "The body is no such object.",
        "403": "A web page of elsewhere asked for it.",
        "409": "There is nothing that it can be said of; the reason says why.",
        "413": "The body is too long.",
        "415": "The body is not application/json.",
    }
    schema = {
        "type": "object",
        "properties": {each: {"type": ["string", "null"]} for each in allowed},
        "additionalProperties": False,
    }
    return {
        "operationId": name,
        "summary": summary,
        "requestBody": {"required": True, "content": {"application/json": {"schema": schema}}},
        "responses": {
            "200": _answer("Done.", "Done"),
            **{code: _answer(words, "Error", code) for code, words in sorted(codes.items())},
        },
    }


def _answer(words: str, schema: str, code: str = "200") -> Mapping[str, Any]:
    content = {"application/json": {"schema": {"$ref": f"#/components/schemas/{schema}"}}}
    said: dict[str, Any] = {"description": words, "content": content}
    if code in _SAID_BESIDE:
        name, why = _SAID_BESIDE[code]
        said["headers"] = {name: {"description": why, "schema": {"type": "string"}}}
    return said
