"""Results as data frames. pandas is imported on first use, and is no dependency of ragmeter."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ragmeter.metrics.errors import MissingDependencyError

from .html import ShownRow
from .summary import ScoreSummary

if TYPE_CHECKING:
    from ragmeter.metrics.score import Score


def frame_of_rows(rows: Sequence[ShownRow]) -> Any:
    """Return a pandas frame, a row per request: question, verdict, codes, and each score.

    A score without a value is ``<NA>``, never 0.
    """
    names = dict.fromkeys(name for row in rows for name in row.scores)
    return frame_of_fields(
        {
            "question": [row.question for row in rows],
            "verdict": [None if row.verdict is None else row.verdict.word for row in rows],
            "codes": [() if row.verdict is None else row.verdict.codes for row in rows],
        },
        {name: [row.scores[name].value if name in row.scores else None for row in rows] for name in names},
    )


def frame_of_scores(scores: Iterable[Score]) -> Any:
    """Return a pandas frame, a row per score: ``score``, ``value``, ``status``, ``label``, ``explanation``."""
    listed = list(scores)
    frame = frame_of_fields(
        {"score": [score.name for score in listed]}, {"value": [score.value for score in listed]}
    )
    for name in ("status", "label", "explanation"):
        frame[name] = [getattr(score, name) for score in listed]
    return frame


def frame_of_summaries(summaries: Iterable[ScoreSummary]) -> Any:
    """Return a pandas frame, a row per score name: number of values, mean, interval, percentiles."""
    listed = list(summaries)
    numbers = ("mean", "mean_low", "mean_high", "p10", "p50", "p90")
    return frame_of_fields(
        {
            "score": [one.name for one in listed],
            "count": [one.count for one in listed],
            "without_value": [sum(one.without_value.values()) for one in listed],
        },
        {name: [getattr(one, name) for one in listed] for name in numbers},
    )


def frame_of_fields(columns: Mapping[str, Sequence[Any]], numbers: Mapping[str, Sequence[float | None]]) -> Any:
    """Return a pandas frame of unchanged columns and of numeric columns, in which None is ``<NA>``.

    Raises:
        MissingDependencyError: pandas is not installed.
    """
    try:
        pandas = import_module("pandas")
    except ImportError:
        raise MissingDependencyError("pandas", None, "to_pandas()") from None
    floats = {name: pandas.array(values, dtype="Float64") for name, values in numbers.items()}
    return pandas.DataFrame({**columns, **floats})
