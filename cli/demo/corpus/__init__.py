"""The demo's library: short articles and questions with references, shipped with the package.

`ragmeter demo` indexes the articles and asks the questions; tests read both.  Every
article was written for this project, in English, Russian or Chinese; four of them
document ragmeter itself.  ``questions.jsonl`` is at the same time a reference file as
``RagMeter(references=...)`` reads it.  This package holds data and its loader only; it must not know
any framework.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from ragmeter.metrics._files.json_lines import read_objects

__all__ = ["Chunk", "CorpusQuestion", "load_chunks", "load_questions", "questions_text"]

_QUESTIONS = "questions.jsonl"


@dataclass(frozen=True, slots=True)
class Chunk:
    """One paragraph of an article, the unit that is indexed and retrieved."""

    id: str
    """Article and number of the paragraph, counted from 1: ``ru-baikal#2``."""
    title: str
    language: str
    """``en``, ``ru`` or ``zh``."""
    text: str


@dataclass(frozen=True, slots=True)
class CorpusQuestion:
    """One line of ``questions.jsonl``."""

    question: str
    answer: str
    contexts: tuple[str, ...]
    """The golden sentences, each verbatim from one chunk; empty if the library has no answer."""
    context_ids: tuple[str, ...]
    """Ids of the chunks with the golden sentences."""
    language: str
    """Language of the question: ``en``, ``ru`` or ``zh``."""
    kind: str
    """``direct``; or designed for bad retrieval: ``other_words`` (the question avoids the article's words),
    ``cross_language`` (the article is in another language), ``not_in_corpus``."""

    referenced: bool
    """Whether the demo's meter has the reference, as for half of the questions: real applications have few."""
    made_up: str | None = None
    """The local model's answer, where it makes one up as language models do."""

    @property
    def reference(self) -> Mapping[str, Any]:
        """The fields of a `ragmeter.metrics.Reference`."""
        return {"answer": self.answer, "contexts": self.contexts, "context_ids": self.context_ids}


def load_chunks() -> tuple[Chunk, ...]:
    """Read all articles, in the order of their file names."""
    articles = sorted(
        (item for item in files(__name__).iterdir() if item.name.endswith(".md")), key=lambda item: item.name
    )
    return tuple(
        chunk
        for article in articles
        for chunk in _paragraphs(article.name.removesuffix(".md"), article.read_text(encoding="utf-8"))
    )


def _paragraphs(name: str, article: str) -> tuple[Chunk, ...]:
    title, _, body = article.partition("\n")
    prefix = name.partition("-")[0]
    return tuple(
        Chunk(
            id=f"{name}#{number}",
            title=title.removeprefix("# ").strip(),
            language=prefix if prefix in ("ru", "zh") else "en",
            text=" ".join(paragraph.split("\n")).strip(),
        )
        for number, paragraph in enumerate(body.strip().split("\n\n"), start=1)
    )


def questions_text() -> str:
    """Return ``questions.jsonl`` unchanged, one JSON object per line."""
    return files(__name__).joinpath(_QUESTIONS).read_text(encoding="utf-8")


def load_questions() -> tuple[CorpusQuestion, ...]:
    """Read all questions, in the order of the file."""
    return tuple(
        CorpusQuestion(
            question=row["question"],
            answer=row["answer"],
            contexts=tuple(row["contexts"]),
            context_ids=tuple(row["context_ids"]),
            language=row["language"],
            kind=row["kind"],
            referenced=row["referenced"],
            made_up=row.get("made_up"),
        )
        for row in read_objects(questions_text().encode())
    )
