"""The source that a retrieval searched, from its span or that of a store's client below it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from ragmeter.adapters.reading.values import mapping_of

_CONVENTIONAL = ("gen_ai.data_source.id", "db.collection.name")
_OTHERS = re.compile(r"db\.(?:.*[._])?(?:collection|index|table)(?:[._]name)?")
"""Clients' instrumentations used these names before there was a convention."""
_STORE = "ls_vector_store_provider"
_MAX_NAME = 200


@lru_cache(maxsize=4096)
def names_source(key: str) -> bool:
    """Return whether an attribute of this name contains a collection, an index or a data source."""
    return key in _CONVENTIONAL or _OTHERS.fullmatch(key) is not None


def source_in(attributes: Mapping[str, Any]) -> str | None:
    """Return the name of the data source, collection or index among a span's attributes."""
    for key in (*_CONVENTIONAL, *filter(names_source, attributes)):
        name = _name(attributes.get(key))
        if name is not None:
            return name
    return None


def store_in(attributes: Mapping[str, Any]) -> str | None:
    """Return the class of the vector store, by LangChain's spans, where no span has a collection."""
    metadata = attributes.get("metadata")
    if isinstance(metadata, str) and _STORE in metadata:
        return _name(mapping_of(metadata).get(_STORE))
    return next((_name(attributes[key]) for key in attributes if key.endswith(f".{_STORE}")), None)


def _name(value: Any) -> str | None:
    fits = isinstance(value, str) and 0 < len(value) <= _MAX_NAME and value.isprintable()
    return value if fits else None
