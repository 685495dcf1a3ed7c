"""Prints findings for people, line by line, or as JSON for programs. Called by `app`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from rich.text import Text

from ragmeter.cli._console import Console

from ._findings import Finding, State, worst

__all__ = ["APPLICATION", "NOT_SCORED", "as_json", "print_findings"]

_MARKS: dict[State, tuple[str, str]] = {
    "ok": ("ok", "green"),
    "skipped": ("--", "dim"),
    "warning": ("warn", "yellow"),
    "failed": ("FAIL", "bold red"),
}
_FIX = "Fix the lines marked FAIL, top to bottom."
_LOOK = "; look at the lines marked warn."
ENVIRONMENT: Mapping[State, str] = {
    "ok": "This environment works.",
    "skipped": "This environment works; what is marked -- is not in use.",
    "warning": "This environment works" + _LOOK,
    "failed": _FIX,
}
"""What is said of an environment: nothing is known of an application that was not looked at."""
APPLICATION: Mapping[State, str] = {
    "ok": "Requests of this application are scored, and their scores go out.",
    "skipped": "Requests of this application are scored, and their scores go out.",
    "warning": "Requests of this application are scored" + _LOOK,
    "failed": _FIX,
}
NOT_SCORED: Mapping[State, str] = {
    **dict.fromkeys(APPLICATION, "No request was scored in this process."),
    "failed": _FIX,
}
"""What is said of an application none of whose requests was scored, whatever works."""
NOT_LOOKED_AT = "Your application was not looked at: `ragmeter doctor APP.py` runs and examines it."


def print_findings(
    findings: Iterable[Finding], console: Console, summary: Mapping[State, str] = ENVIRONMENT
) -> list[Finding]:
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
    console.print(Text(summary[worst(seen)], style="bold"), soft_wrap=True)
    if summary is ENVIRONMENT:
        console.print(NOT_LOOKED_AT, markup=False, soft_wrap=True)
    return seen


def as_json(findings: Sequence[Finding]) -> dict[str, Any]:
    """Return the findings as plain data."""
    return {"state": worst(findings), "findings": [asdict(one) for one in findings]}
