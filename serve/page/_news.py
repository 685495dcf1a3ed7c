"""The first sentences of a page: what got worse, where and since when, or that nothing did.

They report the detectors' findings, or that detectors are still learning the usual values. Nothing is
compared here.
"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from ragmeter.watch.change import Change

from ._asked import PageQuery

SLACK_MS = 10 * 60_000
"""Changes that began at most this far apart are one sentence."""
MOST_NEWS = 3
"""Most sentences at the top; other changes are in the tables."""


@dataclass(frozen=True, slots=True)
class Standing:
    """The state of the detectors."""

    series: int = 0
    """Number of watched series."""
    learning: tuple[int, int] | None = None
    """Values seen and needed by the series with most values, while none is watched yet; None: some are
    watched."""
    unknown: int = 0
    """Number of watched series without knowledge about this hour of workdays or of weekends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class News:
    """The sentence at the top of the overview, with its details."""

    kind: str
    """``fell``, ``mix``, ``judge`` or ``recovered``."""
    where: str
    """Service, workflow and segment; empty: everything."""
    since_ms: int
    """Start of the change."""
    changes: tuple[Change, ...]
    """The changes of scores, as reported by the detector, the clearest first."""
    filters: PageQuery
    """Filters for the affected requests."""

    @property
    def change(self) -> Change:
        """The clearest of the changes."""
        return self.changes[0]

    @property
    def link(self) -> dict[str, str]:
        """Query parameters of the link to the affected requests."""
        return {name: getattr(self.filters, name) for name in ("service", "workflow", "seg", "since")}

    @property
    def worse(self) -> bool:
        """Whether the news is bad."""
        return self.kind != "recovered"


Fallen = AbstractSet[tuple[str, str]]
"""Service and score of the current falls."""


def news(changes: Sequence[Change], asked: PageQuery, from_ms: int) -> tuple[tuple[News, ...], Fallen]:
    """Return the news about the current changes within the filters, and all current falls.

    Changes that began together and concern the same requests are one sentence.

    Args:
        changes: Newest first; a ``recovered`` one ends the older ones of the same series.
        asked: The page's filters.
        from_ms: Earliest time of a recovery that is still news.
    """
    on = [
        change
        for change in _in_force(changes)
        if change.kind != "version"  # the store reports that, and whether it still holds
        and _within(change, asked)
        and (change.kind != "recovered" or _milliseconds(change.at) >= from_ms)
    ]
    groups: list[list[Change]] = []
    # Falls first, then parts before wholes, then by evidence.
    for change in sorted(on, key=lambda one: (one.kind == "recovered", not one.segment, -one.evidence)):
        for group in groups:
            first = group[0]
            apart = abs(_milliseconds(first.since) - _milliseconds(change.since))
            if first.kind == change.kind and _overlaps(first, change) and apart <= SLACK_MS:
                group.append(change)
                break
        else:
            groups.append([change])
    news = tuple(_news_of(group, asked) for group in groups[:MOST_NEWS])
    return news, {(one.service, one.score) for one in on if one.kind in ("fell", "mix")}


def _in_force(changes: Sequence[Change]) -> list[Change]:
    found: dict[tuple[str, str, str, str, bool], Change] = {}
    for change in sorted(changes, key=lambda one: -one.at):
        judge = change.kind == "judge"
        found.setdefault((change.service, change.workflow, change.segment, change.score, judge), change)
    return list(found.values())


def _within(change: Change, asked: PageQuery) -> bool:
    wanted = asked.filters()
    return (
        (wanted.service is None or change.service in ("", wanted.service))
        and wanted.workflow in (None, change.workflow)
        and (not asked.seg or change.segment in ("", asked.seg))
    )


def _overlaps(one: Change, other: Change) -> bool:
    """Return whether two changes are about the same requests: one may be a part of the other."""
    return (one.service, one.workflow) == (other.service, other.workflow) and (
        one.segment == other.segment or not other.segment
    )


def _milliseconds(at: float) -> int:
    return int(at * 1000)


def _news_of(group: Sequence[Change], asked: PageQuery) -> News:
    first = group[0]
    since = _milliseconds(first.since)
    filters = PageQuery(
        range=asked.range,
        service=first.service or asked.service,
        workflow=first.workflow or asked.workflow,
        seg=first.segment or asked.seg,
        since=str(since),
    )
    value = first.segment.partition(":")[2]
    where = [first.service, first.workflow, value]
    return News(
        kind=first.kind,
        where=" · ".join(part for part in where if part),
        since_ms=since,
        changes=tuple(change for change in group if change.segment == first.segment),
        filters=filters,
    )
