"""Copies of LangChain's documents, by their shapes: what a retriever returned, as it was then.

Called on the request's own path, once for every document list that counts, so the usual document is
told from the unusual by a few dictionary look-ups. No framework is imported; odd documents are
turned into text, never refused, and never changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ragmeter.adapters._snapshots import ContextSnapshot

__all__ = ["snapshot_documents"]

SCORE_KEYS = ("relevance_score", "score", "similarity_score", "_score", "rerank_score")
"""Metadata keys under which retrievers and rerankers leave a document's score, best first."""

_SCORE_KEYS = frozenset(SCORE_KEYS)


def snapshot_documents(documents: object) -> tuple[ContextSnapshot, ...]:
    """Copy documents, (document, score) pairs and plain strings as they are now."""
    if documents is None:
        return ()
    if isinstance(documents, (str, bytes)) or not isinstance(documents, Iterable):
        documents = (documents,)
    snapshots: list[ContextSnapshot] = []
    for document in tuple(documents):
        # LangChain's own class holds its fields in its `__dict__`: what nearly every document is.
        fields = getattr(document, "__dict__", None)
        if type(fields) is dict:
            text, id_ = fields.get("page_content"), fields.get("id")
            metadata = fields.get("metadata")
            if (
                type(text) is str
                and type(id_) is str
                and type(metadata) is dict
                and _SCORE_KEYS.isdisjoint(metadata)
            ):
                snapshots.append(_new_tuple(ContextSnapshot, (text, id_, None, metadata.copy())))
                continue
        snapshots.append(_snapshot(document))
    return tuple(snapshots)


_MISSING = object()
_new_tuple = tuple.__new__


def _snapshot(document: object) -> ContextSnapshot:
    score: object = None
    if isinstance(document, tuple) and len(document) > 0:
        document, *rest = document
        score = rest[0] if rest else None
    if type(document) is dict or isinstance(document, Mapping):
        text = document.get("page_content", document.get("text", document.get("content")))
        id_, metadata = document.get("id"), document.get("metadata")
    elif isinstance(document, str):
        return ContextSnapshot.take(document, None, score, None)
    else:
        # One at a time: a pydantic object answers for an attribute it lacks by slow Python code.
        text = getattr(document, "page_content", _MISSING)
        if text is _MISSING:
            text = getattr(document, "text", document)
        id_, metadata = getattr(document, "id", None), getattr(document, "metadata", None)
    if type(metadata) is dict or isinstance(metadata, Mapping):
        if score is None and not _SCORE_KEYS.isdisjoint(metadata):
            score = next(metadata[key] for key in SCORE_KEYS if key in metadata)
        if id_ is None:
            id_ = metadata.get("id", metadata.get("_id"))
    return ContextSnapshot.take(text, id_, score, metadata)
