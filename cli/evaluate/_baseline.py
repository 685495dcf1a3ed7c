"""What an earlier run of ``ragmeter evaluate`` found, read from its ``--out``. Called by `app`."""

from __future__ import annotations

from pathlib import Path

from ragmeter.quality.earlier_run import read_scores
from ragmeter.quality.row_scores import RowScores

__all__ = ["read_baseline"]


def read_baseline(path: Path) -> RowScores:
    """Return the scores of an earlier run, from its ``--out`` file or folder.

    Raises:
        ConfigurationError: The file cannot be read, or was not written by ``ragmeter evaluate``.
    """
    if path.is_dir():
        from ._folder import scores_of_folder  # noqa: PLC0415 -- brings pyarrow, an extra

        return scores_of_folder(path)
    return read_scores(path, "--baseline")
