"""What LlamaIndex's spans mean, as tables: which call is what, and where its facts stand.

The request tracker asks this module for the kind of a span, the question in its
arguments, the nodes it was given, the answer in its result.  Classes are told by name and package
along their bases, so nothing of LlamaIndex is imported here, old versions without workflows
work, and the rules can be tested without it.  It must not keep any of the framework's objects.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

__all__ = [
    "ROOT_KINDS",
    "Kind",
    "KindTable",
    "RetrieverFacts",
    "is_a",
    "is_combining",
    "kind_of",
    "nodes_of",
    "question_of",
    "retriever_facts",
    "text_of",
]

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
"""What a span is to us; every other span only passes its parent on."""

_MODEL_CALLS = (
    "complete",
    "acomplete",
    "chat",
    "achat",
    "stream_complete",
    "astream_complete",
    "stream_chat",
    "astream_chat",
    "structured_predict",
    "astructured_predict",
)

_KINDS: tuple[tuple[str, tuple[str, ...], Kind], ...] = (
    ("BaseQueryEngine", ("query", "aquery"), "query"),
    ("BaseChatEngine", ("chat", "achat", "stream_chat", "astream_chat"), "chat"),
    ("Workflow", ("run",), "run"),
    ("BaseRetriever", ("retrieve", "aretrieve"), "retrieve"),
    ("BaseSynthesizer", ("synthesize", "asynthesize"), "synthesize"),
    ("BaseNodePostprocessor", ("_postprocess_nodes", "_apostprocess_nodes"), "postprocess"),
    ("BaseTool", ("call", "acall"), "tool"),
    ("BaseLLM", ("predict_and_call", "apredict_and_call"), "call"),
    ("BaseLLM", _MODEL_CALLS, "llm"),
    ("MultiModalLLM", _MODEL_CALLS, "llm"),
    ("TransformComponent", ("__call__", "acall"), "transform"),
    (
        "StreamingAgentChatResponse",
        ("write_response_to_history", "awrite_response_to_history"),
        "write_history",
    ),
)
"""Base class, its methods, what a call of them is."""

_METHODS = frozenset(method for _, methods, _ in _KINDS for method in methods)

ROOT_KINDS: frozenset[Kind] = frozenset(
    {"query", "chat", "run", "call", "retrieve", "synthesize", "transform"}
)
"""The outermost span of one of these kinds is a request; a transformation prepares documents, and is none."""

_PACKAGES = ("llama_index", "workflows")

_QUESTION_ARGUMENTS: Mapping[Kind, tuple[str, ...]] = {
    "query": ("str_or_query_bundle", "query_bundle", "query", "question", "query_str"),
    "retrieve": ("str_or_query_bundle", "query_bundle", "query", "question", "query_str"),
    "synthesize": ("query", "query_bundle", "question", "query_str"),
    "chat": ("message", "query", "question"),
    "call": ("user_msg", "message", "query"),
}
"""Names under which the arguments carry the question; overrides may have renamed them."""

_START_FIELDS = ("user_msg", "query", "question", "query_str", "message", "input")
"""Fields of a workflow's start event that may be the question, most telling first."""


def is_a(cls: type, name: str) -> bool:
    """Return whether a class is LlamaIndex's class of that name, or one derived from it."""
    return any(
        base.__name__ == name and base.__module__.partition(".")[0] in _PACKAGES
        for base in cls.__mro__
    )


def kind_of(cls: type, method: str) -> Kind | None:
    """Return what a call of `method` on an instance of `cls` is, or None for all that is passed over."""
    if method not in _METHODS:
        return None
    for base, methods, kind in _KINDS:
        if method in methods and is_a(cls, base):
            return kind
    return None


class KindTable:
    """Remembers `kind_of` per class and method: the look-up that every span pays. Thread-safe."""

    _UUID = 37
    _MAX = 10_000

    def __init__(self) -> None:
        self._kinds: dict[tuple[type, str], Kind | None] = {}

    def __call__(self, span_id: str, instance: object) -> Kind | None:
        """Return the kind of a span; its id is ``<class>.<method>-<uuid>``."""
        if instance is None:
            return None
        key = (type(instance), span_id[: -self._UUID])
        try:
            return self._kinds[key]
        except KeyError:
            pass
        if len(self._kinds) >= self._MAX:
            self._kinds.clear()
        kind = self._kinds[key] = kind_of(key[0], key[1].rpartition(".")[2])
        return kind


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
    """Return what the user asked, from the arguments of the request's own call.

    A workflow carries it in its start event, under a name of the author's choice:
    `_START_FIELDS`, then the last user message of ``chat_history``. None when none of them fits.
    """
    if kind == "run":
        return _question_of_run(arguments)
    for name in _QUESTION_ARGUMENTS.get(kind, ()):
        text = text_of(arguments.get(name))
        if text is not None:
            return text
    if kind == "call":
        return _asked_last(arguments.get("chat_history"))
    if any(name in arguments for name in _QUESTION_ARGUMENTS.get(kind, ())):
        return None
    return text_of(next(iter(arguments.values()), None))


def _question_of_run(arguments: Mapping[str, Any]) -> str | None:
    start = arguments.get("start_event")
    given = arguments.get("kwargs")
    if start is None and isinstance(given, Mapping):
        start = given.get("start_event")
    for source in (start, given):
        if source is None:
            continue
        for name in _START_FIELDS:
            text = text_of(_field(source, name))
            if text:
                return text
        text = _asked_last(_field(source, "chat_history"))
        if text is not None:
            return text
    return None


def _asked_last(history: object) -> str | None:
    """Return the text of the last message that a user wrote."""
    if isinstance(history, Sequence):
        for message in reversed(history):
            role = getattr(message, "role", None)
            if getattr(role, "value", role) == "user":
                return text_of(message)
    return None


def _field(source: object, name: str) -> Any:
    if isinstance(source, Mapping):
        return source.get(name)
    return getattr(source, name, None)


def nodes_of(arguments: Mapping[str, Any]) -> Iterable[Any]:
    """Return the nodes handed to a synthesizer or postprocessor."""
    nodes = arguments.get("nodes")
    return nodes if isinstance(nodes, (list, tuple)) else ()


def is_combining(arguments: Mapping[str, Any]) -> bool:
    """Tell whether a synthesis joins sub-answers: its nodes are then made-up texts, not documents."""
    return arguments.get("additional_source_nodes") is not None


class RetrieverFacts(NamedTuple):
    """What a retriever shows of itself."""

    data_source_id: str | None
    """Class of its vector store."""
    top_k: int | None
    """How many nodes it asks the store for."""
    embedding_model: str | None
    """Name of its embedding model."""


def retriever_facts(instance: object) -> RetrieverFacts:
    """Read what `instance`, a retriever, shows of its store, its depth and its embedding model."""
    top_k = getattr(instance, "similarity_top_k", None)
    if top_k is None:
        top_k = getattr(instance, "_similarity_top_k", None)
    store = getattr(instance, "_vector_store", None)
    model = getattr(getattr(instance, "_embed_model", None), "model_name", None)
    return RetrieverFacts(
        None if store is None else type(store).__name__,
        top_k if isinstance(top_k, int) else None,
        model if isinstance(model, str) and model != "unknown" else None,
    )
