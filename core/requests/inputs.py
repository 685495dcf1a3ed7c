"""What an application passes about a request, read as the types of a sample.

`Request` calls it when it records, and when its block ends.  A wrong argument raises and says what to pass.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, get_args

from ragmeter.metrics import ConfigurationError, RetrievedContext
from ragmeter.metrics.sample import StageKind

__all__ = ["as_context", "as_contexts", "as_metadata", "as_tags", "as_text", "stage_kind"]


def as_contexts(value: object, method: str) -> tuple[Any, ...]:
    """Return the contexts that were passed, in order; a single one counts as a list of one.

    Raises:
        ConfigurationError: It is nothing that holds contexts.
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
    """Return a context: one as it is, a text, a mapping, or a document of any framework."""
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
    """Return the first of these fields that a mapping or a document has."""
    found = (
        value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)
        for name in names
    )
    return next((item for item in found if item is not None), None)


def as_text(value: object) -> str | None:
    """Return a text: a message's own, bytes read as UTF-8. Best effort: a wrong type keeps its text."""
    if value is None or type(value) is str:
        return value
    if isinstance(value, (bytes, bytearray)):
        return value.decode("utf-8", "replace")
    return str.__str__(str(getattr(value, "content", None) or value))


def as_tags(value: Any) -> tuple[str, ...]:
    """Return tags; a single text counts as a list of one.

    Raises:
        ConfigurationError: It is no list.
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
        ConfigurationError: It is none.
    """
    if not isinstance(value, Mapping):
        raise ConfigurationError(
            f"request(metadata=) was given a {type(value).__name__}; pass a mapping from names to values"
        )
    return dict(value)


def stage_kind(value: object) -> StageKind:
    """Return the kind of a stage.

    Raises:
        ConfigurationError: There is no such kind; names those there are.
    """
    found = next((kind for kind in get_args(StageKind) if kind == value), None)
    if found is None:
        kinds = ", ".join(get_args(StageKind))
        raise ConfigurationError(f"request.kept(kind=) is one of {kinds}")
    kind: StageKind = found
    return kind
