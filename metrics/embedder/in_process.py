"""Embedders that run in this process: a framework's, or a plain function.

`as_embedder` accepts a LangChain ``Embeddings``, a LlamaIndex embedding, a function from texts to vectors, or
an object with `embed`. They block, so they run on a separate thread and in a separate context:
instrumentations do not attribute their calls to the application.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol, cast, runtime_checkable

from ragmeter.metrics.errors import ConfigurationError

from .embedder import Embedder, Numbers

__all__ = ["InProcessEmbedder", "as_embedder"]


@runtime_checkable
class _OfLangChain(Protocol):
    """The part of ``langchain_core.embeddings.Embeddings`` that is used."""

    def embed_query(self, text: str) -> list[float]: ...

    def embed_documents(self, texts: list[str]) -> list[list[float]]: ...


@runtime_checkable
class _OfLlamaIndex(Protocol):
    """The part of ``llama_index.core.embeddings.BaseEmbedding`` that is used."""

    def get_query_embedding(self, query: str) -> list[float]: ...

    def get_text_embedding_batch(self, texts: list[str]) -> list[list[float]]: ...


class InProcessEmbedder(Embedder):
    """An embedding model in this process, as an `Embedder`.

    Args:
        source: A LangChain ``Embeddings``, a LlamaIndex embedding, a function (also an ``async`` one) from
            a list of texts to one vector per text, or an object with ``embed(texts, *, query)``.
        name: The model's name; None: that of `source`.
        options: As in `Embedder`.

    Raises:
        ConfigurationError: `source` is none of these, or an option is wrong.
    """

    def __init__(self, source: object, name: str | None = None, **options: Any) -> None:
        self._source = source
        self._options = options
        self._embed = _embed_with(source)
        self.knows_questions = self._embed.func is not _with_function
        super().__init__(name or _name_of(source), **options)

    def __repr__(self) -> str:
        return f"InProcessEmbedder(name={self.name!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the model and the options, but not the cache."""
        return partial(InProcessEmbedder, self._source, self.name, **self._options), ()

    async def embed(self, texts: Sequence[str], *, query: bool) -> Numbers:
        """Embed on a thread, without blocking the event loop."""
        made = await self._on_thread(partial(self._embed, list(texts), query))
        return cast("Numbers", await made if inspect.isawaitable(made) else made)


def as_embedder(given: object) -> Embedder:
    """Return a value passed as ``embedder=`` as an `Embedder`.

    Raises:
        ConfigurationError: It is not an embedder.
    """
    return given if isinstance(given, Embedder) else InProcessEmbedder(given)


def _embed_with(source: Any) -> partial[Any]:
    """Return a function that calls `source`."""
    if not isinstance(source, type):
        if isinstance(source, _OfLangChain):
            return partial(_with_langchain, source)
        if isinstance(source, _OfLlamaIndex):
            return partial(_with_llama_index, source)
        embed = getattr(source, "embed", None)
        if callable(embed):
            return partial(_with_object, embed)
        if callable(source):
            return partial(_with_function, source)
    # Not its repr, which may show a key.
    shown = repr(source) if isinstance(source, (str, type)) else f"a {type(source).__name__}"
    raise ConfigurationError(
        f"embedder is {shown}; pass a LangChain Embeddings, a LlamaIndex embedding, "
        "OpenAIEmbedder(...) from ragmeter.metrics.embedder, or a function from a list of texts to "
        "their vectors"
    )


def _with_langchain(source: _OfLangChain, texts: list[str], query: bool) -> Any:
    return [source.embed_query(text) for text in texts] if query else source.embed_documents(texts)


def _with_llama_index(source: _OfLlamaIndex, texts: list[str], query: bool) -> Any:
    if query:
        return [source.get_query_embedding(text) for text in texts]
    return source.get_text_embedding_batch(texts)


def _with_object(embed: Callable[..., Any], texts: list[str], query: bool) -> Any:
    return embed(texts, query=query)


def _with_function(function: Callable[[list[str]], Any], texts: list[str], query: bool) -> Any:
    del query  # only prefixes distinguish questions from chunks
    return function(texts)


def _name_of(source: object) -> str:
    """Return the model's name in the framework's field, else the name of function or class."""
    for attribute in ("model_name", "model", "name", "__name__"):
        name = getattr(source, attribute, None)
        if isinstance(name, str) and name and name != "unknown":
            return name
    return type(source).__name__
