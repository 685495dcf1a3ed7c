"""Precision of the mark that a turn asks again, by two readers, and the readers' agreement.

Run: ``python benchmarks/asked_again.py READER READER PAIRS``, two files of JSON lines with ``id`` and
``asked_again`` that were written independently, and one with ``id``, ``set`` and ``later_question``, which
selects the pairs that today's phrases flag.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ragmeter.metrics._display.mean_interval import wilson_interval
from ragmeter.quality.agreement import kappa
from ragmeter.quality.asked_again import asks_again


def read(path: str, name: str) -> dict[Any, Any]:
    """Return a file's label of each pair."""
    with Path(path).open(encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines if line.strip()]
    return {row["id"]: row[name] for row in rows}


def share(right: int, n: int) -> str:
    lower, upper = wilson_interval(right / n, n) if n else (0.0, 1.0)
    return f"{right} of {n} [{lower:.2f}, {upper:.2f}]"


def show(title: str, first: Mapping[Any, bool], second: Mapping[Any, bool]) -> None:
    n = len(first)
    pairs = [(first[one], second[one]) for one in first]
    print(f"{title}: {n} pairs")
    print(f"  either reader alone: {share(sum(a for a, _ in pairs), n)}, {share(sum(b for _, b in pairs), n)}")  # fmt: skip
    print(f"  both say so: {share(sum(a and b for a, b in pairs), n)}")
    print(f"  at least one: {share(sum(a or b for a, b in pairs), n)}")
    table = [[sum(pair == (a, b) for pair in pairs) for b in (True, False)] for a in (True, False)]
    agreed = (table[0][0] + table[1][1]) / n
    print(f"  they agree on {agreed:.0%}, kappa {kappa(table)}")


def main() -> None:
    first, second = (read(path, "asked_again") for path in sys.argv[1:3])
    sets, later = (read(sys.argv[3], name) for name in ("set", "later_question"))
    both = [one for one in first if one in second and asks_again(later[one])]
    for name in ["all", *sorted(set(sets.values()))]:
        chosen = [one for one in both if name in ("all", sets[one])]
        if chosen:
            show(name, {one: first[one] for one in chosen}, {one: second[one] for one in chosen})


if __name__ == "__main__":
    main()
