"""Embedders: models that turn texts into vectors, with caching, batching and budgets.

Public names are imported on first use: a program without an embedder loads none of them.
"""

from typing import TYPE_CHECKING

from ragmeter.metrics._process.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from .embedder import Embedder, EmbedderStats
    from .in_process import InProcessEmbedder, as_embedder
    from .openai import OpenAIEmbedder

__all__ = ["Embedder", "EmbedderStats", "InProcessEmbedder", "OpenAIEmbedder", "as_embedder"]

_HOMES = {"InProcessEmbedder": "in_process", "OpenAIEmbedder": "openai", "as_embedder": "in_process"}

__getattr__, __dir__ = lazy_exports(__name__, __all__, _HOMES, "embedder")
