"""The evidence in the HTML report: rows in full, and the meaning of each score."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from ragmeter.cli._metric_page import thresholds_of
from ragmeter.metrics import RagSample, Score, ScoreItem
from ragmeter.metrics._display import html
from ragmeter.metrics._display.meanings import Meaning, meaning_of
from ragmeter.metrics._display.summary import ScoreSummary

from ._worst_rows import WorstRow

MAX_TEXT = 1200
"""Most characters to show of one text."""
MAX_CHUNKS, MAX_ITEMS = 10, 12
"""Most chunks of a row, and pieces of evidence of a score, to show."""
_MARKS = {True: ("✓", "yes"), False: ("✕", "no"), None: ("?", "unknown")}
_ORDER = {False: 0, None: 1, True: 2}


def place_in_words(found: WorstRow) -> str:
    """Return file and line of a row, in words."""
    return f"{found.row.file} line {found.row.line}".lstrip()


def row_in_full(found: WorstRow, link: str) -> str:
    """Return a row with its texts and scores, as a collapsed section, which a link to its id expands."""
    texts = "".join(f"<dt>{name}</dt><dd>{value}</dd>" for name, value in _texts(found.row.sample) if value)
    reasons = () if found.verdict is None else found.verdict.reasons
    said = "".join(f"<li>{_text(reason)}</li>" for reason in reasons)
    return (
        f"<details><summary>{html.verdict_word(found.verdict)} "
        f"{html.text(found.row.sample.question) or '<i>no question</i>'} "
        f'<span class="soft">{html.text(place_in_words(found))}</span></summary>'
        f'<div id="{escape(link)}">'
        + (f"<ul>{said}</ul>" if said else "")
        + (f"<dl>{texts}</dl>" if texts else "")
        + f"{html.scores_table(found.scores, _evidence_of)}</div></details>"
    )


def _texts(sample: RagSample) -> Iterator[tuple[str, str]]:
    if sample.question and len(sample.question) > html.MAX_QUESTION_CHARS:
        yield "question", _text(sample.question)
    yield "answer", _text(sample.answer)
    if sample.reference is not None:
        yield "should say", _text(sample.reference.answer)
        yield "should find", _html_list("ul", [_text(one) for one in sample.reference.contexts])
    if sample.contexts is not None:
        chunks = [
            _text(one.text) + (f' <span class="soft">{html.text(one.id)}</span>' if one.id else "")
            for one in sample.contexts
        ]
        yield "found", _html_list("ol", chunks) or "<i>nothing</i>"


def _html_list(kind: str, entries: Sequence[str]) -> str:
    if not entries:
        return ""
    more = len(entries) - MAX_CHUNKS
    left = f'<p class="soft">and {more} more</p>' if more > 0 else ""
    return f"<{kind}>{''.join(f'<li>{one}</li>' for one in entries[:MAX_CHUNKS])}</{kind}>{left}"


def _evidence_of(score: Score) -> str:
    """Return a score's evidence in words and piece by piece, evidence against it first."""
    said = html.evidence(score)
    items = sorted(score.items, key=lambda item: _ORDER[item.verdict])
    if items:
        said += f"<ul>{''.join(map(_item, items[:MAX_ITEMS]))}</ul>"
    if len(items) > MAX_ITEMS:
        said += f'<span class="soft">and {len(items) - MAX_ITEMS} more</span>'
    return said


def _item(item: ScoreItem) -> str:
    mark, word = _MARKS[item.verdict]
    sign = "" if item.verdict is None and item.value is not None else f'<span title="{word}">{mark}</span> '
    because = " · ".join(html.text(part, 300) for part in (item.reason, item.evidence) if part)
    number = "" if item.value is None else f" ({item.value:.2f})"
    return (
        f"<li>{sign}{html.text(item.text, 300) or html.text(item.id)}{number}"
        + (f' <span class="soft">{because}</span>' if because else "")
        + "</li>"
    )


def _text(value: str | None) -> str:
    return html.text(value, MAX_TEXT)


def questions_of(summaries: Sequence[ScoreSummary]) -> dict[str, str]:
    """Return the question that each score of a known metric answers, as HTML with a link."""
    found: dict[str, str] = {}
    for one in summaries:
        meaning = meaning_of(one.name)
        if meaning is not None:
            found[one.name] = f'<a href="#{_id_of(meaning)}">{html.text(meaning.question, 300)}</a>'
    return found


def meanings(summaries: Sequence[ScoreSummary]) -> str:
    """Return each metric's description, version and role in the verdict, as collapsed sections."""
    of_metric = {
        meaning.metric: meaning
        for meaning in (meaning_of(one.name) for one in summaries)
        if meaning is not None
    }
    return "".join(_meaning(one) for one in of_metric.values())


def _meaning(one: Meaning) -> str:
    thresholds = "".join(f"<li>{html.text(line, 400)}</li>" for line in thresholds_of(one.scores))
    names = ", ".join(one.scores)
    return (
        f"<details><summary><b>{html.text(names, 400)}</b> {html.text(one.question, 300)}</summary>"
        f'<div id="{_id_of(one)}"><pre>{html.text(one.says, 6000)}</pre>'
        + (f"<p>What the verdict makes of it:</p><ul>{thresholds}</ul>" if thresholds else "")
        + f'<p class="soft">metric {html.text(one.metric)}, definition {html.text(one.definition)}</p>'
        "</div></details>"
    )


def _id_of(one: Meaning) -> str:
    return f"metric-{escape(one.metric)}"
