"""The folder of an earlier run as a baseline: read as a report reads it."""

from __future__ import annotations

from pathlib import Path

from ragmeter.metrics import ConfigurationError, VerdictRules
from ragmeter.quality.row_scores import RowScores

from ._listed import RowList
from ._parts import Folder
from ._summing import sum_up

__all__ = ["scores_of_folder"]


def scores_of_folder(path: Path) -> RowScores:
    """Return the scores of all shards of a folder.

    Raises:
        ConfigurationError: No run has come to its end there, or a list cannot be read.
    """
    scores = RowScores()
    with Folder(path, None) as folder:
        sum_up(folder, RowList(folder.lists()), VerdictRules(), scores)
    if not len(scores):
        raise ConfigurationError(f"--baseline {str(path)!r} holds no scores")
    return scores
