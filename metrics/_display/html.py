"""Results as pieces of HTML, for notebooks and the report of `ragmeter evaluate --html`.

No script, no external resource; every text is escaped by `text`.  Two hues, blue and orange, each with a second
sign: a word, a mark, a line.  The colours are those of the page of `ragmeter serve`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING, NamedTuple

from .drawings import distribution, verdict_bar
from .summary import ScoreSummary, standing, valued_first
from .wording import SHORT_STATUSES, STATUS_MEANINGS, number_of, percent, value_text

if TYPE_CHECKING:  # these modules import this one when they are displayed
    from ragmeter.metrics.score import Score, ScoreDirection
    from ragmeter.metrics.verdict import Verdict

MAX_QUESTION_CHARS = 160
MAX_PROBLEM_CHARS = 600
MAX_REASONS = 3
SIGNS = {"bad": "✕", "suspect": "?", "good": "✓"}
_BETTER: Mapping[ScoreDirection, str] = {"lower": "lower is better", "none": "neither way is better"}

LIGHT = (
    "--bg:#f6f7f9;--card:#fff;--ink:#14181f;--ink3:#5b6573;--line:#e2e6ec;--edge:#7c8696;--link:#0b5cad;"
    "--good:#1f5f9e;--bad:#a83a00;--bad-paper:#fff2ea;--volume:#808a98"
)
DARK = (
    "--bg:#0d1014;--card:#15191f;--ink:#e9ecf1;--ink3:#95a0ae;--line:#272d37;--edge:#7d8899;--link:#82bcff;"
    "--good:#86b9ee;--bad:#ff9f6b;--bad-paper:#2a1a10;--volume:#6b7686"
)
STYLE = (
    "".join(files("ragmeter.metrics._display").joinpath("results.css").read_text("utf-8").splitlines()[1:])
    .replace("@light", LIGHT)
    .replace("@dark", DARK)
)
"""The style of all pieces; a whole page also needs `DARK`."""


class ShownRow(NamedTuple):
    """One request with its scores and verdict."""

    question: str | None
    scores: Mapping[str, Score]
    verdict: Verdict | None
    place: str = ""
    """Its place, e.g. ``line 3``."""
    link: str | None = None
    """The id of the element with its texts, or None."""
    times: int = 1
    """Number of requests with the same question that it represents."""


def text(value: str | None, longest: int = MAX_QUESTION_CHARS) -> str:
    """Return a text as HTML, cut to `longest` characters; a lone surrogate becomes a question mark."""
    plain = (value or "")[: longest + 1].encode("utf-8", "replace").decode("utf-8")
    return escape(plain if len(plain) <= longest else plain[: longest - 1] + "…")


def fragment(*parts: str) -> str:
    """Return pieces for a notebook's cell, with their style."""
    return f'<div class="rm"><style>{STYLE}</style>{"".join(parts)}</div>'


def table(headings: Sequence[str], rows: Iterable[Sequence[str]], kind: str = "") -> str:
    """Return a table; `headings` and the cells of `rows` are HTML, the first cell of a row is its heading."""
    head = "".join(f'<th scope="col">{heading}</th>' for heading in headings)
    body = "".join(
        f'<tr><th scope="row">{first}</th>{"".join(f"<td>{cell}</td>" for cell in cells)}</tr>'
        for first, *cells in rows
    )
    return _scroll_box(kind, head, body)


def _scroll_box(kind: str, head: str, body: str) -> str:
    return (
        f'<div class="scroll"><table class="{kind}"><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def problems(lines: Iterable[str]) -> str:
    """Return the failures, one per line; empty if there are none."""
    return "".join(f'<p class="low">{text(line, MAX_PROBLEM_CHARS)}</p>' for line in lines)


def verdict_word(verdict: Verdict | None) -> str:
    """Return the word of a verdict with its sign."""
    if verdict is None:
        return '<span class="word">no verdict</span>'
    return f'<span class="word {verdict.word}">{SIGNS[verdict.word]} {verdict.word}</span>'


def verdict_summary(words: Mapping[str, int], unjudged: int = 0) -> str:
    """Return the numbers of bad, suspect, good and unjudged requests, also as a bar; empty without requests."""
    total = sum(words.values()) + unjudged
    shares = "".join(
        f'<li><span class="word {word}">{SIGNS[word]} {word}</span> <b>{words[word]}</b> '
        f'<span class="soft">({percent(words[word] / total)})</span></li>'
        for word in ("bad", "suspect", "good")
        if words.get(word)
    )
    if unjudged:
        shares += f'<li><span class="word">no verdict</span> <b>{unjudged}</b></li>'
    return f'{verdict_bar(words, unjudged)}<ul class="shares">{shares}</ul>' if total else ""


def summary_table(summaries: Sequence[ScoreSummary], notes: Mapping[str, str] | None = None) -> str:
    """Return a table of scores: mean with interval, distribution, percentiles, and missing values.

    Scores without any value come last; `notes` are HTML below the names.
    """
    rows = []
    for one in valued_first(summaries):
        under = [note for note in ((notes or {}).get(one.name), _BETTER.get(one.direction)) if note]
        missing = ", ".join(f"{count} {status}" for status, count in one.without_value.items())
        missing += f" (not given: {', '.join(one.lacking)})" if one.lacking else ""
        interval = " – ".join(map(_number, one.interval95 or ())) or "–"
        rows.append(
            f'<tr><th scope="row"><b>{text(one.name)}</b>'
            f"{''.join(f'<small>{note}</small>' for note in under)}</th>"
            f'<td class="number" data-is="mean">{_number(one.mean)}</td>'
            f'<td class="number" data-is="95 % interval">{interval}</td>'
            f'<td class="drawn">{distribution(one)}</td>'
            + "".join(
                f'<td class="number" data-is="{name}">{_number(value)}</td>'
                for name, value in (("p10", one.p10), ("median", one.p50), ("p90", one.p90))
            )
            + f'<td class="number" data-is="values">{one.count}</td>'
            f'<td class="soft" data-is="no value">{text(missing) or "–"}</td></tr>'
        )
    head = "".join(
        f'<th scope="col"{kind}>{name}</th>'
        for name, kind in (
            ("score", ""),
            *((name, ' class="number"') for name in ("mean", "95 % interval")),
            ("distribution, better to the right", ""),
            *((name, ' class="number"') for name in ("p10", "median", "p90", "values")),
            ("no value", ""),
        )
    )
    return _scroll_box("summary", head, "".join(rows))


def rows_table(rows: Sequence[ShownRow], usual: Mapping[str, ScoreSummary]) -> str:
    """Return a table of requests: question and verdict with reasons, and all scores side by side.

    Scores without a better direction are left out, and those without a value in any of the rows. A value
    among the worst tenth of its score is marked, ▼, one among the worst quarter coloured. `usual` has all
    values of each score, in the order of the columns.
    """
    there = dict.fromkeys(
        name
        for row in rows
        for name, score in row.scores.items()
        if score.value is not None and score.direction != "none"
    )
    names = [name for name in dict.fromkeys((*usual, *there)) if name in there]
    seen: set[str] = set()
    body = ""
    for row in rows:
        cells = "".join(
            f'<td data-is="{text(name)}"{_look(row.scores.get(name), usual.get(name), seen)}</td>'
            for name in names
        )
        body += f'<tr><th scope="row">{_question_cell(row)}</th>{cells}</tr>'
    head = "".join(f'<th scope="col"><span>{text(name)}</span></th>' for name in names)
    meanings = [f"{short}: {STATUS_MEANINGS[short]}" for short in STATUS_MEANINGS if short in seen]
    if "▼" in seen:
        meanings.insert(0, "▼: among the worst tenth of its score; coloured: among the worst quarter")
    legend = f'<p class="soft">{escape("; ".join(meanings))}</p>' if meanings else ""
    return _scroll_box("rows", f'<th scope="col">request</th>{head}', body) + legend


def _question_cell(row: ShownRow) -> str:
    question = text(row.question) or "<i>no question</i>"
    if row.link is not None:
        question = f'<a href="#{escape(row.link)}">{question}</a>'
    if row.times > 1:
        said = f"{row.times:,} rows have this question; the worst is shown"
        question += f' <span class="soft" title="{said}">× {row.times:,}</span>'
    place = f' <span class="soft">{text(row.place)}</span>' if row.place else ""
    reasons = () if row.verdict is None else row.verdict.reasons[:MAX_REASONS]
    return f"{verdict_word(row.verdict)}{place}<br>{question}" + "".join(
        f"<small>{text(reason, 300)}</small>" for reason in reasons
    )


def _look(score: Score | None, usual: ScoreSummary | None, seen: set[str]) -> str:
    """Return the remainder of a cell's tag, and its content; record the marks used."""
    if score is None:
        return ' class="none">'
    if score.value is None:
        short = SHORT_STATUSES.get(score.status, score.status)
        seen.add(short)
        return f' class="none" title="{escape(score.status)}">{short}'
    place = None if usual is None else standing(usual, score.value)
    if place is not None:
        seen.add("▼")
    kind = "" if place is None else f' class="{place}"'
    return f"{kind}>{value_text(score.value, score.range)}"


def overview(verdicts: Sequence[Verdict | None]) -> str:
    """Return the number of requests in words, and how many have which verdict."""
    words = Counter[str](verdict.word for verdict in verdicts if verdict is not None)
    judged = verdict_summary(words, len(verdicts) - words.total())
    return f"<p><b>{number_of(len(verdicts), 'request')}</b></p>{judged}"


def request(row: ShownRow) -> str:
    """Return one request: its verdict with all reasons, and its scores."""
    reasons = () if row.verdict is None else row.verdict.reasons
    said = "".join(f"<small>{text(reason, 400)}</small>" for reason in reasons)
    return f"<p>{verdict_word(row.verdict)} {text(row.question)}{said}</p>{scores_table(row.scores)}"


def evidence(score: Score) -> str:
    """Return what a score saw, in words."""
    return text(score.explanation or score.summary, 400)


def scores_table(scores: Mapping[str, Score], seen: Callable[[Score], str] = evidence) -> str:
    """Return a table of one request's scores: value or status, and what was `seen`, as HTML."""
    return table(
        ("score", "value", "what was seen"),
        (
            (
                f"<b>{text(score.name)}</b>",
                f'<i class="none">{score.status}</i>'
                if score.value is None
                else value_text(score.value, score.range),
                seen(score),
            )
            for score in scores.values()
        ),
        "one",
    )


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"
