"""What `ragmeter evaluate` prints: the table of scores, what was skipped, what it cost; or JSON.

Reads an `Evaluation`; computes nothing that is not about layout.  Called by `app`.
"""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ragmeter.cli._score_table import (
    NARROW,
    interval_cell,
    new_table,
    number_cell,
    summary_caption,
    summary_table,
)
from ragmeter.quality.decision import Decision
from ragmeter.quality.summary import ScoreSummary

from ._evaluation import Evaluation
from ._verdicts import Verdicts

__all__ = ["evaluation_as_json", "print_bad_rows", "print_evaluation"]

MAX_BAD_ROWS_SHOWN = 20


def print_bad_rows(evaluation: Evaluation, console: Console) -> None:
    """Print each skipped row as ``file:line: reason``, on the error stream."""
    shown = evaluation.bad_rows[:MAX_BAD_ROWS_SHOWN]
    for bad in shown:
        console.print(
            f"{bad.file}:{bad.line}: {bad.reason}",
            style="red",
            markup=False,
            highlight=False,
            soft_wrap=True,
        )
    if len(shown) < evaluation.bad_row_count:
        console.print(f"… and {evaluation.bad_row_count - len(shown)} more rows", style="red")


def print_evaluation(evaluation: Evaluation, console: Console) -> None:
    """Print the facts of the run and the table of scores."""
    console.print(Text.assemble(("ragmeter evaluate", "bold"), f": {facts(evaluation)}"))
    console.print()
    for verdicts in verdict_lines(evaluation.verdicts):
        console.print(verdicts, soft_wrap=True)
    console.print(summary_table(evaluation.summaries, intervals=True, width=console.width))
    caption = summary_caption(evaluation.summaries, width=console.width)
    console.print(Text(caption, style="dim"))
    if evaluation.segments:
        console.print()
        console.print(segment_table(evaluation, width=console.width))
    for decided in decision_lines(evaluation.decision):
        console.print(decided, soft_wrap=True)
    for line in problems(evaluation):
        console.print(Text(line, style="red"), soft_wrap=True)


def segment_rows(evaluation: Evaluation) -> list[tuple[str, str, ScoreSummary]]:
    """Return score, segment and summary of what is shown by segment.

    These are the scores that something was to be decided about; where nothing was, those of which an end
    is better.
    """
    decision = evaluation.decision
    decided = (
        {one for check in decision.checks for one in check.what.split()} if decision else set()
    )
    names = [one.name for one in evaluation.summaries if one.name in decided] or [
        one.name for one in evaluation.summaries if one.direction != "none" and one.count
    ]
    return [
        (name, segment, one)
        for name in names
        for segment, summaries in evaluation.segments.items()
        for one in summaries
        if one.name == name
    ]


def segment_table(evaluation: Evaluation, *, width: int) -> Table:
    """Return a line for each score and segment: how many, the mean and its interval."""
    table = new_table("By segment")
    for heading in ("score", "segment"):
        table.add_column(heading, overflow="fold")
    table.add_column("n", justify="right", no_wrap=True)
    table.add_column("mean", justify="right", no_wrap=True)
    if width >= NARROW:
        table.add_column("95 % CI", justify="right", no_wrap=True)
    before = None
    for name, segment, one in segment_rows(evaluation):
        cells: list[Text | str] = [
            name if name != before else "",
            segment,
            str(one.count),
            number_cell(one.mean),
        ]
        table.add_row(*cells, *([interval_cell(one)] if width >= NARROW else []))
        before = name
    return table


_OUTCOME_STYLES = {"pass": "green", "fail": "red", "inconclusive": "yellow", "blocked": "magenta"}


def decision_lines(decision: Decision | None) -> list[Text]:
    """Return what was decided, and each check with its numbers; nothing where nothing was asked."""
    if decision is None:
        return []
    lines = [
        Text(),
        Text.assemble("Decision: ", (decision.outcome, _OUTCOME_STYLES[decision.outcome])),
    ]
    for check in decision.checks:
        style = _OUTCOME_STYLES[check.outcome]
        lines.append(
            Text.assemble("  ", (f"{check.outcome:<12}", style), f" {check.what}: {check.reason}")
        )
    return lines


_STYLES = {"good": "green", "suspect": "yellow", "bad": "red"}


def verdict_lines(verdicts: Verdicts) -> list[Text]:
    """Return how many rows are good, suspect and bad, and for which reasons; nothing without verdicts."""
    if not verdicts.words:
        return []
    judged = sum(verdicts.words.values())
    words = Text.assemble("Verdicts: ")
    for place, (word, count) in enumerate(verdicts.by_word()):
        words.append(", " if place else "")
        words.append(f"{count} {word} ({count / judged:.0%})", style=_STYLES[word])
    if verdicts.unjudged:
        words.append(f", {verdicts.unjudged} without one", style="dim")
    codes = ", ".join(f"{count} {code}" for code, count in verdicts.by_code())
    lines = [words, Text(f"  {codes}", style="dim")] if codes else [words]
    return [*lines, Text()]


def facts(evaluation: Evaluation) -> str:
    """Return what was scored, by which judge and at what cost, in one line."""
    rows = "1 row" if evaluation.rows == 1 else f"{evaluation.rows} rows"
    parts = [f"{rows} of {evaluation.data} in {evaluation.duration_s:.1f} s"]
    if evaluation.recorded:
        parts.append("their recorded scores: without texts nothing was scored anew")
    if evaluation.resumed:
        parts.append(f"{evaluation.resumed} of them known from an earlier run")
    if evaluation.judge_model is not None:
        spent = evaluation.spent
        parts.append(
            f"judge {evaluation.judge_model}: {spent.calls} calls, {spent.input_tokens:,} tokens in, "
            f"{spent.output_tokens:,} out, {spent.cache_hits} answers from the cache"
        )
    return "; ".join(parts)


def problems(evaluation: Evaluation) -> list[str]:
    """Return what keeps the evaluation from being complete, in words."""
    lines = []
    if evaluation.bad_row_count:
        lines.append(f"rows that could not be read and were skipped: {evaluation.bad_row_count}")
    if evaluation.failed_scores:
        counts = ", ".join(f"{count} {name}" for name, count in evaluation.failed_scores.items())
        lines.append(
            f"scores without a value because something failed: {counts}; run again to retry"
        )
    return lines


def evaluation_as_json(evaluation: Evaluation) -> dict[str, Any]:
    """Return the summary as JSON-ready fields; the scores of each row are in the out file."""
    spent = evaluation.spent
    return {
        "data": evaluation.data,
        "rows": evaluation.rows,
        "resumed": evaluation.resumed,
        "recorded": evaluation.recorded,
        "bad_row_count": evaluation.bad_row_count,
        "bad_rows": [bad._asdict() for bad in evaluation.bad_rows],
        "duration_s": evaluation.duration_s,
        "judge": None
        if evaluation.judge_model is None
        else {
            "model": evaluation.judge_model,
            "calls": spent.calls,
            "failed_calls": sum(spent.errors.values()),
            "cache_hits": spent.cache_hits,
            "input_tokens": spent.input_tokens,
            "output_tokens": spent.output_tokens,
        },
        "failed_scores": dict(evaluation.failed_scores),
        "verdicts": evaluation.verdicts.as_json(),
        "decision": None
        if evaluation.decision is None
        else {
            "outcome": evaluation.decision.outcome,
            "checks": [check.as_json() for check in evaluation.decision.checks],
        },
        "segments": {
            segment: {one.name: one.as_json() for one in summaries}
            for segment, summaries in evaluation.segments.items()
        },
        "summary": {one.name: one.as_json() for one in evaluation.summaries},
    }
