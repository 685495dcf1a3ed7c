"""Prints findings line by line. Called by `app`.

Plain text inside an examined application, where rich may not be installed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from time import monotonic
from typing import TYPE_CHECKING, TextIO

from ragmeter.metrics._display.printing import visible_text

from ._findings import Finding, State, worst

if TYPE_CHECKING:
    from ragmeter.cli._console import Console

_MARKS: dict[State, tuple[str, str]] = {
    "ok": ("ok", "green"),
    "skipped": ("--", "dim"),
    "warning": ("warn", "yellow"),
    "failed": ("FAIL", "bold red"),
}
SLOW_S = 0.5
"""Seconds from which the time of a check is named."""
_FIX = "Fix the lines marked FAIL, top to bottom."
_LOOK = "; look at the lines marked warn."
ENVIRONMENT: Mapping[State, str] = {
    "ok": "This environment works.",
    "skipped": "This environment works; what is marked -- is not in use.",
    "warning": "This environment works" + _LOOK,
    "failed": _FIX,
}
"""Summaries for an environment; they promise nothing about an application that was not examined."""
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
"""Summaries for an application without a scored request."""
NOT_EXAMINED = "Your application was not examined: `ragmeter doctor APP.py` runs and examines it."


def print_findings(
    findings: Iterable[Finding], console: Console, summary: Mapping[State, str] = ENVIRONMENT
) -> list[Finding]:
    """Print each finding as it is made, then a summary; return all findings."""
    from rich.text import Text  # noqa: PLC0415 -- of an extra

    seen: list[Finding] = []
    for line in _lines(findings, summary, seen):
        console.print(Text.assemble(*line), soft_wrap=True)
    return seen


def write_findings(findings: Iterable[Finding], stream: TextIO, summary: Mapping[State, str]) -> None:
    """Write the findings and the summary as plain text."""
    stream.writelines(
        "".join(visible_text(text) for text, _ in line) + "\n" for line in _lines(findings, summary, [])
    )


def _lines(
    findings: Iterable[Finding], summary: Mapping[State, str], seen: list[Finding]
) -> Iterator[list[tuple[str, str]]]:
    """Yield lines of texts with styles; adds each finding to `seen`."""
    before = monotonic()
    for one in findings:
        took_s, before = monotonic() - before, monotonic()
        if not seen or seen[-1].area != one.area:
            yield [(one.area, "bold")]
        seen.append(one)
        mark, style = _MARKS[one.state]
        slow = f" ({took_s:.1f} s)" if took_s >= SLOW_S else ""
        yield [(f"  {mark:<5}", style), (f"{one.what}: {one.detail}{slow}", "")]
        if one.fix:
            yield [(f"       -> {one.fix}", style)]
    yield [(summary[worst(seen)], "bold")]
    if summary is ENVIRONMENT:
        yield [(NOT_EXAMINED, "")]
