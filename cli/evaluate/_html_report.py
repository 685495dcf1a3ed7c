"""The page that `ragmeter evaluate --html` writes: histograms, and the worst samples with their evidence.

One self-contained file: no script, no request to anywhere, and a content policy that forbids both.
Every text of the data set passes through `html.escape`; it is data, whatever it looks like.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from html import escape
from pathlib import Path

from ragmeter.metrics import ConfigurationError, RagSample, Score, ScoreItem
from ragmeter.metrics._samples import Row
from ragmeter.quality.summary import ScoreSummary, standing

from ._evaluation import Evaluation
from ._report import facts, problems
from ._verdicts import BadVerdict
from ._worst_rows import WorstRow

__all__ = ["check_page", "render_page", "write_page"]

BINS = 10
GENERATOR = '<meta name="generator" content="ragmeter evaluate">'
MAX_TEXT = 1200
"""Characters of one text that are shown."""

_STYLE = """
:root{color-scheme:light dark;--ink:#1d2430;--soft:#5d6778;--line:#d9dee6;--paper:#fff;--card:#f6f8fa;
--good:#1a7f37;--mid:#9a6700;--bad:#cf222e;--bar:#4c7dd1}
@media(prefers-color-scheme:dark){:root{--ink:#e6e9ee;--soft:#9aa4b2;--line:#343b46;--paper:#14181e;
--card:#1c222a;--good:#3fb950;--mid:#d29922;--bad:#f85149;--bar:#6c9bea}}
*{box-sizing:border-box}body{margin:0;background:var(--paper);color:var(--ink);
font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans","Noto Sans CJK SC",sans-serif}
main{max-width:1080px;margin:0 auto;padding:32px 20px 64px}h1{font-size:24px;margin:0 0 4px}
h2{font-size:18px;margin:40px 0 12px}h3{font-size:15px;margin:24px 0 8px}
.soft{color:var(--soft)}.good{color:var(--good)}.fair{color:var(--mid)}.poor{color:var(--bad)}
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}
th,td{text-align:right;padding:6px 10px;border-bottom:1px solid var(--line);vertical-align:middle}
td:nth-child(4){white-space:nowrap}
th:first-child,td:first-child,th:nth-child(8){text-align:left}th{font-weight:600;color:var(--soft);font-size:13px}
.scroll{overflow-x:auto}svg{display:block}rect{fill:var(--bar)}svg line{stroke:var(--line)}
details{background:var(--card);border:1px solid var(--line);border-radius:8px;margin:8px 0;padding:8px 14px}
summary{cursor:pointer;overflow-wrap:anywhere}summary b{display:inline-block;min-width:3.2em}
dl{display:grid;grid-template-columns:8em minmax(0,1fr);gap:6px 14px;margin:12px 0}dt{color:var(--soft)}
dd{margin:0;overflow-wrap:anywhere;white-space:pre-wrap}ol,ul{margin:0;padding-left:1.4em}
.id{color:var(--soft);font-size:13px}
.warn{border-left:4px solid var(--bad);padding:6px 12px;background:var(--card)}
@media(max-width:640px){dl{grid-template-columns:1fr}}
"""


def write_page(evaluation: Evaluation, path: Path) -> None:
    """Write the page whole or not at all, readable by its owner only: it quotes the data set.

    Raises:
        ConfigurationError: The file cannot be written.
    """
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
    """Check that a page written to `path` replaces nothing but a page of ours.

    Raises:
        ConfigurationError: There is another file.
    """
    if path is None or not path.exists():
        return
    with path.open("rb") as file:
        if GENERATOR.encode() not in file.read(1000):
            raise ConfigurationError(
                f"--html {str(path)!r} exists and was not written by ragmeter evaluate; "
                "name another file, or remove this one"
            )


def render_page(evaluation: Evaluation) -> str:
    """Return the whole page as HTML."""
    name = escape(", ".join(Path(one).name for one in evaluation.data.split(", ")))
    return "".join(
        (
            '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">',
            GENERATOR,
            '<meta name="viewport" content="width=device-width,initial-scale=1">',
            '<meta http-equiv="Content-Security-Policy" ',
            "content=\"default-src 'none'; style-src 'unsafe-inline'\">",
            f"<title>{name}: scores</title><style>{_STYLE}</style></head><body><main>",
            f"<h1>{name}</h1><p class=soft>{escape(facts(evaluation))}</p>",
            _problems(evaluation),
            _verdicts(evaluation),
            _summary(evaluation.summaries),
            _bad_rows(evaluation),
            _bad(evaluation),
            _worst(evaluation),
            "</main></body></html>\n",
        )
    )


def _problems(evaluation: Evaluation) -> str:
    return "".join(f"<p class=warn>{escape(line)}</p>" for line in problems(evaluation))


def _verdicts(evaluation: Evaluation) -> str:
    verdicts = evaluation.verdicts
    if not verdicts.words:
        return ""
    look = {"good": "good", "suspect": "fair", "bad": "poor"}
    judged = sum(verdicts.words.values())
    words = ", ".join(
        f'<b class="{look[word]}">{count} {word}</b> ({count / judged:.0%})'
        for word, count in verdicts.by_word()
    )
    if verdicts.unjudged:
        words += f", <span class=soft>{verdicts.unjudged} without one</span>"
    codes = "".join(f"<li>{code}: {count}</li>" for code, count in verdicts.by_code())
    return f"<h2>Verdicts</h2><p>{words}</p>" + (f"<ul class=soft>{codes}</ul>" if codes else "")


def _summary(summaries: Sequence[ScoreSummary]) -> str:
    rows = "".join(_summary_row(one) for one in summaries)
    return (
        "<h2>Scores</h2><div class=scroll><table><thead><tr><th>score<th>n<th>mean"
        "<th>95 % interval<th>p10<th>p50<th>p90<th>distribution<th>no value</tr></thead>"
        f"<tbody>{rows}</tbody></table></div>"
        "<p class=soft>95 % interval: of the mean. A score without a value is never "
        "counted as 0; the last column says why there is none.</p>"
    )


def _summary_row(one: ScoreSummary) -> str:
    interval = (
        f"{one.mean_low:.2f} – {one.mean_high:.2f}"
        if one.mean_low is not None and one.mean_high is not None
        else "–"
    )
    missing = ", ".join(f"{count} {status}" for status, count in one.without_value.items())
    cells = "".join(f"<td>{_number(value)}" for value in (one.p10, one.p50, one.p90))
    return (
        f"<tr><td>{escape(one.name)}<td>{one.count}<td>{_number(one.mean)}<td>{interval}"
        f"{cells}<td>{_histogram(one)}<td class=soft>{escape(missing)}</tr>"
    )


def _number(value: float | None) -> str:
    return "<span class=soft>–</span>" if value is None else f"{value:.2f}"


def _histogram(one: ScoreSummary, width: int = 150, height: int = 34) -> str:
    counts, low, high = one.histogram(BINS)
    if not one.count:
        return ""
    tallest = max(counts)
    step = width / len(counts)
    bars = []
    for number, count in enumerate(counts):
        if not count:
            continue
        tall = max(1.5, height * count / tallest)
        start = low + (high - low) * number / len(counts)
        end = low + (high - low) * (number + 1) / len(counts)
        bars.append(
            f'<rect x="{number * step + 0.5:.1f}" y="{height - tall:.1f}" width="{step - 1:.1f}" '
            f'height="{tall:.1f}"><title>{start:.2g} to {end:.2g}: {count}</title></rect>'
        )
    return (
        f'<svg width="{width}" height="{height + 1}" viewBox="0 0 {width} {height + 1}" role="img" '
        f'aria-label="distribution from {low:.2g} to {high:.2g}">{"".join(bars)}'
        f'<line x1="0" x2="{width}" y1="{height + 0.5}" y2="{height + 0.5}"/></svg>'
    )


def _bad_rows(evaluation: Evaluation) -> str:
    if not evaluation.bad_rows:
        return ""
    rows = "".join(f"<li>line {bad.line}: {escape(bad.reason)}</li>" for bad in evaluation.bad_rows)
    if evaluation.bad_row_count > len(evaluation.bad_rows):
        rows += f"<li>and {evaluation.bad_row_count - len(evaluation.bad_rows)} more</li>"
    return f"<h2>Rows that could not be read</h2><details><summary>show</summary><ul>{rows}</ul></details>"


def _bad(evaluation: Evaluation) -> str:
    samples = "".join(map(_bad_sample, evaluation.verdicts.bad))
    return f"<h2>The first bad rows</h2>{samples}" if samples else ""


def _bad_sample(found: BadVerdict) -> str:
    reasons = "".join(
        f"<li>{escape(code)}: {escape(reason)}</li>"
        for code, reason in zip(found.verdict.codes, found.verdict.reasons, strict=True)
    )
    entries = [("reasons", f"<ul>{reasons}</ul>"), *_of_sample(found.row.sample)]
    return _details('<b class="poor">bad</b>', found.row, entries)


def _worst(evaluation: Evaluation) -> str:
    sections = []
    for one in evaluation.summaries:
        shown = [_sample(found, one) for found in evaluation.worst.get(one.name, ())]
        if shown:
            end = "Highest" if one.direction == "lower" else "Lowest"
            sections.append(f"<h3>{end} {escape(one.name)}</h3>{''.join(shown)}")
    if not sections:
        return ""
    return "<h2>Worst samples</h2>" + "".join(sections)


_LOOKS = {"worst": "poor", "low": "fair"}


def _sample(found: WorstRow, usual: ScoreSummary) -> str:
    row, score = found.row, found.score
    value = score.value or 0.0
    place = standing(usual, value)
    mark = f'<b class="{_LOOKS[place] if place else ""}">{value:.2f}</b>'
    return _details(mark, row, [*_of_sample(row.sample), ("evidence", _evidence(score))])


def _of_sample(sample: RagSample) -> list[tuple[str, str]]:
    entries = [("answer", _text(sample.answer))]
    if sample.reference is not None:
        entries.append(("should say", _text(sample.reference.answer)))
        entries.append(("should find", _list(sample.reference.contexts)))
    return [*entries, ("found", _contexts(sample))]


def _details(mark: str, row: Row, entries: Sequence[tuple[str, str]]) -> str:
    facts_of_it = "".join(f"<dt>{name}</dt><dd>{value}</dd>" for name, value in entries if value)
    return (
        f"<details><summary>{mark} {_text(row.sample.question) or '<i>no question</i>'} "
        f"<span class=id>{escape(f'{row.file} '.lstrip())}line {row.line}</span></summary>"
        f"<dl>{facts_of_it}</dl></details>"
    )


def _text(text: str | None) -> str:
    if not text:
        return ""
    return escape(text if len(text) <= MAX_TEXT else text[:MAX_TEXT] + "…")


def _list(texts: Sequence[str]) -> str:
    return f"<ul>{''.join(f'<li>{_text(text)}</li>' for text in texts)}</ul>" if texts else ""


def _contexts(sample: RagSample) -> str:
    if sample.contexts is None:
        return ""
    if not sample.contexts:
        return "<i>nothing</i>"
    items = "".join(
        f"<li>{_text(context.text)}"
        + (f" <span class=id>{_text(context.id)}</span>" if context.id else "")
        + "</li>"
        for context in sample.contexts
    )
    return f"<ol>{items}</ol>"


def _evidence(score: Score) -> str:
    parts = [_text(score.explanation)] if score.explanation else []
    if score.items:
        parts.append(f"<ul>{''.join(map(_item, score.items))}</ul>")
    return "".join(parts)


def _item(item: ScoreItem) -> str:
    mark, look = {True: ("✓", "good"), False: ("✗", "poor"), None: ("?", "fair")}[item.verdict]
    because = " · ".join(_text(part) for part in (item.reason, item.evidence) if part)
    number = "" if item.value is None else f" ({item.value:.2f})"
    return (
        f'<li><span class="{look}">{mark}</span> {_text(item.text) or escape(item.id)}{number}'
        + (f" <span class=soft>{because}</span>" if because else "")
        + "</li>"
    )
