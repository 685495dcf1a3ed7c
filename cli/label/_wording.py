"""The rater's screen texts in English, Russian and Chinese: the question, the keys, the outcome.

One `Wording` per language; a score without a specific question gets the general one. No layout.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files

from pydantic import TypeAdapter

from ragmeter.exporters.change_words import Language


@dataclass(frozen=True, slots=True)
class Wording:
    """All words of one language."""

    question: str
    contexts: str
    answer: str
    nothing: str
    asked: Mapping[str, str]
    """By score: the question to the rater."""
    asked_of_any: str
    """The question for any other score, with its name."""
    grades: Mapping[str, tuple[str, str]]
    """By score: the meaning of 1 and 5."""
    grades_of_any: tuple[str, str]
    yes: str
    no: str
    keys: str
    more: str
    place: str
    unknown: str
    saved: str
    mean: str
    early: str
    done: str
    volunteered: str
    rate: str
    early_rate: str


WORDINGS = TypeAdapter(dict[Language, Wording]).validate_json(
    files("ragmeter.cli.label").joinpath("wordings.json").read_bytes()
)
