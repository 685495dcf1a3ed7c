"""``--summary-markdown``: an evaluation as Markdown, for the summary of a CI step.

It has numbers, names and places of rows, but no text of the data set, since many people read such pages.
Called by `app`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from ragmeter.metrics import ConfigurationError
from ragmeter.metrics._display.ranking import badness_of
from ragmeter.metrics._display.summary import ScoreSummary

from ._evaluation import EvaluationReport
from ._gaps import GAP_HEADS
from ._report import comparison_notes, facts, problems, segment_rows, verdict_lines
from ._worst_rows import WorstRow, place_of

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~&])")
_DASH = "–"
SHOWN = 10
"""Most rows to show."""
WORST_SCORES = 3
"""Most scores to show of each row."""


def write_markdown(evaluation: EvaluationReport, path: Path) -> None:
    """Append the summary to a file, to which other steps may have written."""
    try:
        with path.open("a", encoding="utf-8", errors="replace") as file:
            file.write(as_markdown(evaluation))
    except OSError as error:
        raise ConfigurationError(
            f"--summary-markdown {str(path)!r} cannot be written: {error.strerror}"
        ) from error


def as_markdown(evaluation: EvaluationReport) -> str:
    """Return the decision, the means with their intervals, and the places of the worst rows."""
    decision = evaluation.decision
    title = "" if decision is None else f": {decision.outcome}"
    lines = [f"## ragmeter evaluate{title}", "", _escape(facts(evaluation)), ""]
    lines += [f"- {_escape(str(line.plain).strip())}" for line in verdict_lines(evaluation.verdicts) if line]
    lines += [f"- **{_escape(line)}**" for line in problems(evaluation)]
    lines += [f"- {_escape(line)}" for line in comparison_notes(evaluation)]
    lines.append("")
    if decision is not None:
        lines += _table(
            ["outcome", "check", "why"],
            [[f"**{one.outcome}**", _escape(one.what), _escape(one.reason)] for one in decision.checks],
        )
    lines += _table(
        ["score", "values", "mean", "95 % interval", "p10", "p50", "p90", "without a value"],
        [
            [
                _escape(one.name),
                str(one.count),
                _number(one.mean),
                _interval(one),
                *map(_number, (one.p10, one.p50, one.p90)),
                _escape(", ".join(f"{count} {status}" for status, count in one.without_value.items())),
            ]
            for one in evaluation.summaries
        ],
        right=range(1, 7),
    )
    if evaluation.segments:
        lines += _table(
            ["score", "segment", "values", "mean", "95 % interval"],
            [
                [_escape(name), _escape(segment), str(one.count), _number(one.mean), _interval(one)]
                for name, segment, one in segment_rows(evaluation)
            ],
            right=range(2, 5),
        )
    if evaluation.gaps is not None:
        gaps = evaluation.gaps
        lines += [_escape(gaps.note), ""]
        if gaps.found.gaps:
            lines += _table(
                ["gap", *GAP_HEADS[1:], "rows"],
                [
                    # A gap's name has words of questions.
                    [gap.id, *map(_escape, gaps.cells(gap)), _escape(", ".join(gaps.rows[gap.id]))]
                    for gap in gaps.found.gaps
                ],
                right=range(1, 5),
            )
    if evaluation.worst:
        lines += _table(
            ["worst rows", "verdict", "its codes", "its worst scores"],
            [_worst(found) for found in evaluation.worst[:SHOWN]],
        )
    return "\n".join(lines) + "\n"


def _worst(found: WorstRow) -> list[str]:
    """Return a row's place and its faults."""
    verdict = found.verdict
    scores = sorted(found.scores.values(), key=lambda one: badness_of([one], None), reverse=True)
    return [
        _escape(place_of(found.row)) + (f" × {found.times}" if found.times > 1 else ""),
        _DASH if verdict is None else verdict.word,
        _DASH if verdict is None else _escape(", ".join(verdict.codes)) or _DASH,
        _escape(
            ", ".join(
                f"{one.name} {_number(one.value)}"
                for one in scores[:WORST_SCORES]
                if badness_of([one], None).distance > 0.0
            )
        ),
    ]


def _interval(one: ScoreSummary) -> str:
    return _DASH if one.mean_low is None else f"{_number(one.mean_low)} to {_number(one.mean_high)}"


def _number(value: float | None) -> str:
    return _DASH if value is None else f"{value:.3f}"


def _escape(text: str) -> str:
    """Escape Markdown, HTML and cell borders."""
    return _SPECIAL.sub(r"\\\1", " ".join(text.split()))


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]], right: Iterable[int] = ()) -> list[str]:
    marks = ["--:" if place in set(right) else "---" for place in range(len(heads))]
    return [*(f"| {' | '.join(cells)} |" for cells in (heads, marks, *rows)), ""]
