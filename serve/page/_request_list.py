"""The list of requests: converts the store's results to rows, facets and chips."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from markupsafe import Markup

from ragmeter.serve.store.views import Facet, FacetPage, RequestPage, RequestRow

from ._asked import UNNAMED, PageQuery
from ._numbers import clock, count, number
from ._overview import segment_name, segment_words
from ._strips import bar, histogram
from ._words import Words

SUPPORT = ("support", "lexical_groundedness")
RELEVANCE = ("lexical_context_relevance", "semantic_context_relevance")
_PLAIN = ("verdict", "reason", "service", "workflow")


class ListCell(NamedTuple):
    """A score in a row of a list."""

    text: str
    """The value; a dash without one."""
    drawing: Markup
    """The value as a bar; empty without one."""
    why: str = ""
    """The reason for a missing value, if it was to be measured."""


class ListRow(NamedTuple):
    """A request in a list."""

    row: RequestRow
    reason: str
    """The first of its reasons, in words; empty without one."""
    more: int
    """Number of further reasons."""
    support: ListCell
    relevance: ListCell
    share: Markup
    """The share of bad requests with its question as a bar; empty in other orders."""


_MOST_CHIP_CHARS = 80


class FacetLine(NamedTuple):
    """A value to filter the list by."""

    value: str
    label: str
    requests: str
    chosen: bool
    link: str


class FacetView(NamedTuple):
    """The values of one filter, as displayed."""

    name: str
    title: str
    lines: tuple[FacetLine, ...]


class Chip(NamedTuple):
    """An active filter, and the address without it."""

    label: str
    value: str
    link: str


def list_rows(page: RequestPage, words: Words) -> list[ListRow]:
    """Return the rows of a page of the list."""
    return [
        ListRow(
            row,
            words.name("code", row.verdict_codes[0]) if row.verdict_codes else "",
            max(0, len(row.verdict_codes) - 1),
            _cell(row, SUPPORT, words, bad=row.verdict == "bad"),
            _cell(row, RELEVANCE, words),
            Markup("") if row.bad is None else bar(row.bad.share or 0.0, is_bad=row.bad.bad > 0),
        )
        for row in page.requests
    ]


def _cell(row: RequestRow, names: Sequence[str], words: Words, *, bad: bool = False) -> ListCell:
    score = next((row.scores[name] for name in names if name in row.scores), None)
    if score is None:
        return ListCell("–", Markup(""))
    if score.value is None:
        return ListCell("–", Markup(""), words.status(score.status))
    return ListCell(number(score.value), bar(score.value, is_bad=bad))


def facet_views(page: FacetPage, asked: PageQuery, words: Words) -> list[FacetView]:
    """Return the facets with the address of each value."""
    segments = [one.name for one in page.facets if one.name not in _PLAIN]
    return [
        FacetView(
            one.name,
            words(f"facet_{one.name}")
            if one.name in _PLAIN
            else segment_words(segment_name(one.name, segments), words),
            tuple(_lines(one, asked, words)),
        )
        for one in page.facets
    ]


def _lines(facet: Facet, asked: PageQuery, words: Words) -> Iterator[FacetLine]:
    for one in facet.values:
        chosen, link = _toggle(facet.name, one.value, asked)
        if link:
            label = _value_words(facet.name, one.value, words)
            yield FacetLine(one.value, label, count(one.requests), chosen, link)


def _value_words(name: str, value: str, words: Words) -> str:
    if name == "verdict":
        return words(f"word_{value or 'none'}")
    if name == "reason":
        return words.name("code", value)
    return "–" if value in ("", UNNAMED) else value


def _toggle(name: str, value: str, asked: PageQuery) -> tuple[bool, str]:
    """Return whether a value is chosen, and the address that toggles it; empty: no such address."""
    if name in _PLAIN:
        wanted = UNNAMED if name in ("service", "workflow") and not value else value
        chosen = getattr(asked, name) == wanted
        return chosen, asked.link("/requests", **{name: "" if chosen else wanted}) if wanted else ""
    part = f"{name}:{value}"
    chosen = part in (asked.seg, *asked.part)
    return chosen, asked.link("/requests", **_parts(asked, part, chosen=chosen))


def _parts(asked: PageQuery, part: str, *, chosen: bool) -> dict[str, str | tuple[str, ...]]:
    """Return the chosen segments with one added or removed."""
    parts = [one for one in (asked.seg, *asked.part) if one and one != part]
    parts += [] if chosen else [part]
    return {"seg": parts[0] if parts else "", "part": tuple(parts[1:])}


def chips(asked: PageQuery, words: Words, now_ms: float, page: RequestPage) -> list[Chip]:
    """Return the active filters of a list."""
    found: list[Chip] = []
    for name, value in asked.in_force().items():
        if name == "part":
            continue
        if name == "seg":
            for part in (asked.seg, *asked.part):
                label, _, said = part.partition(":")
                link = asked.link("/requests", **_parts(asked, part, chosen=True))
                found.append(Chip(segment_words(segment_name(label, (label,)), words), said, link))
            continue
        said = _value_words(name, value, words)
        if name == "since":
            said = clock(int(value), now_ms)
        if name == "question" and page.requests:
            said = (page.requests[0].question or said)[:_MOST_CHIP_CHARS]
        found.append(Chip(words(f"facet_{name}"), said, asked.link("/requests", **{name: ""})))
    return found


def timeline(page: FacetPage, words: Words, now_ms: float) -> tuple[Markup, tuple[str, str]]:
    """Return the requests over time, by verdict, and the times at its ends."""
    ends = (page.from_ms, page.from_ms + page.step_ms * len(page.bins))
    label = words("found_requests", n=page.total)
    return histogram(page.bins, label=label), (clock(ends[0], now_ms), clock(ends[1], now_ms))
