"""The collection, index or table that a vector store searches, by the name stored in its object.

Each store has its own attribute for the name, some in a nested object; `source_of` knows these and reads the
stored values (`fields.stored`): none of their code runs, so that nothing is connected to, computed or loaded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from .reading.fields import stored, stored_under, text_of_string

_MAX_NAME = 200
_MAX_RETRIEVERS = 4
"""Levels of retrievers around retrievers that are followed."""

_NAMES = (
    "collection_name", "_collection_name", "index_name", "_index_name", "table_name", "_table_name",
    "vector_index_name", "_vector_index_name",
)  # fmt: skip
_SOURCES = ("data_source_id", "knowledge_base_id", "data_store_id", *_NAMES)
_OF_COLLECTION = (("name",), ("_name",), ("_model", "name"), ("_Collection__name",))
_OF_INDEX = ((), ("name",), ("_name",), *((name,) for name in _NAMES), ("schema", "index", "name"))
_OF_OTHERS = (*((name,) for name in _NAMES), ("index",), ("_index",))
_PLACES: Mapping[str, Sequence[tuple[str, ...]]] = {
    **dict.fromkeys(_NAMES, ((),)),
    **dict.fromkeys(("_collection", "collection"), _OF_COLLECTION),
    **dict.fromkeys(("_index", "index"), _OF_INDEX),
    **dict.fromkeys(("config", "_config", "_store", "_client", "client", "_PGVectorStore__vs"), _OF_OTHERS),
}
"""The attributes with the name, of LangChain's and LlamaIndex's stores or of the client's object in them."""

_STORES = ("vectorstore", "_vector_store", "vector_store")
_RETRIEVERS = ("base_retriever", "retriever", "_retriever")


def source_of(retriever: object) -> str | None:
    """Return the name of a retriever's source; None if its object does not store any.

    Args:
        retriever: A retriever of LangChain's or LlamaIndex's, perhaps around another one.
    """
    seen: object = retriever
    for _ in range(_MAX_RETRIEVERS):
        store = next(_of(seen, _STORES), None)
        if store is not None:
            return _name_in(store)
        own = next(filter(None, (_name_at(item, ()) for item in _of(seen, _SOURCES))), None)
        if own is not None:
            return own
        inner = next(_of(seen, _RETRIEVERS), None)
        if inner is None:
            return None
        seen = inner
    return None


def _of(value: object, names: Sequence[str]) -> Iterator[Any]:
    return iter(stored_under(value, names).values())


def _name_in(store: object) -> str | None:
    for name, found in stored_under(store, _PLACES).items():
        for place in _PLACES[name]:
            named = _name_at(found, place)
            if named is not None:
                return named
    return None


def _name_at(value: object, place: Iterable[str]) -> str | None:
    for name in place:
        value = stored(value, name)
    text = text_of_string(value)
    return text if text and len(text) <= _MAX_NAME and text.isprintable() else None
