"""Tables of rules for kind, question, nodes and facts in LlamaIndex's calls and objects.

Classes are recognised by name and package along their bases, so that nothing of LlamaIndex is imported, old
versions without workflows work, and the rules can be tested without it.

LlamaIndex and its plug-ins overwrite nodes in place all the time: fusion and rerankers the score, the
sentence window the text. So a node is copied at the moment it is seen. Formatting its text as the model sees
it (metadata above the text, by the node's templates) costs ten times the copy, so for ordinary text nodes the
worker does it, with LlamaIndex's own code, on a stand-in with the copied fields.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from math import inf
from pathlib import Path
from typing import Any, Literal, NamedTuple

from ragmeter.adapters._snapshots import ContextSnapshot, as_score
from ragmeter.adapters._stores import source_of
from ragmeter.adapters.reading.fields import FIELD_NAMES, asked_last, fields_of, items_of

Kind = Literal[
    "query",
    "chat",
    "run",
    "call",
    "llm",
    "retrieve",
    "synthesize",
    "postprocess",
    "tool",
    "transform",
    "write_history",
]
"""The kind of a span; spans of no kind only pass their parent on."""

CLASS_NAMES: Mapping[str, Any] = json.loads(
    Path(__file__).with_name("class_names.json").read_text(encoding="utf-8")
)
"""LlamaIndex's names of classes, methods and packages."""
_KINDS: Sequence[tuple[str, Sequence[str], Kind]] = CLASS_NAMES["kinds"]
"""Base class, its methods, the kind of their calls."""

_METHODS = frozenset(method for _, methods, _ in _KINDS for method in methods)

ROOT_KINDS: frozenset[Kind] = frozenset({"query", "chat", "run", "call", "retrieve", "synthesize", "transform"})
"""Kinds whose outermost span is a request; a transformation prepares documents, and is none."""

_PACKAGES = ("llama_index", "workflows")

_QUESTIONS = FIELD_NAMES["question"]
"""Usual names of the question among arguments, or in a workflow's start event; overrides rename them."""


def is_a(cls: type, name: str) -> bool:
    """Return whether a class is LlamaIndex's class of that name, or one derived from it."""
    return any(base.__name__ == name and base.__module__.partition(".")[0] in _PACKAGES for base in cls.__mro__)


@lru_cache(maxsize=10_000)
def kind_of(cls: type, name: str) -> Kind | None:
    """Return the kind of a call of a method, ``<class>.<method>``, of a class; None if it is ignored."""
    method = name.rpartition(".")[2]
    if method not in _METHODS:
        return None
    for base, methods, kind in _KINDS:
        if method in methods and is_a(cls, base):
            return kind
    return None


def text_of(value: object) -> str | None:
    """Return the text of a query, a chat message or a completion; None for anything else."""
    if isinstance(value, str):
        return value
    for attribute in ("query_str", "content", "text"):
        text = getattr(value, attribute, None)
        if isinstance(text, str):
            return text
    return None


def question_of(kind: Kind, arguments: Mapping[str, Any]) -> str | None:
    """Return the user's question, from the arguments of the request's own call.

    A workflow has it in its start event, under a name of the author's choice, or as the last user message of
    ``chat_history``. None if none of them fits.
    """
    if kind == "run":
        return _question_of_run(arguments)
    named = [arguments[name] for name in _QUESTIONS if name in arguments]
    for value in named:
        if (text := text_of(value)) is not None:
            return text
    if kind == "call":
        return asked_last(arguments.get("chat_history"))
    return None if named else text_of(next(iter(arguments.values()), None))


def _question_of_run(arguments: Mapping[str, Any]) -> str | None:
    for given in given_to_run(arguments):
        text = next(filter(None, (text_of(given.get(name)) for name in _QUESTIONS)), None)
        if text is None:
            text = asked_last(given.get("chat_history"))
        if text is not None:
            return text
    return None


def searched_for(arguments: Mapping[str, Any], queries: Iterable[str | None]) -> str | None:
    """Return a workflow's input that was searched for as it is: the question, under whatever name."""
    texts = [text for given in given_to_run(arguments) for text in given.values() if isinstance(text, str)]
    return next((query for query in queries if query in texts), None)


def given_to_run(arguments: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the named inputs of a workflow: fields of its start event, and arguments."""
    given = arguments.get("kwargs")
    held = given if isinstance(given, Mapping) else {}
    start = arguments.get("start_event")
    if start is None:
        start = held.get("start_event")
    return [fields_of(event_payload(start)) or {}, held]


def nodes_of(arguments: Mapping[str, Any]) -> Iterable[Any]:
    """Return the nodes passed to a synthesizer or postprocessor."""
    nodes = arguments.get("nodes")
    return nodes if isinstance(nodes, (list, tuple)) else ()


class RetrieverFacts(NamedTuple):
    """A retriever's properties."""

    data_source_id: str | None
    """Name of the collection or index it searches, else the class of its vector store."""
    top_k: int | None
    """Number of nodes it requests from the store."""
    embedding_model: str | None
    """Name of its embedding model."""


NO_FACTS = RetrieverFacts(None, None, None)


def retriever_facts(instance: object) -> RetrieverFacts:
    """Return the store, depth and embedding model of `instance`, a retriever."""
    top_k = getattr(instance, "similarity_top_k", None)
    if top_k is None:
        top_k = getattr(instance, "_similarity_top_k", None)
    store = getattr(instance, "_vector_store", None)
    model = getattr(getattr(instance, "_embed_model", None), "model_name", None)
    return RetrieverFacts(
        source_of(instance) or (None if store is None else type(store).__name__),
        top_k if isinstance(top_k, int) else None,
        model if isinstance(model, str) and model != "unknown" else None,
    )


TextMode = Literal["llm", "none"]
"""``llm``: text as in ``node.get_content(MetadataMode.LLM)``; ``none``: the bare text."""

_SCHEMA = "llama_index.core.schema"


Nodes = tuple[ContextSnapshot, ...]


@lru_cache(maxsize=1_000)
def _formats_plainly(cls: type) -> bool:
    """Return whether nodes of `cls` are formatted by LlamaIndex's own text node, not by an override."""
    content = getattr(cls, "get_content", None)
    metadata = getattr(cls, "get_metadata_str", None)
    return (
        getattr(content, "__module__", None) == _SCHEMA
        and getattr(content, "__qualname__", None) == "TextNode.get_content"
        and getattr(metadata, "__module__", None) == _SCHEMA
    )


def snapshot_nodes(nodes: Iterable[Any], mode: TextMode) -> Nodes:
    """Copy `nodes` (nodes with a score, or bare nodes); takes about half a microsecond each."""
    copies: list[ContextSnapshot] = []
    for item in nodes:
        node = getattr(item, "node", item)
        cls = type(node)
        score = getattr(item, "score", None)
        if _formats_plainly(cls):  # type: ignore[arg-type]  # classes are hashable
            # One copy of the fields, from which the rest is read: this runs for every node of a request.
            fields = node.__dict__.copy()
            text, metadata = fields["text"], fields["metadata"]
            # A node without a text is shown as its metadata.
            if type(text) is str and type(metadata) is dict and text and not text.isspace():
                number = score if type(score) is float and -inf < score < inf else as_score(score)
                written, metadata = None, metadata.copy()
                if mode == "llm" and metadata:
                    fields["metadata"] = metadata
                    fields["embedding"] = None  # large, and no part of the text
                    written = _written, cls, fields
                copies.append(ContextSnapshot(text, fields["id_"], number, metadata, written))
                continue
        id_, metadata = getattr(node, "node_id", None), getattr(node, "metadata", None)
        copies.append(ContextSnapshot.take(_content(node, mode), id_, score, metadata))
    return tuple(copies)


def _written(cls: type, fields: dict[str, Any]) -> str:
    """Return the text of a node as the model saw it, from a stand-in with its fields."""
    node: Any = object.__new__(cls)
    object.__setattr__(node, "__dict__", fields)
    return str(_content(node, "llm"))


def _content(node: Any, mode: TextMode) -> object:
    content = getattr(node, "get_content", None)
    if content is None:
        return node
    from llama_index.core.schema import MetadataMode  # noqa: PLC0415 -- only with LlamaIndex

    return content(MetadataMode.LLM if mode == "llm" else MetadataMode.NONE)


def describe_tools(nodes: Nodes) -> bool:
    """Return whether all of `nodes` describe tools: an agent or router that chooses among its tools.

    LlamaIndex stores a tool in an object index as a text that begins with its name, with the name as the only
    metadata.
    """
    return bool(nodes) and all(
        item.metadata.keys() == {"name"} and item.text.startswith("Tool name: ") for item in nodes
    )


_RESULTS: Sequence[str] = CLASS_NAMES["results"]
"""Classes of results that are distinguished; a subclass counts as its base."""


def result_class(result: object) -> str | None:
    """Return the member of `_RESULTS` that an object is, or None."""
    return _result_class(type(result))  # type: ignore[arg-type]  # likewise


@lru_cache(maxsize=1_000)
def _result_class(cls: type) -> str | None:
    return next((name for name in _RESULTS if is_a(cls, name)), None)


def payload_of(result: object) -> Any:
    """Return the value that the caller of a run received: the result of a plain stop event, else the object."""
    if type(result).__name__ == "StopEvent" and result_class(result) == "StopEvent":
        return getattr(result, "result", None)
    return result


MAX_DEPTH = 5
MAX_VISITED = 1_000
"""Levels and objects of a result or an event that are searched for nodes."""

_EVENTS = frozenset({"Event", "StopEvent", "AgentOutput"})
_PLAIN = frozenset({type(None), bool, int, float, str, bytes})


def is_event(value: object) -> bool:
    """Return whether an object is a workflow's event."""
    return result_class(value) in _EVENTS


def event_payload(value: object) -> Any:
    """Return the fields of a workflow's event, extra data included."""
    if not is_event(value):
        return value
    extra = getattr(value, "_data", None)
    return {**(fields_of(value) or {}), **(extra if type(extra) is dict else {})}


def nodes_in(value: object) -> list[Any]:
    """Return the nodes in a result or event, a few levels deep, in order; bounded.

    Nodes that a response names as its sources are among them. No code of the application runs.
    """
    found: list[Any] = []
    waiting: deque[tuple[Any, int]] = deque([(value, 0)])
    visited = 0
    while waiting and visited < MAX_VISITED:
        item, depth = waiting.popleft()
        visited += 1
        if result_class(item) in ("NodeWithScore", "BaseNode"):
            found.append(item)
            continue
        if depth >= MAX_DEPTH:
            continue
        item = event_payload(item)
        inner: Sequence[Any] | None = items_of(item)
        if inner is None:
            inner = list((fields_of(item) or {}).values())
        waiting.extend((part, depth + 1) for part in inner if type(part) not in _PLAIN)
    return found
