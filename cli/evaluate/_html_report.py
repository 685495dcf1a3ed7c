"""The page that `ragmeter evaluate --html` writes: results, and the rows to look at first.

One self-contained file below 1 MB: no script, no request to anywhere, and a content policy that forbids both.
Same look as results in a notebook (`ragmeter.metrics._display.html`).  Every text of the data set is
escaped by `html.text`.
"""

from __future__ import annotations

import os
import platform
import tempfile
from collections.abc import Iterator
from datetime import datetime, timezone
from html import escape
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path

from ragmeter.metrics import ConfigurationError
from ragmeter.metrics._display import html
from ragmeter.metrics._display.drawings import distribution
from ragmeter.metrics._display.ranking import RULE
from ragmeter.metrics._display.wording import number_of, percent

from ._evaluation import EvaluationReport
from ._gaps import GAP_HEADS
from ._html_evidence import meanings, place_in_words, questions_of, row_in_full
from ._report import comparison_notes, problems, segment_rows

GENERATOR = '<meta name="generator" content="ragmeter evaluate">'
MAX_BYTES = 900_000
"""Bytes beyond which further rows are shown without their texts."""
MAX_SEGMENTS = 100
"""Most means of segments to show."""
MAX_UNREADABLE = 50
"""Most unreadable rows to show with their reasons."""
_SCORES_SAID = (
    '<p class="soft">Below each distribution: the mean, and its 95 % interval as a bar. '
    "A score without a value is never counted as 0; the last column says why there is none.</p>"
)
_TOO_LONG = '<p class="soft">Their texts are too long for this page.</p>'
_OUTCOMES = {"pass": "good", "fail": "bad", "inconclusive": "suspect", "blocked": "suspect"}
_DARK = f"@media screen and (prefers-color-scheme:dark){{.rm.page{{color-scheme:dark;{html.DARK}}}}}"


def write_page(evaluation: EvaluationReport, path: Path) -> None:
    """Write the page completely or not at all, readable by its owner only, as it quotes the data set."""
    page = render_page(evaluation).encode("utf-8", "replace")
    half: Path | None = None
    try:
        descriptor, name = tempfile.mkstemp(prefix=path.name, suffix=".part", dir=path.parent)
        half = Path(name)
        with os.fdopen(descriptor, "wb") as file:
            file.write(page)
        half.replace(path)
    except OSError as error:
        if half is not None:
            half.unlink(missing_ok=True)
        raise ConfigurationError(f"--html {str(path)!r}: {error.strerror}") from error


def check_page(path: Path | None) -> None:
    """Check that writing a page to `path` replaces no file but an earlier page."""
    if path is None or not path.exists():
        return
    with path.open("rb") as file:
        if GENERATOR.encode() not in file.read(1000):
            raise ConfigurationError(
                f"--html {str(path)!r} exists and was not written by ragmeter evaluate; "
                "name another file, or remove this one"
            )


def render_page(evaluation: EvaluationReport) -> str:
    """Return the whole page as HTML."""
    name = html.text(", ".join(Path(one).name for one in evaluation.data.split(", ")), 200)
    ours = files("ragmeter.cli.evaluate").joinpath("report.css").read_text("utf-8")
    head = (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f"{GENERATOR}"
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        '<meta http-equiv="Content-Security-Policy" '
        "content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f"<title>{name}: scores</title><style>{html.STYLE}{_DARK}{ours[ours.index('*/') + 2 :]}</style></head>"
        f'<body class="rm page"><main><p class="kicker">ragmeter evaluate</p><h1>{name}</h1>'
    )
    usual = {one.name: one for one in evaluation.summaries}
    meant = meanings(evaluation.summaries)
    above = "".join(
        (
            _lead(evaluation),
            _facts(evaluation),
            _problems(evaluation),
            _decision(evaluation),
            _contents(evaluation, meant),
            _scores(evaluation),
            _segments(evaluation),
            _gaps(evaluation),
        )
    )
    folded = _fold("meanings", "What the scores mean", meant)
    foot = (
        f"<footer>{html.text(evaluation.data, 500)}. Intervals hold the mean of rows of this kind in 95 of 100 "
        "such data sets. This page quotes the data set: share it as you would share that.</footer>"
    )
    below = _unreadable(evaluation) + folded + foot
    full = _in_full(evaluation, MAX_BYTES - len((head + above + below).encode("utf-8", "replace")))
    rows = [
        html.ShownRow(
            found.row.sample.question,
            found.scores,
            found.verdict,
            place_in_words(found),
            _link(number) if number < len(full) else None,
            found.times,
        )
        for number, found in enumerate(evaluation.worst)
    ]
    worst = (
        f'<h2 id="worst">Rows to look at first</h2><p class="soft">{RULE}</p>'
        f"{html.rows_table(rows, usual)}" + _fold("rows", "These rows in full", "".join(full) or _TOO_LONG)
        if rows
        else ""
    )
    return f"{head}{above}{worst}{below}</main></body></html>\n"


def _link(number: int) -> str:
    return f"row-{number + 1}"


def _in_full(evaluation: EvaluationReport, room: int) -> list[str]:
    """Return rows with their texts, the worst ones first, as many as fit."""
    room -= 2_000 * len(evaluation.worst)  # for the table of these rows
    full: list[str] = []
    for number, found in enumerate(evaluation.worst):
        one = row_in_full(found, _link(number))
        room -= len(one.encode("utf-8", "replace"))
        if room < 0:
            break
        full.append(one)
    return full


def _lead(evaluation: EvaluationReport) -> str:
    verdicts = evaluation.verdicts
    if not verdicts.words:
        return ""
    judged = sum(verdicts.words.values())
    bad = verdicts.words["bad"]
    codes = ", ".join(f"{code} ({count})" for code, count in verdicts.by_code()[:3])
    said = (
        f"<b>{bad} of {number_of(judged, 'row')}</b> with a verdict "
        f"{'is' if bad == 1 else 'are'} bad ({percent(bad / judged)})"
    )
    return (
        f'<p class="lead">{said}{f"; reasons: {html.text(codes, 300)}" if codes else ""}.</p>'
        f"{html.verdict_summary(verdicts.words, verdicts.unjudged)}"
    )


def _facts(evaluation: EvaluationReport) -> str:
    return (
        '<dl class="facts">'
        + "".join(
            f"<div><dt>{name}</dt><dd>{html.text(value, 400)}</dd></div>"
            for name, value in _fact_list(evaluation)
        )
        + "</dl>"
    )


def _fact_list(evaluation: EvaluationReport) -> Iterator[tuple[str, str]]:
    at = datetime.fromtimestamp(evaluation.at, timezone.utc)
    yield "date", f"{at:%Y-%m-%d %H:%M} UTC"
    known = f", {evaluation.resumed:,} of an earlier run" if evaluation.resumed else ""
    yield "rows", f"{evaluation.rows:,}{known}"
    if evaluation.bad_row_count:
        yield "not readable", f"{evaluation.bad_row_count:,}"
    without = sum(sum(one.without_value.values()) for one in evaluation.summaries)
    failed = sum(evaluation.failed_scores.values())
    yield "scores without a value", f"{without:,}, of them failed: {failed:,}"
    if evaluation.recorded:
        yield "scores", "as recorded, nothing was scored again"
    spent = evaluation.spent
    yield "judge", evaluation.judge_model or "none: free metrics only"
    if evaluation.judge_model is not None:
        yield "judge's calls", f"{spent.calls:,}, of them failed: {sum(spent.errors.values()):,}"
        yield "judge's cached answers", f"{spent.cache_hits:,}"
        yield "tokens", f"{spent.input_tokens:,} in, {spent.output_tokens:,} out"
        yield "cost", f"{spent.cost:,.4g}" if spent.cost else "not known: the judge has no prices"
    yield "took", f"{evaluation.duration_s:.1f} s"
    yield "versions", f"ragmeter {version('ragmeter-otel')}, Python {platform.python_version()}"


def _problems(evaluation: EvaluationReport) -> str:
    return "".join(
        f'<p class="card{kind}</p>'
        for kind in (
            *(f' bad">⚠ {escape(line)}' for line in problems(evaluation)),
            *(f'">{escape(line)}' for line in comparison_notes(evaluation)),
        )
    )


def _decision(evaluation: EvaluationReport) -> str:
    decision = evaluation.decision
    if decision is None:
        return ""
    checks = "".join(
        f'<li><span class="word {_OUTCOMES[check.outcome]}">{check.outcome}</span> '
        f"{html.text(check.what, 300)}: {html.text(check.reason, 500)}</li>"
        for check in decision.checks
    )
    return (
        f'<div class="card {_OUTCOMES[decision.outcome]}"><p><b>Decision: {decision.outcome}</b></p>'
        f"<ul>{checks}</ul></div>"
    )


def _contents(evaluation: EvaluationReport, meant: str) -> str:
    parts = [("scores", "Scores", True)]
    parts.append(("segments", "Segments", bool(evaluation.segments and segment_rows(evaluation))))
    parts.append(("gaps", "Knowledge gaps", evaluation.gaps is not None))
    parts.append(("worst", "Rows to look at first", bool(evaluation.worst)))
    parts.append(("rows", "These rows in full", bool(evaluation.worst)))
    parts.append(("unreadable", "Rows that could not be read", bool(evaluation.bad_rows)))
    parts.append(("meanings", "What the scores mean", bool(meant)))
    links = "".join(f'<a href="#{link}">{title}</a>' for link, title, there in parts if there)
    return f'<nav aria-label="contents">{links}</nav>'


def _scores(evaluation: EvaluationReport) -> str:
    notes = questions_of(evaluation.summaries)
    better = [one for one in evaluation.summaries if one.direction != "none"]
    others = [one for one in evaluation.summaries if one.direction == "none"]
    return f'<h2 id="scores">Scores</h2>{html.summary_table(better, notes)}{_SCORES_SAID}' + (
        f"<h2>Measurements</h2>{html.summary_table(others, notes)}" if others else ""
    )


def _segments(evaluation: EvaluationReport) -> str:
    rows = [
        (
            f"<b>{html.text(name)}</b>",
            html.text(segment),
            "–" if one.mean is None else f"{one.mean:.2f}",
            "–" if one.interval95 is None else " – ".join(f"{end:.2f}" for end in one.interval95),
            distribution(one),
            str(one.count),
        )
        for name, segment, one in segment_rows(evaluation)[:MAX_SEGMENTS]
    ]
    if not evaluation.segments or not rows:
        return ""
    heads = ("score", "segment", "mean", "95 % interval", "distribution", "values")
    return f'<h2 id="segments">Segments</h2>{html.table(heads, rows)}'


def _gaps(evaluation: EvaluationReport) -> str:
    if (gaps := evaluation.gaps) is None:
        return ""
    rows = [(html.text(gap.name or gap.id), *map(html.text, gaps.cells(gap))) for gap in gaps.found.gaps]
    table = html.table(GAP_HEADS, rows) if rows else ""
    return f'<h2 id="gaps">Knowledge gaps</h2>{table}<p class="soft">{html.text(gaps.note)}</p>'


def _unreadable(evaluation: EvaluationReport) -> str:
    if not evaluation.bad_rows:
        return ""
    shown = evaluation.bad_rows[:MAX_UNREADABLE]
    rows = "".join(
        f"<li>{html.text(Path(bad.file).name)} line {bad.line}: {html.text(bad.reason, 300)}</li>"
        for bad in shown
    )
    if evaluation.bad_row_count > len(shown):
        rows += f"<li>and {evaluation.bad_row_count - len(shown):,} more</li>"
    return f'<h2 id="unreadable">Rows that could not be read</h2><ul>{rows}</ul>'


def _fold(link: str, title: str, details: str) -> str:
    """Return a collapsed section; printing shows only expanded ones."""
    if not details:
        return ""
    return f'<section class="folded"><h2 id="{link}">{title}</h2>{details}</section>'
