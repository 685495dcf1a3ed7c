"""How results look in a notebook, and as a data frame: rows of requests with their scores.

Used by what `evaluate` returns and by `InMemoryExporter`.  HTML is plain tables, everything in it
escaped; pandas is imported when a frame is asked for, and is nobody's dependency.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from importlib import import_module
from typing import Any, NamedTuple

from .errors import MissingDependencyError
from .score import Score
from .verdict import Verdict

__all__ = [
    "Row",
    "frame_of_rows",
    "frame_of_scores",
    "html_of_rows",
    "html_of_scores",
    "html_of_verdicts",
    "html_table",
]

MAX_ROWS = 20
"""Rows that a notebook shows of many."""
MAX_QUESTION_CHARS = 120
_COLOURS = {"bad": "#c62828", "suspect": "#b26a00", "good": "#2e7d32"}


class Row(NamedTuple):
    """One request and what is known of it."""

    question: str | None
    scores: Mapping[str, Score]
    verdict: Verdict | None


def frame_of_rows(rows: Sequence[Row]) -> Any:
    """Return a pandas frame, a row per request: question, verdict, codes, and each score.

    A score without a value is ``<NA>``, never 0.

    Raises:
        MissingDependencyError: pandas is not installed.
    """
    pandas = _pandas()
    columns: dict[str, Any] = {
        "question": [row.question for row in rows],
        "verdict": [None if row.verdict is None else row.verdict.word for row in rows],
        "codes": [() if row.verdict is None else row.verdict.codes for row in rows],
    }
    for name in _names(rows):
        values = [row.scores[name].value if name in row.scores else None for row in rows]
        columns[name] = pandas.array(values, dtype="Float64")
    return pandas.DataFrame(columns)


def frame_of_scores(scores: Mapping[str, Score]) -> Any:
    """Return a pandas frame, a row per score: ``score``, ``value``, ``status``, ``label``, ``explanation``.

    Raises:
        MissingDependencyError: pandas is not installed.
    """
    pandas = _pandas()
    listed = list(scores.values())
    return pandas.DataFrame(
        {
            "score": [score.name for score in listed],
            "value": pandas.array([score.value for score in listed], dtype="Float64"),
            **{
                name: [getattr(score, name) for score in listed]
                for name in ("status", "label", "explanation")
            },
        }
    )


def _pandas() -> Any:
    try:
        return import_module("pandas")
    except ImportError as error:
        raise MissingDependencyError("pandas", None, "to_pandas()") from error


def html_of_rows(rows: Sequence[Row], numbers: Iterable[int] | None = None) -> str:
    """Return a table of requests: question, verdict, why, and each score.

    Args:
        rows: The requests.
        numbers: Those to show, by their place from 0; None: the first.
    """
    shown = list(range(min(len(rows), MAX_ROWS)) if numbers is None else numbers)
    names = _names([rows[number] for number in shown])
    cells = [
        [
            str(number),
            escape(_cut(rows[number].question)),
            _verdict(rows[number].verdict),
            *(_value(rows[number].scores.get(name)) for name in names),
        ]
        for number in shown
    ]
    left = "" if numbers is not None or len(shown) == len(rows) else f"<p>… of {len(rows)}</p>"
    return html_table(["", "question", "verdict", *names], cells) + left


def html_of_scores(scores: Mapping[str, Score], verdict: Verdict | None) -> str:
    """Return a table of one request's scores, below its verdict."""
    cells = [
        [escape(score.name), _value(score), escape(_cut(score.explanation or score.summary))]
        for score in scores.values()
    ]
    return f"<p>{_verdict(verdict)}</p>" + html_table(["score", "value", "what it saw"], cells)


def html_table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; `headings` are text, the cells of `rows` HTML."""
    head = "".join(f'<th scope="col">{escape(heading)}</th>' for heading in headings)
    cells = ("".join(f'<td style="text-align:left">{cell}</td>' for cell in row) for row in rows)
    body = "".join(f"<tr>{row}</tr>" for row in cells)
    return (
        f'<div style="overflow-x:auto"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def html_of_verdicts(rows: Sequence[Row]) -> str:
    """Return how many requests there are, by verdict."""
    counts = Counter("unknown" if row.verdict is None else row.verdict.word for row in rows)
    said = ", ".join(
        f"{counts[word]} {word}" for word in ("bad", "suspect", "good", "unknown") if counts[word]
    )
    return f"<p><b>{len(rows)} requests</b>{': ' if said else ''}{said}</p>"


def _names(rows: Iterable[Row]) -> list[str]:
    return list(dict.fromkeys(name for row in rows for name in row.scores))


def _verdict(verdict: Verdict | None) -> str:
    if verdict is None:
        return "unknown"
    why = escape("; ".join(verdict.reasons))
    word = f'<b style="color:{_COLOURS[verdict.word]}">{verdict.word}</b>'
    return f"{word} {why}" if why else word


def _value(score: Score | None) -> str:
    if score is None:
        return ""
    if score.value is None:
        return f"<i>{escape(score.status)}</i>"
    return f"{score.value:.2f}" if score.range == (0.0, 1.0) else f"{score.value:.4g}"


def _cut(text: str | None) -> str:
    text = (text or "").encode("utf-8", "replace").decode("utf-8")
    return text if len(text) <= MAX_QUESTION_CHARS else text[: MAX_QUESTION_CHARS - 1] + "…"
