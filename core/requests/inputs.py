"""Convert what an application passes about a request to the types of a sample.

`Request` calls it when it records, and when its block ends. An invalid argument raises an error with the fix.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, get_args

from ragmeter.metrics import ConfigurationError, RetrievedContext
from ragmeter.metrics.sample import StageKind


def as_contexts(value: object, method: str) -> tuple[Any, ...]:
    """Return the passed contexts in order; a single one counts as a list of one.

    Raises:
        ConfigurationError: The value cannot hold contexts.
    """
    if isinstance(value, (str, Mapping, RetrievedContext)) or _first(value, "page_content", "text"):
        return (value,)
    if not isinstance(value, Iterable) or isinstance(value, (bytes, bytearray)):
        raise ConfigurationError(
            f"request.{method}() was given a {type(value).__name__}; pass a list of texts, "
            "RetrievedContexts or documents, and an empty list for a retrieval that found nothing"
        )
    return tuple(value)


def as_context(value: object) -> RetrievedContext:
    """Convert a text, a mapping or a document of any framework to a context."""
    if isinstance(value, RetrievedContext):
        return value
    if isinstance(value, str):
        return RetrievedContext(text=value)
    known_as = _first(value, "id", "node_id")
    score, metadata = _first(value, "score"), _first(value, "metadata")
    text = _first(value, "page_content", "text")
    return RetrievedContext(
        text=str(value if text is None else text),
        id=None if known_as is None else str(known_as),
        score=float(score) if isinstance(score, (int, float)) else None,
        metadata=metadata if isinstance(metadata, Mapping) else {},
    )


def _first(value: object, *names: str) -> Any:
    """Return the first of these fields that is set, or None."""
    found = (value.get(name) if isinstance(value, Mapping) else getattr(value, name, None) for name in names)
    return next((item for item in found if item is not None), None)


def as_text(value: object) -> str | None:
    """Convert to text: a message's content, bytes as UTF-8, other types by `str`."""
    if value is None or type(value) is str:
        return value
    if isinstance(value, (bytes, bytearray)):
        return value.decode("utf-8", "replace")
    return str.__str__(str(getattr(value, "content", None) or value))


def as_tags(value: Any) -> tuple[str, ...]:
    """Return tags; a single text counts as a list of one.

    Raises:
        ConfigurationError: The value is not a list.
    """
    if isinstance(value, str):
        return (value,)
    if not isinstance(value, Iterable):
        raise ConfigurationError(
            f"request(tags=) was given a {type(value).__name__}; pass a list of short texts"
        )
    return tuple(text for text in map(as_text, value) if text is not None)


def as_metadata(value: Any) -> dict[str, Any]:
    """Return a copy of a mapping.

    Raises:
        ConfigurationError: The value is not a mapping.
    """
    if not isinstance(value, Mapping):
        raise ConfigurationError(
            f"request(metadata=) was given a {type(value).__name__}; pass a mapping from names to values"
        )
    return dict(value)


def stage_kind(value: object) -> StageKind:
    """Return the kind of a stage.

    Raises:
        ConfigurationError: The kind is unknown; lists the known ones.
    """
    found = next((kind for kind in get_args(StageKind) if kind == value), None)
    if found is None:
        kinds = ", ".join(get_args(StageKind))
        raise ConfigurationError(f"request.kept(kind=) is one of {kinds}")
    kind: StageKind = found
    return kind
