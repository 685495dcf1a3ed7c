"""Copies of retrieved documents, made the moment they are seen.

The application may change, clear or re-sort its lists right after the callback, and rerankers overwrite
scores in place; so adapters store `ContextSnapshot`s and never the framework's objects. One costs a few
attribute reads and a shallow metadata copy: formatting and validation are left to the worker.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, SupportsFloat

from ragmeter.requests.size import weight_of


class ContextSnapshot(NamedTuple):
    """A copy of one document, made when it was seen."""

    text: str
    """The text; a reference to the framework's own immutable string."""
    id: str | None
    """The document's id."""
    score: float | None
    """The score in the framework at that time."""
    metadata: Mapping[str, Any]
    """A shallow copy of the metadata."""
    write: tuple[Any, ...] | None = None
    """Produces the text as the model saw it, where that is more than `text`: a function, its arguments."""

    @classmethod
    def take(cls, text: object, id_: object, score: object, metadata: object) -> ContextSnapshot:
        """Copy the content of a framework's document; odd types are converted to text, never rejected."""
        return cls(
            text if isinstance(text, str) else "" if text is None else str(text),
            id_ if isinstance(id_, str) or id_ is None else str(id_),
            as_score(score),
            dict(metadata) if type(metadata) is dict or isinstance(metadata, Mapping) else {},
        )


def as_score(score: object) -> float | None:
    """Return a score, numpy's and torch's scalars of rerankers included. Not a finite number: None."""
    # Runs for every document: the protocol at the end of the line alone costs as much as the rest.
    if score is None or isinstance(score, bool):
        return None
    if not isinstance(score, (float, int)) and not isinstance(score, SupportsFloat):
        return None
    try:
        number = float(score)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def bytes_of_new(documents: Iterable[ContextSnapshot], known: set[int]) -> int:
    """Return the approximate bytes of texts and metadata, of documents whose texts are not in `known` yet.

    Their identities are added to it: the same text in several places is held once.
    """
    held: list[object] = []
    for item in documents:
        if id(item.text) not in known:
            held += (item.text, item.metadata)
    known.update(map(id, held[::2]))
    return weight_of(*held)
