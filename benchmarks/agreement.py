"""Agreement of numbers with people's labels: correlations, AUROC, and intervals by resampling.

Imported by the benchmarks that read labelled data; does not depend on any data set.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TypeVar

T = TypeVar("T")


def pearson(x: Sequence[float], y: Sequence[float]) -> float:
    """Return the linear correlation of two lists of the same length."""
    mean_x, mean_y = math.fsum(x) / len(x), math.fsum(y) / len(y)
    dx, dy = [v - mean_x for v in x], [v - mean_y for v in y]
    spread = math.sqrt(math.fsum(v * v for v in dx) * math.fsum(v * v for v in dy))
    return math.fsum(a * b for a, b in zip(dx, dy, strict=True)) / spread


def spearman(x: Sequence[float], y: Sequence[float]) -> float:
    """Return the correlation of the ranks."""
    return pearson(_ranks(x), _ranks(y))


def _ranks(values: Sequence[float]) -> list[float]:
    """Return ranks from 1; ties share their average."""
    order = sorted(range(len(values)), key=values.__getitem__)
    result = [0.0] * len(values)
    start = 0
    while start < len(order):
        end = start
        while end + 1 < len(order) and values[order[end + 1]] == values[order[start]]:
            end += 1
        for position in range(start, end + 1):
            result[order[position]] = (start + end) / 2 + 1
        start = end + 1
    return result


def auroc(rows: Iterable[tuple[bool, float]]) -> float:
    """Return the probability that a number labelled True is above one labelled False; ties count half."""
    by_value: dict[float, list[int]] = {}
    for label, number in rows:
        by_value.setdefault(number, [0, 0])[label] += 1
    below, above, positive = 0, 0.0, 0
    for number in sorted(by_value):
        no, yes = by_value[number]
        above += yes * (below + no / 2)
        below += no
        positive += yes
    return above / (positive * below) if positive and below else math.nan


def interval(
    rows: Iterable[T], group_of: Callable[[T], Hashable], measure: Callable[[list[T]], float], resamples: int
) -> tuple[float, float]:
    """Return the 95 % interval of a measure, by resampling the groups of rows that belong together."""
    by_group: dict[Hashable, list[T]] = {}
    for row in rows:
        by_group.setdefault(group_of(row), []).append(row)
    groups, generator = list(by_group.values()), random.Random(0)
    found = sorted(
        value
        for _ in range(resamples)
        if not math.isnan(
            value := measure([row for group in generator.choices(groups, k=len(groups)) for row in group])
        )
    )
    return found[int(0.025 * len(found))], found[int(0.975 * len(found)) - 1]
