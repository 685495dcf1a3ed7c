"""``--segments`` of a folder: the sums of each segment, from the parts and from the lists of rows.

A part knows rows by their keys, a list knows to which segments each of its lines belongs: equal rows are
measured once, and may belong to several.  Called by `_summing`, part after part; what is kept does not
grow with them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from ragmeter.metrics import Score
from ragmeter.quality.segments import OTHER
from ragmeter.quality.summary import Summarizer

from ._by_segment import new_summarizer
from ._listed import RowList

__all__ = ["SegmentSums"]


class SegmentSums:
    """Takes the scores of one part after the other.

    Args:
        listed: The rows, with their segments.
    """

    def __init__(self, listed: RowList) -> None:
        self._names = {name: [*values, OTHER] for name, values in listed.values.items()}
        self._codes = listed.codes
        self._found: dict[str, dict[str, Summarizer]] = {name: {} for name in self._names}
        self._counts = self._starts = np.empty(0, dtype=np.int64)

    def begin(self, counts: NDArray[np.int64], starts: NDArray[np.int64]) -> None:
        """Begin a part.

        Args:
            counts: How often each of its rows occurs.
            starts: The first line of each of them, as `RowList.find` says.
        """
        self._counts, self._starts = counts, starts

    def values(
        self, described: Score, rows: NDArray[np.int64], values: NDArray[np.float64]
    ) -> None:
        """Take in values of one score.

        Args:
            described: Any score of that name.
            rows: The number of the row in the part, for each value.
            values: The values.
        """
        if not self._names:
            return
        repeated = np.repeat(values, self._counts[rows])
        for summarizer, here in self._each(self._lines(rows)):
            summarizer.add_many(described, repeated[here].tolist())

    def missing(
        self, described: Score, rows: NDArray[np.int64], status: str, lacking: str | None
    ) -> None:
        """Take in scores without a value, of one name and status."""
        if not self._names:
            return
        for summarizer, here in self._each(self._lines(rows)):
            summarizer.add_many(described, ())
            summarizer.missing(described.name, status, int(here.sum()), lacking)

    def all(self, names: Sequence[str]) -> Mapping[str, Mapping[str, Summarizer]]:
        """Return the sums by name of segment and value, the scores in the order of `names`."""
        found: dict[str, dict[str, Summarizer]] = {}
        for name, of_value in self._found.items():
            found[name] = {value: new_summarizer() for value in of_value}
            for value, summarizer in of_value.items():
                found[name][value].take_over(summarizer, names)
        return found

    def _lines(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the lines of rows, those of a row one after the other."""
        counts = self._counts[rows]
        before = np.cumsum(counts) - counts
        return np.repeat(self._starts[rows] - before, counts) + np.arange(int(counts.sum()))

    def _each(self, lines: NDArray[np.int64]) -> Iterator[tuple[Summarizer, NDArray[np.bool_]]]:
        for name, values in self._names.items():
            codes = self._codes[name][lines]
            for code in np.unique(codes):
                known = self._found[name]
                value = values[code]
                if value not in known:
                    known[value] = new_summarizer()
                yield known[value], codes == code
