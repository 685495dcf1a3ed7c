"""Copies of retrieved documents, taken the moment they are seen.

The application may change, clear or re-sort its lists right after the callback,
and rerankers overwrite scores in place; so adapters keep `ContextSnapshot`s and never
the framework's objects.  Taking one costs a few attribute reads and a shallow
metadata copy: formatting and validation wait for the worker.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, SupportsFloat

from ragmeter.requests.size import weight_of


class ContextSnapshot(NamedTuple):
    """A copy of one document, taken when it was seen."""

    text: str
    """The text; a reference to the framework's own immutable string."""
    id: str | None
    """The document's id."""
    score: float | None
    """The score the framework carried at that time."""
    metadata: Mapping[str, Any]
    """A shallow copy of the metadata."""
    write: tuple[Any, ...] | None = None
    """What writes the text as the model saw it, where that is more than `text`: a function, its arguments."""

    @classmethod
    def take(cls, text: object, id_: object, score: object, metadata: object) -> ContextSnapshot:
        """Copy what a framework's document holds; odd types are turned into text, never refused."""
        return cls(
            text if isinstance(text, str) else "" if text is None else str(text),
            id_ if isinstance(id_, str) or id_ is None else str(id_),
            as_score(score),
            dict(metadata) if type(metadata) is dict or isinstance(metadata, Mapping) else {},
        )


def as_score(score: object) -> float | None:
    """Read a score; rerankers also write numpy's and torch's scalars. Not a finite number: None."""
    # Asked of every document: the protocol at the end of the line alone costs as much as the rest.
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
    """Return the bytes of documents whose texts are not among the `known` ones yet, by identity; note those."""
    new = [item for item in documents if id(item.text) not in known]
    known.update([id(item.text) for item in new])
    return bytes_of(new)


def bytes_of(documents: Iterable[ContextSnapshot]) -> int:
    """Return the bytes that texts and metadata hold, roughly."""
    held: list[object] = []
    for item in documents:
        held += (item.text, item.metadata)
    return weight_of(*held)
