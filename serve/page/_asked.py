"""The query parameters of a page: period, filters and order, and links that preserve them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any
from urllib.parse import quote, urlencode

from starlette.datastructures import QueryParams

from ragmeter.exporters.change_words import LANGUAGES
from ragmeter.metrics import VERDICT_CODES
from ragmeter.serve.store import LATEST_MS
from ragmeter.serve.store.views import Filters, InvalidQueryError

from ._connect import SETUPS

RANGES: Mapping[str, float] = {"15m": 900.0, "1h": 3_600.0, "6h": 21_600.0, "24h": 86_400.0, "7d": 604_800.0}
"""Values of ``range=``, in seconds."""
VERDICTS = ("good", "suspect", "bad")
SETTINGS = {"lang": tuple(LANGUAGES), "theme": ("dark", "light"), "keys": ("on", "off")}
"""Values of the page's settings, by parameter and cookie."""
UNNAMED = "-"
"""``service=-``, ``workflow=-``: requests without one."""
_MOST_CHARACTERS = 500
_MOST_PARTS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class PageQuery:
    """The query parameters of a page. Empty: not given."""

    range: str = "1h"
    """Length of the period, of `RANGES`."""
    workflow: str = ""
    """Only this workflow; `UNNAMED`: requests without one."""
    service: str = ""
    """Only this service; `UNNAMED`: requests without one."""
    seg: str = ""
    """Only this segment, as ``language:zh``."""
    since: str = ""
    """Start of the period, in milliseconds since the epoch, instead of `range`."""
    verdict: str = ""
    """Only this verdict; for lists only."""
    reason: str = ""
    """Only requests with this code in their verdict; for lists only, as all following fields up to `gap`."""
    part: tuple[str, ...] = ()
    """Only these segments, in addition to `seg`."""
    q: str = ""
    """Only requests with these words in question, answer or chunks."""
    low: str = ""
    """Lowest value of support."""
    high: str = ""
    """Highest value of support."""
    conversation: str = ""
    """Only this conversation."""
    gap: str = ""
    """Only the knowledge gap with this id."""
    question: str = ""
    """Only this question, by `QuestionView.key`; for lists only."""
    by: str = ""
    """The kind of lanes in the overview: a segment's name, ``service`` or ``workflow``."""
    lanes: str = ""
    """``all``: not only the first few lanes."""
    sort: str = ""
    """Order of lists: ``worst``, ``newest``, or a score's name."""
    before: str = ""
    """Cursor of a page of a list."""
    setup: str = ""
    """The kind of application to connect, of `SETUPS`."""

    def filters(self) -> Filters:
        """Return the filters for the store."""
        return Filters(
            range_s=RANGES[self.range],
            since_ms=int(self.since) if self.since else None,
            service="" if self.service == UNNAMED else self.service or None,
            workflow="" if self.workflow == UNNAMED else self.workflow or None,
            segment=self.seg or None,
            verdict=self.verdict or None,
            reason=self.reason or None,
            segments=self.part,
            scores=tuple(
                ("support", sign, float(bound))
                for sign, bound in ((">=", self.low), ("<=", self.high))
                if bound
            ),
            search=self.q or None,
            conversation_id=self.conversation or None,
            gap=self.gap or None,
            question=self.question or None,
        )

    def link(self, path: str, **changes: str | tuple[str, ...]) -> str:
        """Return an address with these parameters and the changed ones; empty ones are left out."""
        given = {**self.given(), **_OF_ONE_PAGE, **changes}
        said = [
            (name, given[name])
            for name, default in _DEFAULTS.items()
            if given.get(name) and given[name] != default
        ]
        return f"{path}?{urlencode(said, doseq=True)}" if said else path

    def given(self) -> dict[str, str | tuple[str, ...]]:
        """Return the parameters that differ from their defaults."""
        return {
            name: value
            for name, value in zip(_DEFAULTS, _VALUES(self), strict=True)
            if value != _DEFAULTS[name]
        }

    def in_force(self) -> dict[str, Any]:
        """Return the effective filters by name."""
        names = (
            "service", "workflow", "seg", "part", "since", "verdict", "reason", "q", "low", "high",
            "conversation", "gap", "question",
        )  # fmt: skip
        return {name: getattr(self, name) for name in names if getattr(self, name)}


_DEFAULTS = {name: one.default for name, one in PageQuery.__dataclass_fields__.items()}
_VALUES = attrgetter(*_DEFAULTS)
_OF_ONE_PAGE = dict.fromkeys(("before", "setup", "lanes"), "")


def page_query_of(query: Mapping[str, str]) -> PageQuery:
    """Parse the query parameters of an address; unknown ones are ignored.

    Raises:
        InvalidQueryError: A parameter has an invalid value.
    """
    given = {
        name: value.strip()[:_MOST_CHARACTERS]
        for name, value in query.items()
        if name in _DEFAULTS and name != "part"
    }
    parts = query.getlist("part") if isinstance(query, QueryParams) else ()
    asked = PageQuery(
        **{name: value for name, value in given.items() if value},
        part=tuple(one.strip()[:_MOST_CHARACTERS] for one in parts if one.strip())[:_MOST_PARTS],
    )
    if asked.range not in RANGES:
        raise InvalidQueryError(f"range is one of {', '.join(RANGES)}")
    words = {**SETTINGS, "verdict": VERDICTS, "reason": VERDICT_CODES, "setup": tuple(SETUPS)}
    for name, allowed in words.items():
        said = query.get(name, "").strip()
        if name == "lang":  # browsers send zh-CN
            said = said.lower().partition("-")[0]
        if said not in ("", *allowed):
            raise InvalidQueryError(f"{name} is one of {', '.join(allowed)}")
    if asked.question and not re.fullmatch("[0-9a-f]{16}", asked.question):
        raise InvalidQueryError("question is 16 hex digits")
    if not re.fullmatch("[0-9]{0,15}", asked.since) or int(asked.since or 0) > LATEST_MS:
        raise InvalidQueryError("since is milliseconds since 1970-01-01 00:00 UTC")
    if any(":" not in one for one in (asked.seg or ":", *asked.part)):
        raise InvalidQueryError("seg is name:value, as language:zh")
    if asked.gap and not re.fullmatch("[0-9a-f]{8}", asked.gap):
        raise InvalidQueryError("gap is the id of a knowledge gap, 8 hex digits")
    bounds = {name: getattr(asked, name).replace(",", ".") for name in ("low", "high")}
    if not all(re.fullmatch(r"([0-9]{1,3}(\.[0-9]{1,6})?)?", one) for one in bounds.values()):
        raise InvalidQueryError("low and high are numbers, as 0.3")
    return replace(asked, **bounds)


def request_path(trace_id: str | None, span_id: str | None, run_id: str) -> str:
    """Return the address of one request."""
    if trace_id is None:
        return f"/request/{quote(run_id, safe='')}"
    return f"/request/{trace_id}" + (f"/{span_id}" if span_id else "")
