"""Embedders: what turns texts into vectors, and what makes asking them affordable.

Public names are imported when they are used: a program without an embedder loads none of it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .embedder import Embedder, EmbedderStats
    from .in_process import InProcessEmbedder, as_embedder
    from .openai import OpenAIEmbedder

__all__ = ["Embedder", "EmbedderStats", "InProcessEmbedder", "OpenAIEmbedder", "as_embedder"]

_HOMES = {
    "InProcessEmbedder": "in_process",
    "OpenAIEmbedder": "openai",
    "as_embedder": "in_process",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_HOMES.get(name, 'embedder')}", __name__), name)


def __dir__() -> list[str]:
    return sorted(__all__)
