"""`InMemoryExporter`: collect results in a list, for tests and notebooks."""

from collections.abc import Sequence
from threading import Condition
from typing import Any

from ragmeter.metrics._display import data_frames as frames
from ragmeter.metrics._display import html
from ragmeter.metrics._display.summary import summarize
from ragmeter.metrics._process import fork

from .protocol import ScoredRun, UnbufferedExporter

__all__ = ["InMemoryExporter", "Results"]

MAX_ROWS = 20
"""Most results shown in a notebook."""


class Results(list[ScoredRun]):
    """A list of `ScoredRun`s that a notebook shows as a table."""

    def to_pandas(self) -> Any:
        """Return a pandas frame, a row per result: question, verdict, codes, and each score.

        Late scores are a separate row, as they are a separate result.

        Raises:
            MissingDependencyError: pandas is not installed.
        """
        return frames.frame_of_rows([one.table_row() for one in self])

    def _repr_html_(self) -> str:
        usual = {one.name: one for one in summarize(one.scores for one in self)}
        return html.fragment(
            html.overview([one.verdict for one in self]),
            html.rows_table([one.table_row() for one in self[:MAX_ROWS]], usual),
            f"<p>… of {len(self)}</p>" if len(self) > MAX_ROWS else "",
        )


class InMemoryExporter(UnbufferedExporter):
    """Stores every `ScoredRun` in memory, for tests and notebooks. Thread-safe, unbounded."""

    def __init__(self) -> None:
        self._results: list[ScoredRun] = []
        self._changed = Condition(fork.lock())

    @property
    def results(self) -> Results:
        """The results so far, oldest first; each has ``.sample`` and ``.scores``."""
        with self._changed:
            return Results(self._results)

    def wait_for(self, count: int, timeout_s: float = 10.0) -> Results:
        """Wait until there are at least `count` results, for at most `timeout_s`; return the results."""
        with self._changed:
            self._changed.wait_for(lambda: len(self._results) >= count, timeout_s)
            return Results(self._results)

    def clear(self) -> None:
        """Remove all results."""
        with self._changed:
            self._results.clear()

    def export(self, batch: Sequence[ScoredRun]) -> None:
        """Append `batch`."""
        with self._changed:
            self._results.extend(batch)
            self._changed.notify_all()
