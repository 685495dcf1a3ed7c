"""Keep the sums of one score for two weeks, in coarser intervals with age, for the means that an alarm quotes.

Intervals are five minutes for three hours, hours for a day, and days for two weeks. A detector needs three
numbers of a block; an alarm also quotes the means before and since with confidence intervals, which need all
the sums. Called by `ragmeter.watch.watch`; not thread-safe.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ragmeter.quality._series import SLOT_S
from ragmeter.quality.moments import FreeMoments, JudgedMoments, Moments

__all__ = ["History"]

_TIERS = ((SLOT_S, 3 * 3600.0), (3600.0, 26 * 3600.0), (86_400.0, 15 * 86_400.0))
"""Width of an interval and how long such intervals are kept, in seconds."""

_Part = tuple[float, "array[float]"]


class History:
    """Sums by time.

    Args:
        kind: `FreeMoments` or `JudgedMoments`.
    """

    __slots__ = ("_kind", "_tiers")

    def __init__(self, kind: type[Moments]) -> None:
        self._kind = kind
        self._tiers: tuple[deque[_Part], ...] = tuple(deque() for _ in _TIERS)

    @classmethod
    def of(cls, sums: Mapping[str, float]) -> History:
        """Return an empty history for sums of this kind: a judged score has weights."""
        return cls(JudgedMoments if "w" in sums else FreeMoments)

    def add(self, at: float, sums: Mapping[str, float]) -> None:
        """Add the sums of a five-minute slot; slots come in order.

        Args:
            at: Start of the slot, unix seconds.
            sums: The sums, by name.
        """
        names = self._kind.names
        self._put(0, at, array("d", [sums.get(name, 0.0) for name in names]))
        for tier, (_, kept_s) in enumerate(_TIERS):
            parts = self._tiers[tier]
            while parts and parts[0][0] <= at - kept_s:
                start, values = parts.popleft()
                if tier + 1 < len(_TIERS):
                    self._put(tier + 1, start, values)

    def split(self, since: float) -> tuple[Moments, Moments]:
        """Return the sums before `since` (unix seconds) and those from it on.

        An interval that contains `since` counts as after it.
        """
        before, after = self._kind(), self._kind()
        for (width_s, _), parts in zip(_TIERS, self._tiers, strict=True):
            for start, values in parts:
                (before if start + width_s <= since else after).add(values)
        return before, after

    def clear(self) -> None:
        """Discard all entries."""
        for parts in self._tiers:
            parts.clear()

    def state(self) -> dict[str, Any]:
        """Return the history as JSON values."""
        return {
            "names": list(self._kind.names),
            "parts": [[[start, list(values)] for start, values in parts] for parts in self._tiers],
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> History:
        """Restore a history from its `state`.

        Raises:
            ValueError, KeyError, TypeError: The state is of another version, or damaged.
        """
        names: Sequence[str] = state["names"]
        made = cls(JudgedMoments if "w" in names else FreeMoments)
        known = {name: place for place, name in enumerate(names)}
        places = [known.get(name) for name in made._kind.names]
        for parts, saved in zip(made._tiers, state["parts"], strict=True):
            for start, values in saved:
                read = [0.0 if place is None else float(values[place]) for place in places]
                parts.append((float(start), array("d", read)))
        return made

    def _put(self, tier: int, at: float, values: Iterable[float]) -> None:
        width_s, _ = _TIERS[tier]
        start = at // width_s * width_s
        parts = self._tiers[tier]
        if parts and parts[-1][0] == start:
            last = parts[-1][1]
            for place, value in enumerate(values):
                last[place] += value
        else:
            parts.append((start, array("d", values)))
