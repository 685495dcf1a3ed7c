"""Embedders that run in this process: a framework's, or a plain function.

`as_embedder` accepts a LangChain ``Embeddings``, a LlamaIndex embedding, a function from texts to vectors, or
an object with `embed`. They block, so they run on a separate thread and in a separate context:
instrumentations do not attribute their calls to the application.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, cast

from ragmeter.metrics.errors import ConfigurationError

from .embedder import Embedder, Numbers

_FRAMEWORKS = (
    ("embed_query", "embed_documents"),  # LangChain
    ("get_query_embedding", "get_text_embedding_batch"),  # LlamaIndex
)
"""Methods for one question and for texts."""


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
        self._embed, self.knows_questions = _embed_with(source)
        super().__init__(name or _name_of(source), **options)

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


def _embed_with(source: Any) -> tuple[Callable[[list[str], bool], Any], bool]:
    """Return a function of texts, and whether they are questions; and whether `source` treats those apart."""

    def has(*methods: str) -> bool:
        return all(callable(getattr(source, name, None)) for name in methods)

    if not isinstance(source, type):
        for one, many in _FRAMEWORKS:
            if has(one, many):
                return partial(_embed, getattr(source, one), getattr(source, many)), True
        if has("embed"):
            return lambda texts, query: source.embed(texts, query=query), True
        if callable(source):
            return lambda texts, _: source(texts), False
    # Not its repr, which may show a key.
    shown = repr(source) if isinstance(source, (str, type)) else f"a {type(source).__name__}"
    raise ConfigurationError(
        f"embedder is {shown}; pass a LangChain Embeddings, a LlamaIndex embedding, "
        "OpenAIEmbedder(...) from ragmeter.metrics.embedder, or a function from a list of texts to "
        "their vectors"
    )


def _embed(one: Callable[[str], Any], many: Callable[[list[str]], Any], texts: list[str], query: bool) -> Any:
    return [one(text) for text in texts] if query else many(texts)


def _name_of(source: object) -> str:
    """Return the model's name in the framework's field, else the name of function or class."""
    for attribute in ("model_name", "model", "name", "__name__"):
        name = getattr(source, attribute, None)
        if isinstance(name, str) and name and name != "unknown":
            return name
    return type(source).__name__
