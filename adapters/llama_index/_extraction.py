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
    "Answer",
    "Kind",
    "KindTable",
    "RetrieverFacts",
    "answer_of",
    "is_combining",
    "kind_of",
    "nodes_of",
    "question_of",
    "retriever_facts",
    "source_ids_of",
    "text_of",
]

Kind = Literal[
    "query", "chat", "run", "retrieve", "synthesize", "postprocess", "tool", "write_history"
]
"""What a span is to us; every other span only passes its parent on."""

_KINDS: tuple[tuple[str, tuple[str, ...], Kind], ...] = (
    ("BaseQueryEngine", ("query", "aquery"), "query"),
    ("BaseChatEngine", ("chat", "achat", "stream_chat", "astream_chat"), "chat"),
    ("Workflow", ("run",), "run"),
    ("BaseRetriever", ("retrieve", "aretrieve"), "retrieve"),
    ("BaseSynthesizer", ("synthesize", "asynthesize"), "synthesize"),
    ("BaseNodePostprocessor", ("_postprocess_nodes", "_apostprocess_nodes"), "postprocess"),
    ("BaseTool", ("call", "acall"), "tool"),
    (
        "StreamingAgentChatResponse",
        ("write_response_to_history", "awrite_response_to_history"),
        "write_history",
    ),
)
"""Base class, its methods, what a call of them is."""

_METHODS = frozenset(method for _, methods, _ in _KINDS for method in methods)

ROOT_KINDS: frozenset[Kind] = frozenset({"query", "chat", "run", "retrieve", "synthesize"})
"""The outermost span of one of these kinds is a request."""

_PACKAGES = ("llama_index", "workflows")

_QUESTION_ARGUMENTS: Mapping[Kind, tuple[str, ...]] = {
    "query": ("str_or_query_bundle", "query_bundle", "query", "question", "query_str"),
    "retrieve": ("str_or_query_bundle", "query_bundle", "query", "question", "query_str"),
    "synthesize": ("query", "query_bundle", "question", "query_str"),
    "chat": ("message", "query", "question"),
}
"""Names under which the arguments carry the question; overrides may have renamed them."""

_START_FIELDS = ("user_msg", "query", "question", "query_str", "message", "input")
"""Fields of a workflow's start event that may be the question, most telling first."""

_STOP_FIELDS = ("answer", "response", "result", "output", "text", "message")
"""Fields of a custom stop event that may be the answer, most telling first."""

_RESULTS = (
    "StopEvent",
    "StreamingResponse",
    "AsyncStreamingResponse",
    "StreamingAgentChatResponse",
    "PydanticResponse",
    "Response",
    "AgentChatResponse",
    "NodeWithScore",
)
"""Classes of results that are told apart; a subclass is what its base is."""

_MAX_CLASSES = 1_000

_results: dict[type, str | None] = {}


def _is_a(cls: type, name: str) -> bool:
    return any(
        base.__name__ == name and base.__module__.partition(".")[0] in _PACKAGES
        for base in cls.__mro__
    )


def _result_class(result: object) -> str | None:
    """Return which of `_RESULTS` an object is, or None; remembered per class."""
    cls = type(result)
    try:
        return _results[cls]
    except KeyError:
        pass
    if len(_results) >= _MAX_CLASSES:
        _results.clear()
    found = _results[cls] = next((name for name in _RESULTS if _is_a(cls, name)), None)
    return found


def kind_of(cls: type, method: str) -> Kind | None:
    """Return what a call of `method` on an instance of `cls` is, or None for all that is passed over."""
    if method not in _METHODS:
        return None
    for base, methods, kind in _KINDS:
        if method in methods and _is_a(cls, base):
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
    """Return the text of a query, a query bundle or a chat message; None for anything else."""
    if isinstance(value, str):
        return value
    for attribute in ("query_str", "content"):
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
    for name in _QUESTION_ARGUMENTS[kind]:
        if name in arguments:
            return text_of(arguments[name])
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
        history = _field(source, "chat_history")
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


class Answer(NamedTuple):
    """What a request's own call returned."""

    text: str | None = None
    """The answer; None: there is none, or it is still to be streamed."""
    stream: Literal["query", "chat"] | None = None
    """How the rest of the answer comes, if it is streamed."""
    holder: Any = None
    """The response object that holds the stream; passed on at once, never kept."""
    nodes_only: bool = False
    """The result is a list of nodes: nobody asked for an answer."""


_NO_ANSWER = Answer()


def answer_of(result: object) -> Answer:
    """Read the answer in what a query, chat, synthesis or workflow run returned.

    ``Response``: its text. ``PydanticResponse``: its JSON. Chat responses: their text. A stop
    event: its result; for a subclass with fields of its own, the first of `_STOP_FIELDS` that
    holds something, else the event as text. Streaming responses: see `Answer.stream`.
    """
    if result is None:
        return _NO_ANSWER
    if isinstance(result, str):
        return Answer(result or None)
    kind = _result_class(result)
    if kind == "StopEvent":
        return _answer_of_stop(result)
    if kind in ("StreamingResponse", "AsyncStreamingResponse"):
        text = getattr(result, "response_txt", None)
        return Answer(text) if isinstance(text, str) else Answer(stream="query", holder=result)
    if kind == "StreamingAgentChatResponse":
        return Answer(stream="chat", holder=result)
    if kind == "PydanticResponse":
        return Answer(None if getattr(result, "response", None) is None else str(result))
    if kind in ("Response", "AgentChatResponse"):
        response = getattr(result, "response", None)
        return Answer(None if response is None or response == "" else str(response))
    if isinstance(result, (list, tuple)):
        nodes = bool(result) and all(_result_class(item) == "NodeWithScore" for item in result)
        return Answer(nodes_only=True) if nodes or not result else Answer(str(result))
    if hasattr(result, "__next__") or hasattr(result, "__anext__"):
        # A bare generator belongs to its reader; it cannot be watched without replacing it.
        return _NO_ANSWER
    return Answer(text_of(result) or str(result) or None)


def _answer_of_stop(event: object) -> Answer:
    result = getattr(event, "result", None)
    if result is not None and result is not event:
        return answer_of(result)
    if type(event).__name__ == "StopEvent":
        return _NO_ANSWER
    for name in _STOP_FIELDS:
        value = getattr(event, name, None)
        if value is not None and value is not event:
            return answer_of(value)
    return Answer(str(event) or None)


def source_ids_of(result: object) -> tuple[str, ...]:
    """Return the ids of the nodes that the response names as its sources, in its order."""
    if _result_class(result) == "StopEvent":
        result = getattr(result, "result", None)
    nodes = getattr(result, "source_nodes", None)
    if not isinstance(nodes, (list, tuple)):
        return ()
    return tuple(dict.fromkeys(str(getattr(item, "node_id", "")) for item in nodes))
