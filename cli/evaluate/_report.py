"""The output of `ragmeter evaluate`: scores, skipped rows and cost, as a table or JSON.

Reads an `EvaluationReport`; computes nothing that is not about layout.  Called by `app`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich.table import Table
from rich.text import Text

from ragmeter.cli._console import Console
from ragmeter.cli._score_table import (
    NARROW,
    VERDICT_STYLES,
    interval_cell,
    new_table,
    number_cell,
    summary_caption,
    summary_table,
)
from ragmeter.metrics._display.summary import ScoreSummary
from ragmeter.quality.decision import Check, Decision
from ragmeter.quality.measurement import BY_WORDS

from ._evaluation import EvaluationReport
from ._gaps import GAP_HEADS, FoundGaps
from ._verdicts import Verdicts

MAX_BAD_ROWS_SHOWN = 20


def print_bad_rows(evaluation: EvaluationReport, console: Console) -> None:
    """Print skipped rows as ``file:line: reason`` on the error stream, each reason once per file."""
    first: dict[tuple[str, str], int] = {}
    alike: Counter[tuple[str, str]] = Counter()
    for bad in evaluation.bad_rows:
        first.setdefault((bad.file, bad.reason), bad.line)
        alike[bad.file, bad.reason] += 1
    shown = 0
    for (file, reason), line in list(first.items())[:MAX_BAD_ROWS_SHOWN]:
        count = alike[file, reason]
        shown += count
        more = f" (and {count - 1} more rows)" if count > 1 else ""
        console.print_line(f"{file}:{line}: {reason}{more}", "red")
    if shown < evaluation.bad_row_count:
        console.print(f"… and {evaluation.bad_row_count - shown} more rows", style="red")


def print_evaluation(evaluation: EvaluationReport, console: Console) -> None:
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
    if evaluation.gaps is not None:
        console.print()
        if evaluation.gaps.found.gaps:
            console.print(_gap_table(evaluation.gaps))
        console.print_line(evaluation.gaps.note, "dim")
    for decided in decision_lines(evaluation.decision):
        console.print(decided, soft_wrap=True)
    if evaluation.decision is not None and (compared := _comparisons(evaluation.decision)):
        console.print()
        console.print(_comparison_table(compared, width=console.width))
    for line in comparison_notes(evaluation):
        console.print_line(line, "dim")
    for line in problems(evaluation):
        console.print_line(line, "red")


def segment_rows(evaluation: EvaluationReport) -> list[tuple[str, str, ScoreSummary]]:
    """Return score, segment and summary for each row of the table by segment.

    Shows the scores with a condition to decide by; without any, those with a better direction.
    """
    decision = evaluation.decision
    decided = {one for check in decision.checks for one in check.what.split()} if decision else set()
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


def segment_table(evaluation: EvaluationReport, *, width: int) -> Table:
    """Return a line for each score and segment: count, mean and interval."""
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


def _gap_table(gaps: FoundGaps) -> Table:
    """Return a line for each gap, those with most bad rows first."""
    table = new_table("Knowledge gaps", caption="About half of a topic's rows stay outside its gap.")
    for place, heading in enumerate(GAP_HEADS):
        table.add_column(heading, overflow="fold", justify="right" if 0 < place < 5 else "left")
    for gap in gaps.found.gaps:
        table.add_row(Text(gap.name or gap.id), *gaps.cells(gap))
    return table


_OUTCOME_STYLES = {"pass": "green", "fail": "red", "inconclusive": "yellow", "blocked": "magenta"}


def decision_lines(decision: Decision | None) -> list[Text]:
    """Return the decision and each check with its numbers; empty without anything to decide."""
    if decision is None:
        return []
    lines = [Text(), Text.assemble("Decision: ", (decision.outcome, _OUTCOME_STYLES[decision.outcome]))]
    for check in decision.checks:
        if check.before is not None:
            continue  # shown as a row of the table
        style = _OUTCOME_STYLES[check.outcome]
        lines.append(Text.assemble("  ", (f"{check.outcome:<12}", style), f" {check.what}: {check.reason}"))
    return lines


def _comparisons(decision: Decision) -> list[tuple[Check, str]]:
    """Return the comparisons with the baseline that have numbers, each with its word."""
    found = [(check, str(check.outcome)) for check in decision.checks]
    found += [(check, "fell, not asked about") for check in decision.fallen]
    return [(check, word) for check, word in found if check.before is not None]


def _comparison_table(compared: Sequence[tuple[Check, str]], *, width: int) -> Table:
    """Return a line for each score: its mean before and now, the difference with its interval, a word."""
    table = new_table("Compared with the baseline")
    table.add_column("score", overflow="fold")
    for heading in ("before", "now", "difference", *(("95 % CI",) if width >= NARROW else ())):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("", overflow="fold")
    for check, word in compared:
        lower, upper = check.interval or (0.0, 0.0)
        table.add_row(
            check.score or "",
            number_cell(check.before),
            number_cell(check.now),
            f"{check.mean or 0.0:+.3f}",
            *((f"{lower:+.3f} to {upper:+.3f}",) if width >= NARROW else ()),
            Text(word, style=_OUTCOME_STYLES[check.outcome]),
        )
    return table


def verdict_lines(verdicts: Verdicts) -> list[Text]:
    """Return the numbers of good, suspect and bad rows with their reasons; empty without verdicts."""
    if not verdicts.words:
        return []
    judged = sum(verdicts.words.values())
    words = Text.assemble("Verdicts: ")
    for place, (word, count) in enumerate(verdicts.by_word()):
        words.append(", " if place else "")
        words.append(f"{count} {word} ({count / judged:.0%})", style=VERDICT_STYLES[word])
    if verdicts.unjudged:
        words.append(f", {verdicts.unjudged} without one", style="dim")
    codes = ", ".join(f"{count} {code}" for code, count in verdicts.by_code())
    lines = [words, Text(f"  {codes}", style="dim")] if codes else [words]
    return [*lines, Text()]


def facts(evaluation: EvaluationReport) -> str:
    """Return the number of scored rows, the judge and the cost, in one line."""
    rows = "1 row" if evaluation.rows == 1 else f"{evaluation.rows} rows"
    parts = [f"{rows} of {evaluation.data} in {evaluation.duration_s:.1f} s"]
    if evaluation.recorded:
        parts.append("their recorded scores: without texts nothing was scored again")
    if evaluation.resumed:
        parts.append(f"{evaluation.resumed} of them known from an earlier run")
    if evaluation.judge_model is not None:
        spent = evaluation.spent
        parts.append(
            f"judge {evaluation.judge_model}: {spent.calls} calls, {spent.input_tokens:,} tokens in, "
            f"{spent.output_tokens:,} out, {spent.cache_hits} answers from the cache"
        )
    return "; ".join(parts)


def comparison_notes(evaluation: EvaluationReport) -> list[str]:
    """Return the comparison with another retriever, and the caveats of comparing means by words."""
    decision = evaluation.decision
    notes = [] if evaluation.comparison is None else [str(evaluation.comparison)]
    compared = {name for name, _, _ in segment_rows(evaluation)}
    if decision is not None:
        compared.update(check.score or "" for check, _ in _comparisons(decision))
    if names := sorted(compared & BY_WORDS):
        said = (
            "do not compare means of two models, prompts or versions as truth; 91 % of such a fall was "
            "manner (GPT to Llama 2 on RAGTruth)"
        )
        consists = None if decision is None else decision.consists
        notes += [f"{' and '.join(names)}: {said}", *([consists] if consists else [])]
    return notes


def problems(evaluation: EvaluationReport) -> list[str]:
    """Return the reasons why the evaluation is incomplete, in words."""
    lines = []
    if evaluation.bad_row_count:
        lines.append(f"rows that could not be read and were skipped: {evaluation.bad_row_count}")
    if evaluation.unscored:
        lacking = dict.fromkeys(what for one in evaluation.summaries for what in one.lacking)
        why = f": the scores asked for need {', '.join(lacking)}" if lacking else ""
        lines.append(f"no row of {', '.join(evaluation.unscored)} has a score{why}")
    fallen = () if evaluation.decision is None else evaluation.decision.fallen
    lines += [
        f"{check.score} fell below the baseline, and is not asked about: {check.reason}" for check in fallen
    ]
    if evaluation.failures:
        counts = ", ".join(f"{n} {name}" for name, n in evaluation.failed_scores.items())
        lines.append(f"scores without a value because something failed: {counts}; run again to retry")
        lines += evaluation.failures.lines()
    return lines


def evaluation_as_json(evaluation: EvaluationReport) -> dict[str, Any]:
    """Return the summary as JSON-ready fields; the scores of each row are in the ``--out`` file."""
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
        "failed_scores": evaluation.failed_scores,
        "unscored": list(evaluation.unscored),
        "failures": evaluation.failures.as_json(),
        "verdicts": evaluation.verdicts.as_json(),
        "decision": None
        if evaluation.decision is None
        else {
            "outcome": evaluation.decision.outcome,
            "checks": [check.as_json() for check in evaluation.decision.checks],
            "fallen": [check.as_json() for check in evaluation.decision.fallen],
        },
        "segments": {
            segment: {one.name: one.as_json() for one in summaries}
            for segment, summaries in evaluation.segments.items()
        },
        "gaps": None if evaluation.gaps is None else evaluation.gaps.as_json(),
        "comparison": None if evaluation.comparison is None else asdict(evaluation.comparison),
        "summary": {one.name: one.as_json() for one in evaluation.summaries},
    }
