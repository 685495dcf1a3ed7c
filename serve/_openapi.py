"""The OpenAPI document that describes the API, from which clients can be generated.

The API itself is in ``_api.py`` and ``_watch.py``. Addresses, parameters and error responses are in
``openapi.json``; the fields of results are added from their classes, with the docstrings as descriptions.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import ConfigDict, TypeAdapter

from ragmeter.adapters.opentelemetry.heard import HeardService
from ragmeter.quality.corpus.view import ChunkReport
from ragmeter.watch.change import Change

from ._counts import Overload
from .store import ShadowView
from .store.health_views import HealthView
from .store.views import (
    ConversationPage,
    FacetPage,
    GapPage,
    JudgeOutage,
    Overview,
    RequestPage,
    RequestRow,
    RequestView,
)

_WRITTEN: Mapping[str, Any] = json.loads(Path(__file__).with_name("openapi.json").read_bytes())
_PARAMETERS: Mapping[str, Any] = _WRITTEN["components"]["parameters"]

DEFAULT_LIMIT: int = _PARAMETERS["limit"]["schema"]["default"]
PATHS = tuple(path for path, how in _WRITTEN["paths"].items() if "get" in how)
"""The paths that can be read."""
SCORE_BOUND: str = _PARAMETERS["score"]["schema"]["items"]["pattern"]
_ANSWERS = (
    Overview, HealthView, HeardService, RequestPage, RequestRow, RequestView, FacetPage, Change, Overload,
    JudgeOutage, ConversationPage, GapPage, ChunkReport, ShadowView,
)  # fmt: skip

_DESCRIBED = ConfigDict(use_attribute_docstrings=True)
"""Only here: to find the docstrings, sources are read and parsed."""


@cache
def parameters_of(path: str) -> Mapping[str, Mapping[str, Any]]:
    """Return the schemas of a path's query parameters, by name."""
    asked = _resolve(_WRITTEN["paths"][path]["get"]["parameters"])
    return {one["name"]: one["schema"] for one in asked if one["in"] == "query"}


@cache
def description() -> Mapping[str, Any]:
    """Return the OpenAPI document."""
    _, answers = TypeAdapter.json_schemas(
        [
            (kind.__name__, "serialization", TypeAdapter(list[kind], config=_DESCRIBED))  # type: ignore[valid-type]
            for kind in _ANSWERS
        ],
        ref_template="#/components/schemas/{model}",
    )
    schemas: dict[str, Any] = answers["$defs"]
    schemas["Overview"]["properties"] |= schemas.pop("HealthView")["properties"]
    request = schemas["Request"] = schemas.pop("RequestView")
    del request["properties"]["row"]
    request["properties"] = {**schemas["RequestRow"]["properties"], **request["properties"]}
    components = _WRITTEN["components"]
    schemas = _merge(schemas, components["schemas"])
    for schema in schemas.values():
        # Every answer has every field, and no others.
        schema["required"] = list(schema["properties"])
        schema["additionalProperties"] = False
        _in_the_words_of_json(schema)
    ways = {"schemas": schemas, "securitySchemes": components["securitySchemes"]}
    return {**_WRITTEN, "paths": _resolve(_WRITTEN["paths"]), "components": ways}


def _merge(one: Any, other: Any) -> Any:
    """Return an object extended and overridden by another one."""
    if not isinstance(one, dict) or not isinstance(other, dict):
        return other
    return {**one, **{key: _merge(one.get(key), value) for key, value in other.items()}}


def _resolve(node: Any) -> Any:
    """Return a part of the document with its references replaced, except those to schemas."""
    if isinstance(node, list):
        return [_resolve(one) for one in node]
    if not isinstance(node, dict):
        return node
    _, _, kind, name = f"{node.get('$ref', '')}///".split("/")[:4]
    if kind in ("parameters", "responses"):
        return _WRITTEN["components"][kind][name]
    return {key: _resolve(value) for key, value in node.items()}


def _in_the_words_of_json(schema: dict[str, Any]) -> None:
    schema.pop("title", None)
    for part in (schema, *schema["properties"].values()):
        part.pop("title", None)
        part.pop("default", None)
        if "description" in part:
            part["description"] = re.sub(r"\bNone\b", "null", part["description"])
