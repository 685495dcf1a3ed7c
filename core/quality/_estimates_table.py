"""Estimates as a table of plain text, for a prompt or a log: one line each, intervals included."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .estimate import Estimate

__all__ = ["estimates_table"]

_UNKNOWN = "-"


def estimates_table(estimates: Mapping[str, Estimate]) -> str:
    """Return the table.

    Args:
        estimates: By what they are of; empty: it need not be said.
    """
    headings = (
        "",
        "mean",
        "95 % interval",
        "requests",
        "judged",
        "conversations",
        "labelled",
        "unscored",
        "good from",
        "method",
    )
    rows = [headings, *(_row(name, one) for name, one in estimates.items())]
    # A column in which nothing is known is left out; what the mean is, and of how many, always shows.
    always = {1, 2, 3, 4, 9}
    kept = [
        place
        for place in range(len(headings))
        if place in always or any(row[place] not in ("", _UNKNOWN) for row in rows[1:])
    ]
    widths = {place: max(len(row[place]) for row in rows) for place in kept}
    lines = (
        "  ".join(
            row[place].ljust(widths[place]) if place in (0, 9) else row[place].rjust(widths[place])
            for place in kept
        ).rstrip()
        for row in rows
    )
    return "\n".join(lines)


def _row(name: str, one: Estimate) -> tuple[str, ...]:
    return (
        name,
        _number(one.mean),
        f"{one.lower:.3f} … {one.upper:.3f}",
        str(one.n_requests),
        str(one.n_judged),
        _conversations(one),
        str(one.n_labelled) if one.n_labelled else _UNKNOWN,
        f"{one.unscored:.1%}" if one.unscored else _UNKNOWN,
        _UNKNOWN if one.objective is None else f"{one.objective:g}",
        one.method,
    )


def _conversations(one: Estimate) -> str:
    if one.n_conversations is None:
        return _UNKNOWN
    return f"{'few: ' if one.has_few_conversations else ''}{one.n_conversations}"


def _number(value: float | None) -> str:
    return _UNKNOWN if value is None else f"{value:.3f}"
