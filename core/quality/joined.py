"""What was counted here and in other processes, put together for one watch over all of it: `Joined`.

A process that receives what others scored counts both kinds: sums of the same score, of the same part of the
same service, add up.  Where its own judge is another than theirs, the two are two quantities; then the own one
is watched alone, since requests of one service that are scored in two places are rare, and the reason is
that somebody is moving from the one to the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

from ragmeter.exporters.protocol import QualitySums

from .sums import SlotSums

__all__ = ["Joined"]


class _Key(NamedTuple):
    resource: tuple[tuple[str, str], ...]
    workflow: str
    score: str
    segment: str


class Joined:
    """Joins sums of the same five minutes. For one thread."""

    def __init__(self) -> None:
        self._judges: dict[_Key, str] = {}

    def of(self, own: Iterable[SlotSums], others: Iterable[SlotSums]) -> list[SlotSums]:
        """Return both together.

        Args:
            own: What was counted here, in five minutes.
            others: What was counted elsewhere, in the same.
        """
        found: dict[_Key, SlotSums] = {}
        for slot in own:
            key = _key_of(slot.counted)
            self._judges[key] = slot.counted.judge
            found[key] = slot
        for slot in others:
            key = _key_of(slot.counted)
            mine = found.get(key)
            if mine is not None and mine.counted.judge == slot.counted.judge:
                sums = _sum(mine.counted.sums, slot.counted.sums)
                found[key] = slot._replace(counted=replace(mine.counted, sums=sums))
            elif self._judges.get(key, slot.counted.judge) == slot.counted.judge:
                found[key] = slot
        return list(found.values())


def _key_of(counted: QualitySums) -> _Key:
    return _Key(
        tuple(sorted(counted.resource.items())), counted.workflow, counted.score, counted.segment
    )


def _sum(one: Mapping[str, float], other: Mapping[str, float]) -> dict[str, float]:
    return {name: one.get(name, 0.0) + other.get(name, 0.0) for name in {**one, **other}}
