"""Prints findings for people, line by line, or as JSON for programs. Called by `app`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.text import Text

from ._findings import Finding, State, worst

__all__ = ["as_json", "print_findings"]

_MARKS: dict[State, tuple[str, str]] = {
    "ok": ("ok", "green"),
    "skipped": ("--", "dim"),
    "warning": ("warn", "yellow"),
    "failed": ("FAIL", "bold red"),
}
_SUMMARY: dict[State, str] = {
    "ok": "Everything works.",
    "skipped": "Everything works; what is marked -- is not in use.",
    "warning": "It works; look at the lines marked warn.",
    "failed": "Fix the lines marked FAIL, top to bottom.",
}


def print_findings(findings: Iterable[Finding], console: Console) -> list[Finding]:
    """Print each finding as it comes, then a summary, and return them all."""
    seen: list[Finding] = []
    for one in findings:
        if not seen or seen[-1].area != one.area:
            console.print(Text(one.area, style="bold"))
        seen.append(one)
        mark, style = _MARKS[one.state]
        line = Text.assemble((f"  {mark:<5}", style), f"{one.what}: {one.detail}")
        console.print(line, soft_wrap=True)
        if one.fix:
            console.print(Text(f"       -> {one.fix}", style=style), soft_wrap=True)
    console.print(Text(_SUMMARY[worst(seen)], style="bold"))
    return seen


def as_json(findings: Sequence[Finding]) -> dict[str, Any]:
    """Return the findings as plain data."""
    return {"state": worst(findings), "findings": [asdict(one) for one in findings]}
