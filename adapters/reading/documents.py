"""The documents in a value, by their shape: knows no convention, only the usual names in frameworks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from .fields import FIELD_NAMES, ROLES
from .messages import text_of
from .values import MAX_DEPTH, constructor_arguments, is_hidden, is_repr, mapping_of, opened


class Document(NamedTuple):
    """One retrieved document, as a span reports it."""

    text: str | None
    """Its text; None if the span does not contain it."""
    id: str | None = None
    """Its id."""
    score: float | None = None
    """The retriever's own score."""
    metadata: Mapping[str, Any] = {}
    """The fields beside the text."""
    hidden: bool = False
    """Whether the user had its text replaced."""


_TEXT_KEYS = FIELD_NAMES["document_text"]
_ID_KEYS = FIELD_NAMES["document_id"]
_SCORE_KEYS = FIELD_NAMES["document_score"]
_METADATA_KEYS = FIELD_NAMES["document_metadata"]
_LIST_KEYS = FIELD_NAMES["documents"]
_RECORD_KEYS = ("entity", "payload", "_source", "properties", *_METADATA_KEYS)
_FIELDS = frozenset((*_ID_KEYS, *_SCORE_KEYS, *_METADATA_KEYS, *_TEXT_KEYS, "type"))


def documents_in(value: Any, depth: int = 0) -> tuple[Document, ...] | None:
    """Return the documents in a value, in its order; None if it has none and is not an empty list."""
    found = opened(value)
    if depth > MAX_DEPTH:
        return None
    if isinstance(found, (list, tuple)):
        found = [item for item in found if item is not None] or found
        documents = tuple(filter(None, (_document(item, depth + 1) for item in found)))
        if len(documents) == len(found):
            return documents
        if len(found) == 1:
            return documents_in(found[0], depth + 1)
        return None
    if isinstance(found, dict):
        inner = constructor_arguments(found)
        if inner is not found:
            return documents_in(inner, depth + 1)
        for key in _LIST_KEYS:
            is_open = isinstance(opened(found.get(key)), (list, tuple, dict))
            if is_open and (listed := documents_in(found[key], depth + 1)) is not None:
                return listed
        for rows in found.values():
            if isinstance(rows, list) and rows and all(isinstance(item, dict) for item in rows):
                listed = documents_in(rows, depth + 1)
                if listed and all(item.text is not None for item in listed):
                    return listed
    return None


def _document(value: Any, depth: int) -> Document | None:
    found = opened(value)
    if isinstance(found, str):
        if is_hidden(found):
            return Document(None, hidden=True)
        return None if is_repr(found) else Document(found)
    if isinstance(found, (list, tuple)) and len(found) == 2 and _number(found[1]) is not None:
        document = _document(found[0], depth + 1)
        return None if document is None else document._replace(score=_number(found[1]))
    if not isinstance(found, dict) or depth > MAX_DEPTH:
        return None
    found = constructor_arguments(found)
    if "role" in found or found.get("type") in ROLES:
        return None  # a message
    fields: Mapping[str, Any] = found
    if any(type(key) is not str or key.startswith("document.") for key in found):
        fields = {str(key).removeprefix("document."): item for key, item in found.items()}
    elif all(key[:1].isupper() for key in found):  # as Go and C# export them: ID, PageContent
        fields = {key.lower() if key.isupper() else key[0].lower() + key[1:]: found[key] for key in found}
    for key in ("node", "document"):
        if key in fields and isinstance(opened(fields[key]), dict):
            inner = _document(fields[key], depth + 1)
            score = _first_number(fields)
            return inner if inner is None or score is None else inner._replace(score=score)
    text = _first_text(fields)
    identity = next((str(fields[key]) for key in _ID_KEYS if isinstance(fields.get(key), (str, int))), None)
    if text is None:  # a hit of a store: its record beside its id and score
        held = (_first_text(mapping_of(fields.get(key))) for key in _RECORD_KEYS)
        text = next(filter(None, held), None)
    if text is None and (identity is None or not _FIELDS.issuperset(fields)):
        return None  # an object with an id and other fields than a document's
    hidden = is_hidden(text)
    kept = next(filter(fields.__contains__, _METADATA_KEYS), None)
    metadata = None if kept is None else opened(fields[kept])
    return Document(
        None if hidden else text,
        None if is_hidden(identity) else identity,
        _first_number(fields),
        metadata if isinstance(metadata, dict) else {},
        hidden,
    )


def _first_text(fields: Mapping[str, Any]) -> str | None:
    """Return the text of a document: a string, or the one in a mapping of parts."""
    for key in _TEXT_KEYS:
        value = fields.get(key)
        if isinstance(value, dict):
            value = value.get("text")
        if isinstance(value, list) and value:  # parts of content
            value = text_of(value) or None
        if isinstance(value, str):
            return value
    return None


def _first_number(fields: Mapping[str, Any]) -> float | None:
    numbers = (_number(fields.get(key)) for key in _SCORE_KEYS)
    return next((number for number in numbers if number is not None), None)


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None
