"""The runs of `rivals.py`: functions that send requests, with the correct report of these.

The runs are defined in `rival_langchain.py` and `rival_llama_index.py`. A run must not depend on what is
attached, except for the callbacks that it receives.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Asked:
    """One request as it happened: the correct report of a tool."""

    question: str
    contexts: tuple[str, ...]
    """Texts in the order in which the model saw them."""
    answer: str


@dataclass(frozen=True, slots=True)
class Run:
    """A run, with the correct report."""

    send: Callable[[list[Any]], None]
    """Sends the requests, with these callbacks if the framework accepts them."""
    asked: tuple[Asked, ...] = ()
    """Empty: nothing must be reported as a request that retrieved and was answered."""


def seen(prompt: str) -> str:
    """Return the answer to a prompt: the documents in it, in its order."""
    return "saw " + ",".join(re.findall(r"doc-[\w-]+", prompt))


def one(question: str, *names: str) -> Asked:
    """Return a request whose model saw the documents of these names, in this order."""
    return Asked(question, tuple(map(text, names)), "saw " + ",".join(f"doc-{n}" for n in names))


def text(name: str) -> str:
    """Return the document of a name."""
    return f"doc-{name} says what is known of {name}."
