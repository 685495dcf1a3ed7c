"""Merge the sums of this and other processes for one watch: `merge_sums`.

A process that receives the scores of others counts both: sums of the same score, of the same part of the same
service, add up. If its judge differs from theirs, the two are different quantities, and stay separate.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ragmeter.exporters.protocol import QualitySums

from .sums import SlotSums


def merge_sums(own: Iterable[SlotSums], others: Iterable[SlotSums]) -> list[SlotSums]:
    """Combine two sums of the same five-minute slot.

    Args:
        own: The sums of this process.
        others: The sums of other processes.
    """
    found = {_key_of(slot.counted): slot for slot in own}
    for slot in others:
        key = _key_of(slot.counted)
        mine = found.get(key)
        if mine is None:
            found[key] = slot
        else:
            one, other = mine.counted.sums, slot.counted.sums
            sums = {name: one.get(name, 0.0) + other.get(name, 0.0) for name in {**one, **other}}
            found[key] = slot._replace(counted=replace(mine.counted, sums=sums))
    return list(found.values())


def _key_of(counted: QualitySums) -> tuple[object, ...]:
    return (
        tuple(sorted(counted.resource.items())),
        counted.workflow,
        counted.score,
        counted.segment,
        counted.measured_by,
    )
