"""Tables of rules for question, answer and documents in LangChain's payloads.

These functions use shapes only (strings, mappings, messages by their ``type`` and ``content``, documents by
their ``page_content``) and import no framework, so that the rules can be read, and tested, separately. They
never raise on odd payloads and never change them. Documents of every list that counts are copied when they
are seen, odd ones converted to text; the usual document is recognised by a few dictionary look-ups.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from typing import Any, NamedTuple

from ragmeter.adapters._snapshots import ContextSnapshot
from ragmeter.adapters.reading.fields import (
    FIELD_NAMES,
    asked_last,
    content_text,
    fields_of,
    message_of,
    static_member,
    strings_in,
)
from ragmeter.requests.refusals import refusal_of

QUESTION_KEYS = (*FIELD_NAMES["question"], "messages")
"""Keys of the user's question, or of a conversation that contains it, best first."""

DOCUMENT_KEYS = FIELD_NAMES["context"]
"""Keys of a chain's final list of documents."""

MOST_FOUND = 1_000
"""Most items of a list that a search may have found, and most fields that are read. A longer list is what is
searched, which a state may carry through every step."""


class Question(NamedTuple):
    """The data of an input from which the question is chosen."""

    text: str | None
    """The question; None if no rule is certain."""
    others: tuple[str, ...] = ()
    """Strings of a mapping without a known key; the one that is a query, or that a model was sent, is it."""


def find_question(inputs: object) -> Question:
    """Return the user's question in a root run's input.

    Rules, first match: a string · the last human message of a conversation · the first of
    `QUESTION_KEYS` in a mapping or in an object's fields.  A LangGraph
    ``Command`` resumes an earlier request: no question.
    """
    if type(inputs) is str:
        return Question(inputs or None)
    fields: Mapping[str, Any] | None
    if type(inputs) is dict and "content" not in inputs:
        fields = inputs  # the most frequent inputs, before any other check
    else:
        text = _text_in(inputs)
        if text is not None:
            return Question(text or None)
        fields = None if type(inputs).__name__ == "Command" else fields_in(inputs)
        if fields is None or message_of(inputs) is not None:
            return Question(None)
    for key in QUESTION_KEYS:
        value = fields.get(key)
        text = value if value is None or type(value) is str else _text_in(value)
        if text:
            return Question(text)
    strings = tuple(value for value in fields.values() if issubclass(type(value), str) and value)
    return Question(None, strings)


def closing_text(messages: object) -> str | None:
    """Return the model's text at a conversation's end, or in a lone message; None if it calls tools."""
    last = messages[-1] if isinstance(messages, (list, tuple)) and messages else messages
    found = strings_in(last)
    return found[0].text if found and found[0].closes else None


def field_of(payload: object, key: str) -> Any:
    """Return the value of `key` in a mapping or in an object's fields, or None."""
    fields = fields_in(payload)
    return None if fields is None else fields.get(key)


def document_lists(payload: Any) -> dict[str, Sequence[Any]]:
    """Return every list of documents in a payload, by key; ``""`` when the payload is the list.

    A list of lists, such as ``retriever.map()`` returns, is one list, in its order. Empty lists under a key
    of `DOCUMENT_KEYS` count: a filter may have rejected everything. Lists in an object under a key count as
    well, and lists of objects with one document each.
    """
    kind: type = type(payload)  # not `isinstance`: proxies have their class computed, by a database for example
    if payload is None or issubclass(kind, (str, bytes)):
        return {}
    if issubclass(kind, (list, tuple)):
        # The usual list of documents is known without further calls, of which each costs the request.
        first: Any = payload[0] if 0 < len(payload) <= MOST_FOUND else None
        plain = _may_be_asked(type(first)) and type(getattr(first, "page_content", None)) is str  # type: ignore[arg-type]  # classes are hashable
        documents = payload if plain else _documents_in(payload)
        return {"": documents} if documents else {}
    fields = payload if type(payload) is dict else fields_in(payload)
    if not fields:
        return {}
    found: dict[str, Sequence[Any]] = {}
    for key, value in islice(fields.items(), MOST_FOUND):
        if issubclass(type(value), (list, tuple)):
            documents = _documents_in(value)
            if documents or (not value and key in DOCUMENT_KEYS):
                found[str(key)] = documents
        elif type(value) not in _PLAIN and not is_document(value):
            for name, documents in _lists_within(value):
                found[f"{key}.{name}"] = documents
    return found


_PLAIN = frozenset({str, bytes, int, float, bool, type(None)})


def _lists_within(value: object) -> list[tuple[str, Sequence[Any]]]:
    """Return the lists of documents in an application's object, by field."""
    fields = fields_of(value)
    if not fields or "content" in fields:
        return []
    return [
        (name, documents)
        for name, items in fields.items()
        if (type(items) is list or type(items) is tuple) and (documents := _documents_in(items))
    ]


def _documents_in(payload: Sequence[Any]) -> Sequence[Any]:
    """Return a list of documents as it is, a list of such lists as one list, else nothing."""
    if not payload:
        return payload
    if len(payload) > MOST_FOUND:
        return ()
    first = payload[0]
    if is_document(first):
        return payload
    if type(first) in _PLAIN:
        return ()
    if not issubclass(type(first), list):
        return _documents_held(payload)
    if not all(issubclass(type(item), list) for item in payload):
        return ()
    if not all(is_document(item[0]) for item in payload if item):
        return ()
    return [document for item in payload for document in item]


def _documents_held(payload: Sequence[Any]) -> Sequence[Any]:
    """Return the documents of objects with one each, such as hits with a grade."""
    held: list[Any] = []
    for item in payload:
        fields = fields_of(item)
        if not fields or "content" in fields:
            return ()
        documents = [value for value in fields.values() if type(value) not in _PLAIN and is_document(value)]
        if len(documents) != 1:
            return ()
        held += documents
    return held


def is_document(value: Any) -> bool:
    """Return whether `value` is a document, a row with its fields, or a (document, score) pair."""
    first = value[0] if issubclass(type(value), tuple) and len(value) > 0 else value
    if type(first) is dict:
        return type(first.get("page_content")) is str
    return _may_be_asked(type(first)) and isinstance(getattr(first, "page_content", None), str)  # type: ignore[arg-type]  # likewise


@lru_cache(maxsize=1_000)
def _may_be_asked(cls: type) -> bool:
    """Return whether asking an object of a class for a page's content runs none but its own code for that.

    Proxies compute every attribute: of a database's row, or of a web request that is over.
    """
    hook = static_member(cls, "__getattr__")
    return static_member(cls, "page_content") is not None or (
        static_member(cls, "__getattribute__") is object.__getattribute__
        and (hook is None or getattr(hook, "__module__", "") == "pydantic.main")
    )


def tool_documents(output: object) -> Sequence[Any]:
    """Return the documents in a tool's artifact, or in its raw output.

    A tool may also return a LangGraph ``Command``: then the tool messages, and its other writes to the state,
    are in the command's update.
    """
    if type(output).__name__ == "Command":
        output = getattr(output, "update", None)
    messages = output.get("messages") if isinstance(output, Mapping) else None
    candidates = [getattr(output, "artifact", None)]
    if isinstance(messages, (list, tuple)):
        candidates = [getattr(message, "artifact", None) for message in messages]
    found = [
        document
        for candidate in candidates
        for documents in document_lists(candidate).values()
        for document in documents
    ]
    return found or [document for documents in document_lists(output).values() for document in documents]


def llm_text(first: object) -> str | None:
    """Return the text of a model's first generation; None if it only called tools."""
    text = getattr(first, "text", None)
    if isinstance(text, str) and text:
        return text
    return closing_text(getattr(first, "message", None))


def response_id(first: object, response: object) -> str | None:
    """Return the provider's id of a model's first generation; ids made by LangChain do not count."""
    message = getattr(first, "message", None)
    metadata = getattr(message, "response_metadata", None) or getattr(response, "llm_output", None)
    found = metadata.get("id") if isinstance(metadata, Mapping) else None
    if not found:
        found = getattr(message, "id", None)
        if isinstance(found, str) and found.startswith(_OWN_IDS):
            return None
    return found if isinstance(found, str) and found else None


_OWN_IDS = ("run-", "lc_")


def last_refusal(outputs: object) -> str | None:
    """Return the refusal in a root run's output, possibly empty; None if it does not refuse."""
    if outputs is None or isinstance(outputs, str):
        return None
    messages = field_of(outputs, "messages")
    if isinstance(messages, (list, tuple)) and messages:
        outputs = messages[-1]
    message = message_of(outputs)
    return refusal_of(outputs) if message is not None and message.role == "assistant" else None


def is_interrupt(error: BaseException) -> bool:
    """Return whether a graph pauses for a person; by name, so that nothing is imported."""
    return any(kind.__name__ in ("GraphInterrupt", "NodeInterrupt") for kind in type(error).__mro__)


def is_control_flow(error: BaseException) -> bool:
    """Return whether a graph uses this exception only for control flow, interrupts included: nothing failed."""
    return any(kind.__name__ == "GraphBubbleUp" for kind in type(error).__mro__)


def _text_in(value: object) -> str | None:
    """Return the text in a value: itself, the user's message that it is, or its last such message."""
    if type(value).__name__ == "StringPromptValue":
        value = getattr(value, "text", None)
    if value is None or isinstance(value, str):
        return value
    as_conversation = getattr(value, "to_messages", None)
    if callable(as_conversation):
        value = as_conversation()
    asked = asked_last(value)
    if asked is not None or not isinstance(value, (list, tuple)):
        return asked
    is_content = all(isinstance(item, Mapping) and message_of(item) is None for item in value)
    return content_text(value) or None if is_content else None


def fields_in(value: object) -> Mapping[str, Any] | None:
    """Return a mapping's items, or the named values that an object stores."""
    return value if isinstance(value, Mapping) else fields_of(value)


SCORE_KEYS = ("relevance_score", "score", "similarity_score", "_score", "rerank_score")
"""Metadata keys of a document's score as set by retrievers and rerankers, best first."""

_SCORE_KEYS = frozenset(SCORE_KEYS)


def snapshot_documents(documents: object) -> tuple[ContextSnapshot, ...]:
    """Copy documents, (document, score) pairs and plain strings in their current state."""
    if documents is None:
        return ()
    if isinstance(documents, (str, bytes)) or not isinstance(documents, Iterable):
        documents = (documents,)
    snapshots: list[ContextSnapshot] = []
    for document in tuple(documents):
        # LangChain's own class has its fields in its `__dict__`: nearly every document is one.
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
                snapshots.append(_new_tuple(ContextSnapshot, (text, id_, None, metadata.copy(), None)))
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
        # One at a time: a pydantic object reports an absent attribute by slow Python code.
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


def copied_lists(lists: Mapping[str, Sequence[Any]]) -> dict[str, tuple[tuple[Any, str], ...]]:
    """Copy document lists: each document (not copied) with its current text."""
    copied: dict[str, tuple[tuple[Any, str], ...]] = {}
    for key, documents in lists.items():
        pairs: list[tuple[Any, str]] = []
        for document in documents:
            text = None
            if type(document) is not tuple and type(document) is not dict:
                text = getattr(document, "page_content", None)
            pairs.append((document, text if type(text) is str else text_of(document)))
        copied[key] = tuple(pairs)
    return copied


def text_of(document: object) -> str:
    """Return a document's current text; the document may be in a (document, score) pair."""
    if isinstance(document, tuple) and document:
        document = document[0]
    is_row = type(document) is dict
    text = document.get("page_content") if is_row else getattr(document, "page_content", None)  # type: ignore[attr-defined]
    return text if isinstance(text, str) else ""
