"""Requests made of public labelled data, to measure the reliability of scores.

MTRAG's human subset (Katsis et al. 2025, Apache-2.0) has answers with people's ratings; XQuAD (Artetxe et al.
2020, CC BY-SA 4.0) has questions with a known paragraph, of which pairs are built: the answer's paragraph
among three retrieved ones, or left out. The data is not part of this repository.
"""

from __future__ import annotations

import gzip
import json
import math
import os
import random
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ragmeter.metrics import sentences
from ragmeter.metrics.text.terms import terms_of_line

LANGUAGES = ("en", "ru", "zh")
QUESTIONS = 400
RETRIEVED = 3
BAD_RATING = 2.5
"""People's mean rating, 1 to 4, at or below which an answer counts as bad."""


@dataclass(frozen=True)
class RatedAnswer:
    """An answer of MTRAG."""

    task: str
    conversation: str
    collection: str
    model: str
    question: str
    contexts: tuple[str, ...]
    answer: str
    faithfulness: float
    """Mean of three raters, 1 to 4; likewise the next two."""
    appropriateness: float
    completeness: float
    judged: float
    """The faithfulness that is published with the data, by an LLM judge, 0 to 1."""

    @property
    def is_bad(self) -> bool:
        """Whether any of the three ratings is bad."""
        return min(self.faithfulness, self.appropriateness, self.completeness) <= BAD_RATING


@dataclass(frozen=True)
class BuiltRequest:
    """A question of XQuAD with three paragraphs."""

    question: str
    contexts: tuple[str, ...]
    present: bool
    """Whether the paragraph with the answer is among them."""
    answer: str
    """The sentence of that paragraph with the answer."""


def data_folder() -> Path | None:
    """Return the folder given as argument or by RAGMETER_BENCH_DATA; None, with a message, if there is none."""
    given = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("RAGMETER_BENCH_DATA")
    if given:
        return Path(given)
    print("skipped: pass the folder of the labelled data, or set RAGMETER_BENCH_DATA")
    return None


def read_json(folder: Path, *parts: str) -> Any:
    """Return the content of a packed file."""
    with gzip.open(folder.joinpath(*parts), "rt", encoding="utf-8") as file:
        return json.load(file)


def rated_answers(folder: Path) -> tuple[list[RatedAnswer], list[str]]:
    """Return MTRAG's answers, and the texts of all its documents."""
    data = read_json(folder, "mtrag_human", "reference_subset_with_human_evaluations.json.gz")
    documents = {d["document_id"]: d["text"] for d in data["documents"]}
    tasks = {task["task_id"]: task for task in data["tasks"]}
    answers = []
    for evaluation in data["evaluations"]:
        task, notes = tasks[evaluation["task_id"]], evaluation["annotations"]
        [judged] = notes["rl_f"].values()
        answers.append(
            RatedAnswer(
                task=evaluation["task_id"],
                conversation=evaluation["task_id"].split("<")[0],
                collection=task["Collection"],
                model=evaluation["model_id"],
                question=task["input"][-1]["text"],
                contexts=tuple(documents[c["document_id"]] for c in task["contexts"]),
                answer=evaluation["model_response"],
                judged=float(judged["value"]),
                **{
                    name: math.fsum(float(r["value"]) for r in notes[name].values()) / len(notes[name])
                    for name in ("faithfulness", "appropriateness", "completeness")
                },
            )
        )
    return answers, list(documents.values())


class Bm25:
    """Okapi BM25 over texts, on the terms that the lexical metrics compare."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._counts = [Counter(terms_of_line(text)) for text in texts]
        self._lengths = [counts.total() for counts in self._counts]
        self._mean = sum(self._lengths) / len(texts)
        found = Counter(term for counts in self._counts for term in counts)
        self._idf = {term: math.log(1 + (len(texts) - n + 0.5) / (n + 0.5)) for term, n in found.items()}

    def ranked(self, question: str) -> list[int]:
        """Return the indices of all texts, the nearest first."""
        terms = [term for term in dict.fromkeys(terms_of_line(question)) if term in self._idf]
        scores = [
            sum(
                self._idf[term] * counts[term] * 2.2
                / (counts[term] + 1.2 * (0.25 + 0.75 * length / self._mean))
                for term in terms
                if term in counts
            )
            for counts, length in zip(self._counts, self._lengths, strict=True)
        ]  # fmt: skip
        return sorted(range(len(scores)), key=lambda place: (-scores[place], place))

    def share(self, query: str, text: str) -> float:
        """Return the score of another text for a query as a share of the largest possible score."""
        counts = Counter(terms_of_line(text))
        terms = [term for term in dict.fromkeys(terms_of_line(query)) if term]
        rare = math.log(1 + len(self._counts) + 0.5)
        length = 1.2 * (0.25 + 0.75 * counts.total() / self._mean)
        scored = math.fsum(
            self._idf.get(term, rare) * counts[term] * 2.2 / (counts[term] + length) for term in terms
        )
        return scored / (2.2 * math.fsum(self._idf.get(term, rare) for term in terms) or 1.0)


def swapped_contexts(answers: Sequence[RatedAnswer], documents: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return, for each task with passages, as many wrong ones: BM25's nearest of other conversations."""
    search = Bm25(documents)
    places = {text: place for place, text in enumerate(documents)}
    own: dict[str, set[int]] = {}
    collection: dict[int, str] = {}
    for answer in answers:
        used = {places[text] for text in answer.contexts}
        own.setdefault(answer.conversation, set()).update(used)
        collection.update(dict.fromkeys(used, answer.collection))
    found: dict[str, tuple[str, ...]] = {}
    for answer in answers:
        if answer.contexts and answer.task not in found:
            others = [
                place
                for place in search.ranked(answer.question)
                if collection.get(place) == answer.collection and place not in own[answer.conversation]
            ]
            found[answer.task] = tuple(documents[place] for place in others[: len(answer.contexts)])
    return found


def built_requests(folder: Path, language: str) -> list[BuiltRequest]:
    """Return a request with and one without the right paragraph for each of 400 questions.

    The wrong paragraphs are the nearest that BM25 finds, and so the hardest for any comparison of words.
    """
    data = read_json(folder, "xquad", f"xquad.{language}.json.gz")["data"]
    paragraphs: list[str] = []
    asked: list[tuple[str, int, str]] = []
    for article in data:
        for paragraph in article["paragraphs"]:
            paragraphs.append(paragraph["context"])
            asked += [
                (qa["question"], len(paragraphs) - 1, qa["answers"][0]["text"]) for qa in paragraph["qas"]
            ]
    random.Random(1).shuffle(asked)
    search = Bm25(paragraphs)
    built: list[BuiltRequest] = []
    for question, right, answer in asked[:QUESTIONS]:
        order = search.ranked(question)
        wrong = [place for place in order if place != right][:RETRIEVED]
        kept = {*wrong[: RETRIEVED - 1], right}
        found = [place for place in order if place in kept]
        said = next((one for one in sentences(paragraphs[right]) if answer in one), answer)
        for present, places in ((True, found), (False, wrong)):
            texts = tuple(paragraphs[place] for place in places)
            built.append(BuiltRequest(question, texts, present, said))
    return built
