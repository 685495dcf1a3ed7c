"""The overview: converts the store's view of services to the template's values."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from ragmeter.adapters.opentelemetry.heard import NO_REQUESTS, HeardService
from ragmeter.quality.estimates import Estimate
from ragmeter.serve.store.health_views import BadShare, DeploymentView, HealthView, LaneView, SignalView
from ragmeter.serve.store.views import Overview
from ragmeter.serve.store.views import TrendPoint as StoredPoint

from ._asked import UNNAMED, PageQuery
from ._drawings import TrendPoint
from ._numbers import clock, interval, number, percent
from ._score_rows import labelled_trend
from ._strips import axis, bar, pair, strip
from ._words import Words

FIRST_LANES = 8
"""Lanes to show at first."""
MOST_HEARD = 5
LANES_WITH_HOVER = 3
"""Most lanes with the number of bad requests of each bin in a tooltip: more would make the page large."""
SURELY_BAD = 0.1
"""Share of bad requests beyond which, with certainty, a number is orange."""
_SEGMENT_WORDS = {
    "service": "service",
    "workflow": "workflow",
    "language": "language",
    "service.version": "version",
    "index_version": "index",
    "prompt_version": "prompt",
    "model": "model",
    "tenant": "tenant",
    "retriever": "retriever",
}
_SHARES = ("refusals", "nothing_found")
_NOT_OURS = "no_model_call"
_TOOL_TO_NAME = ("no_retrieval_seen", "tool_not_shown")


@dataclass(frozen=True, slots=True, kw_only=True)
class Number:
    """A number with its interval or an earlier value for comparison."""

    text: str
    note: str
    is_off: bool = False
    """Whether it is surely worse than before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneRow:
    """A lane of the table."""

    name: str
    whose: str
    """The lane's service, if there are several; else empty."""
    changes: Mapping[str, str]
    """Query parameters of the link into the lane."""
    version: str
    strip: Markup
    numbers: tuple[Number, ...]
    """Share of bad requests, support, relevance."""
    requests: int


def segment_name(name: str, among: Collection[str]) -> str:
    """Return the short name of a segment: metadata's key alone, unless another segment has that name."""
    short = name.removeprefix("metadata.")
    return name if short in among else short


def segment_words(name: str, words: Words) -> str:
    """Return the display name of a segment; its own name if there is no translation."""
    key = _SEGMENT_WORDS.get(name)
    return name if key is None else words(key)


def value_words(one: DeploymentView, words: Words) -> list[tuple[str, str, str]]:
    """Return what a deployment changed: display name, value before, new value."""
    return [(segment_words(each.name, words), each.before, each.value) for each in one.values]


def sentence(lead: DeploymentView | None, words: Words) -> dict[str, Any] | None:
    """Return the first sentence of a page and its evidence, or None if no deployment made anything worse."""
    if lead is None or lead.comparison is None:
        return None
    said, first = lead.comparison, lead.values[0]
    change = said.after - said.before
    bad, was = lead.bad_after, lead.bad_before
    return {
        "what": f"{lead.service} {first.value}".strip(),
        "old": first.before,
        "at_ms": lead.at_ms,
        "n_before": said.n_before,
        "n_after": said.n_after,
        "support": (number(said.before), number(said.after)),
        "support_interval": f"{number(change, sign=True)} {interval(said.lower, said.upper, sign=True)}",
        "support_drawing": pair(
            said.before, said.after, said.before + said.lower, said.before + said.upper, is_bad=True
        ),
        "bad": bad,
        "bad_shares": (_percent(was), _percent(bad)),
        "bad_drawing": ""
        if bad is None or bad.share is None
        else pair(None if was is None else was.share, bad.share, bad.lower, bad.upper, is_bad=True),
        "also": value_words(lead, words)[1:],
        "bad_link": {
            "service": lead.service or UNNAMED,
            "workflow": "",
            "verdict": "bad",
            "since": str(lead.at_ms),
            "seg": f"metadata.{first.name}:{first.value}",
        },
        "compare_link": {
            "service": lead.service or UNNAMED, "workflow": "", "seg": "",
            "by": f"metadata.{first.name}",
        },
    }  # fmt: skip


def lane_table(health: HealthView, overview: Overview, asked: PageQuery, words: Words) -> dict[str, Any]:
    """Return the lanes with their axis."""
    n_bins = max((len(one.bins) for one in health.lanes), default=1)
    start, width = health.bins_from_ms, health.bin_ms
    end = start + width * n_bins

    def place(at_ms: int) -> float:
        return (at_ms - start) / (end - start)

    lanes = health.lanes if asked.lanes == "all" else health.lanes[:FIRST_LANES]
    every = next((s for s in (1, 2, 3, 4, 6, 8, 12, 24) if n_bins / s <= 8), 48)
    first = -(-start // (width * every)) * width * every
    ticks = [(place(at), clock(at, overview.until_ms)) for at in range(first, end, width * every)]
    newest = max(
        (one for one in health.deployments if start <= one.at_ms < end), key=lambda one: one.at_ms, default=None
    )
    marks = []
    if newest is not None:
        name = newest.values[0].value
        marks = [(place(newest.at_ms), name if asked.service else f"{newest.service} {name}")]
    return {
        "axis": axis(ticks, marks),
        "rows": [_lane_row(lane, health, words, place, hover=len(lanes) <= LANES_WITH_HOVER) for lane in lanes],
        "more": len(health.lanes) - len(lanes),
        "by": segment_words(segment_name(health.by, overview.segments), words),
        "minutes": max(1, width // 60_000),
    }


def _lane_row(
    lane: LaneView, health: HealthView, words: Words, place: Callable[[int], float], *, hover: bool
) -> LaneRow:
    def said(at: int) -> str:
        counts, begins = lane.bins[at], health.bins_from_ms + at * health.bin_ms
        return f"{clock(begins)}–{clock(begins + health.bin_ms)}: " + _of_bad(counts[0], sum(counts[:3]), words)

    by = health.by
    service = lane.name if by == "service" else lane.service
    changes = {"service": service or UNNAMED, "by": ""}
    if by == "service":
        changes |= {"workflow": "", "seg": ""}
    elif by == "workflow":
        changes |= {"workflow": lane.name or UNNAMED}
    else:
        changes = changes | {"seg": f"{by}:{lane.name}"} if lane.name else {}
    whose = {one.service for one in health.lanes}
    totals = [sum(each) for each in zip(*lane.bins, strict=True)]
    return LaneRow(
        name=lane.name or "–",
        whose=lane.service if by != "service" and len(whose) > 1 else "",
        changes=changes,
        version=lane.version,
        strip=strip(
            lane.bins,
            [place(at) for at in lane.deployments],
            label=f"{lane.name}: {_of_bad(totals[0], sum(totals[:3]), words)}",
            said=said if hover else None,
        ),
        numbers=(
            _share_number(lane.bad, lane.bad_before, words),
            _mean_number(lane.support, lane.support_before, words),
            _mean_number(lane.relevance, lane.relevance_before, words),
        ),
        requests=lane.requests,
    )


def _share_number(now: BadShare, before: BadShare | None, words: Words) -> Number:
    if now.share is None:
        return Number(text="–", note="")
    if before is not None:
        off = _is_worse(now, before)
        return Number(text=_percent(now), note=words("was", v=_percent(before)), is_off=off)
    ends = f"{now.lower * 100:.0f}–{percent(now.upper)}"
    return Number(text=_percent(now), note=ends)


def _mean_number(now: Estimate | None, before: Estimate | None, words: Words) -> Number:
    if now is None or now.mean is None:
        return Number(text="–", note="")
    if before is not None and before.mean is not None:
        return Number(
            text=number(now.mean), note=words("was", v=number(before.mean)), is_off=now.upper < before.lower
        )
    return Number(text=number(now.mean), note=f"{number(now.lower)}–{number(now.upper)}")


def heard_rows(
    heard: Sequence[HeardService], service: str | None = None, *, everything: bool = False
) -> list[dict[str, Any]]:
    """Return the services without scored requests, with the most frequent reason.

    Args:
        heard: The received requests of each service, by outcome.
        service: Only this service; None: all.
        everything: Whether to include services without any span of a model.
    """
    found = [
        {
            "service": one.service,
            "n": one.traces,
            "fix": _option(one.fix) if reason in _TOOL_TO_NAME else one.fix,
            "reason": reason,
        }
        for one in heard
        if not one.scored and service in (None, one.service)
        for faults in [{k: n for k, n in one.reasons.items() if k not in NO_REQUESTS}]
        if faults
        for reason in [max(faults, key=lambda each: faults[each])]
    ]
    return [one for one in found if everything or one["reason"] != _NOT_OURS]


def _option(fix: str) -> str:
    """Return the option that a fix names: the page says the rest in its own words."""
    found = re.search(r"--retrieval-.*", fix)
    return found[0] if found else "--retrieval-tool 'search_*'"


def question_rows(health: HealthView, asked: PageQuery, words: Words) -> list[dict[str, Any]]:
    """Return the rows of questions that go badly."""
    since = "" if health.lead is None else str(health.lead.at_ms)
    return [
        {
            "one": one,
            "codes": one.codes[:2],
            "drawing": bar(one.bad.share or 0.0, is_bad=one.bad.lower > SURELY_BAD),
            "text": _of_bad(one.bad.bad, one.bad.requests, words),
            "is_off": one.bad.lower > SURELY_BAD,
            "link": {
                "service": asked.service if health.lead is None else health.lead.service or UNNAMED,
                "since": since or asked.since,
                "verdict": "bad",
                "question": one.key,
            },
        }
        for one in health.questions
    ]


def part_rows(health: HealthView, words: Words) -> list[dict[str, Any]]:
    """Return the rows of segments that are bad."""
    return [
        {
            "name": one.segment.partition(":")[2],
            "drawing": pair(
                None if one.before is None else one.before.share,
                one.now.share or 0.0, one.now.lower, one.now.upper,
                is_bad=_is_worse(one.now, one.before),
            ),
            "text": _percent(one.now),
            "note": words("was", v=_percent(one.before)) if one.before else "",
            "is_off": _is_worse(one.now, one.before),
            "link": {
                "seg": "" if one.segment.startswith("workflow:") else one.segment,
                **({"workflow": one.segment[9:]} if one.segment.startswith("workflow:") else {}),
                "service": health.about or UNNAMED,
            },
        }
        for one in health.parts
    ]  # fmt: skip


def signal_rows(
    health: HealthView, lines: Iterable[tuple[str, Sequence[StoredPoint]]], overview: Overview, words: Words
) -> list[dict[str, Any]]:
    """Return the signals, each with its trend."""
    rows: list[dict[str, Any]] = []
    lines = list(lines)
    for one in health.signals:
        stored = max((points for score, points in lines if score == one.score), key=len, default=())
        is_share = one.name in _SHARES
        ends = [0.0, 1.0]
        if is_share:
            ends[1] = min(1.0, max([0.1, *(point.estimate.upper for point in stored)]))
        rows.append(
            {
                "name": words(one.name),
                "asks": words(f"{one.name}_asks"),
                "is_off": one.is_off,
                "now": _written(one.now.mean, is_share=is_share),
                "before": None if one.before is None else _written(one.before.mean, is_share=is_share),
                "interval": f"{_written(one.now.lower, is_share=is_share)}–"
                f"{_written(one.now.upper, is_share=is_share)}",
                "ends": [_written(end, is_share=is_share) for end in ends],
                "trend": _trend(one, stored, overview, health.lead, ends, words),
            }
        )
    return rows


def _trend(
    one: SignalView,
    stored: Sequence[StoredPoint],
    overview: Overview,
    lead: DeploymentView | None,
    ends: Sequence[float],
    words: Words,
) -> Markup | str:
    points = [
        TrendPoint(
            each.from_ms, each.until_ms, each.estimate.mean, each.estimate.lower, each.estimate.upper,
            each.estimate.n_judged,
        )
        for each in stored
    ]  # fmt: skip
    return labelled_trend(
        points, words(one.name), overview, words, low=ends[0], high=ends[1],
        change_at=None if lead is None else lead.at_ms,
    ) or ""  # fmt: skip


def _is_worse(now: BadShare, before: BadShare | None) -> bool:
    """Return whether a share is surely bad, and above the one before by more than chance.

    The interval of the difference is made of both intervals (Newcombe, *Interval estimation for the difference
    between independent proportions*, 1998, method 10).
    """
    if now.share is None or now.lower <= SURELY_BAD:
        return False
    if before is None or before.share is None:
        return True
    return now.share - before.share > math.hypot(now.share - now.lower, before.upper - before.share)


def _of_bad(bad: int, requests: int, words: Words) -> str:
    return words("count_bad", bad=bad, of=requests)


def _percent(share: BadShare | None) -> str:
    return "–" if share is None or share.share is None else percent(share.share)


def _written(value: float | None, *, is_share: bool) -> str:
    return percent(value) if is_share and value is not None else number(value)
