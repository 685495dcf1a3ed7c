"""What a run of `rivals.py` is: a function that sends requests, and what is right to tell of them.

The runs stand in `rival_langchain.py` and `rival_llama_index.py`. A run must not know what is attached
beyond the callbacks that it is given.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Asked:
    """One request as it happened: what a tool has to say of it."""

    question: str
    contexts: tuple[str, ...]
    """Texts in the order in which the model saw them."""
    answer: str


@dataclass(frozen=True, slots=True)
class Run:
    """A run, and what is right to report."""

    send: Callable[[list[Any]], None]
    """Sends the requests, with these callbacks where the framework takes them."""
    asked: tuple[Asked, ...] = ()
    """Empty: nothing is to be reported as a request that retrieved and was answered."""


def seen(prompt: str) -> str:
    """Return the answer to a prompt: which documents stand in it, in its order."""
    return "saw " + ",".join(re.findall(r"doc-[\w-]+", prompt))


def one(question: str, *names: str) -> Asked:
    """Return a request whose model saw the documents of these names, in this order."""
    return Asked(question, tuple(map(text, names)), "saw " + ",".join(f"doc-{n}" for n in names))


def text(name: str) -> str:
    """Return the document of a name."""
    return f"doc-{name} says what is known of {name}."
