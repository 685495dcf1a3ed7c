"""The output of ``ragmeter queue``, for people and as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich.table import Table

from ragmeter.cli._console import Console
from ragmeter.fleet.queue import QueueStatus

from .run import Letter

_UNITS = ((86_400.0, "d"), (3_600.0, "h"), (60.0, "min"))


def status_as_json(status: QueueStatus) -> dict[str, Any]:
    """Return the counts."""
    return asdict(status)


def print_status(status: QueueStatus, console: Console) -> None:
    """Print the counts, one per line."""
    console.print(f"{status.waiting} messages wait to be scored, up to 32 requests each")
    console.print(f"{status.dead} messages are dead letters")
    if status.workers is not None:
        console.print(f"{status.workers} workers are connected")
    for name in status.differing:
        console.print(
            f"{name} was declared with other bounds than ragmeter's; it is used as it is",
            style="yellow",
            markup=False,
        )


def letters_as_json(found: Sequence[Letter]) -> list[dict[str, Any]]:
    """Return the letters; texts are a separate key, present only on request."""
    rows = [asdict(one) for one in found]
    for row in rows:
        if row["texts"] is None:
            del row["texts"]
    return rows


def print_letters(found: Sequence[Letter], console: Console) -> None:
    """Print the letters, oldest first."""
    if not found:
        console.print("no dead letters")
        return
    table = Table("dead for", "deaths", "service", "requests", "reason", box=None, pad_edge=False)
    for one in found:
        ids = ", ".join(one.ids[:3]) + (f", and {len(one.ids) - 3} more" if len(one.ids) > 3 else "")
        table.add_row(
            _age(one.age_s),
            str(one.deaths),
            one.service or "–",
            ids if one.readable or one.ids else "unreadable",
            one.reason,
        )
    console.print(table, markup=False)
    for one in found:
        for named, text in zip(one.ids, one.texts or (), strict=False):
            console.print(f"{named}:", style="bold", markup=False)
            console.print(json.dumps(text, ensure_ascii=False, indent=2), markup=False, highlight=False)


def _age(seconds: float | None) -> str:
    if seconds is None:
        return "–"
    for size, unit in _UNITS:
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"
