"""The sums of one score of the last two weeks, for the means that an alarm quotes.

A detector needs three numbers of a block; an alarm also quotes the means before and since with confidence
intervals, which need all the sums. Called by `ragmeter.watch.watch`; not thread-safe.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ragmeter.quality.moments import FreeMoments, JudgedMoments, Moments
from ragmeter.quality.sums_by_time import SLOT_S, SumsByTime


@dataclass(slots=True)
class History(SumsByTime):
    """Sums by five minutes for three hours, by hours for a day, and by days for two weeks."""

    LIMITS = ((SLOT_S, 3 * 3600.0), (3600.0, 26 * 3600.0), (86_400.0, 15 * 86_400.0))

    judged: bool = False
    """Whether they are those of a judged score, which have weights."""

    def __post_init__(self) -> None:
        SumsByTime.__post_init__(self)
        if any(len(sums) != len(self._kind.names) for _, _, sums in self.all()):
            raise ValueError("these are the sums of another version")

    @property
    def _kind(self) -> type[Moments]:
        return JudgedMoments if self.judged else FreeMoments

    def add_slot(self, at: float, sums: Mapping[str, float]) -> None:
        """Add the sums of a five-minute slot, by name; `at` is its start, unix seconds."""
        self.add(at, [sums.get(name, 0.0) for name in self._kind.names])
        self.age(at)

    def split(self, since: float) -> tuple[Moments, Moments]:
        """Return the sums before `since` (unix seconds) and those from it on.

        An interval that contains `since` counts as after it.
        """
        before, after = self._kind(), self._kind()
        for _, end, sums in self.all():
            (before if end <= since else after).add(sums)
        return before, after
