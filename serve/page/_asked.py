"""What an address asks for: time, filters and order, and links that keep all of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from urllib.parse import quote, urlencode

from ragmeter.serve.store import LATEST_MS, Filters

from ._words import LANGUAGES

__all__ = [
    "RANGES",
    "SETTINGS",
    "PageQuery",
    "UnreadableAddressError",
    "page_query_of",
    "request_path",
]

RANGES = {"15m": 900, "1h": 3600, "6h": 21_600, "24h": 86_400, "7d": 604_800}
"""What ``range=`` may be, in seconds."""
VERDICTS = ("good", "suspect", "bad")
SETTINGS = {"lang": tuple(LANGUAGES), "theme": ("dark", "light"), "keys": ("on", "off")}
"""What the page's own settings may be, by parameter and cookie."""
NO_WORKFLOW = "-"
"""``workflow=-``: requests that have none."""
_MOST_CHARACTERS = 500


class UnreadableAddressError(ValueError):
    """A parameter of the address is nothing that can be asked for; says which and what it may be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageQuery:
    """The parameters of a page's address. Empty: not said."""

    range: str = "1h"
    """How far back, of `RANGES`."""
    workflow: str = ""
    """Of this workflow alone; `NO_WORKFLOW`: of those without one."""
    service: str = ""
    """Of this service alone."""
    seg: str = ""
    """Of this part alone, as ``language:zh``."""
    since: str = ""
    """From this moment on, in milliseconds since the epoch, instead of `range`."""
    verdict: str = ""
    """With this verdict alone; lists only."""
    by: str = ""
    """By which segment's values the overview parts its workflows."""
    sort: str = ""
    """Order of lists: ``worst``, ``newest``, or a score's name."""
    before: str = ""
    """Where a list goes on."""

    def filters(self) -> Filters:
        """Return what the store is asked for."""
        return Filters(
            range_s=RANGES[self.range],
            since_ms=int(self.since) if self.since else None,
            service=self.service or None,
            workflow="" if self.workflow == NO_WORKFLOW else self.workflow or None,
            segment=self.seg or None,
            verdict=self.verdict or None,
        )

    def link(self, path: str, **changes: str) -> str:
        """Return an address with these parameters and those changed; an empty one is left out."""
        changed = replace(self, **changes)
        if "before" not in changes:
            changed = replace(changed, before="")
        given = {
            name: getattr(changed, name)
            for name in PageQuery.__dataclass_fields__
            if getattr(changed, name) != PageQuery.__dataclass_fields__[name].default
        }
        return f"{path}?{urlencode(given)}" if given else path

    def in_force(self) -> dict[str, str]:
        """Return the filters that leave requests out, by name."""
        names = ("service", "workflow", "seg", "since", "verdict")
        return {name: getattr(self, name) for name in names if getattr(self, name)}


def page_query_of(query: Mapping[str, str]) -> PageQuery:
    """Read the parameters of an address; those of other names are passed over.

    Raises:
        UnreadableAddressError: One has a value that it cannot have.
    """
    given = {
        name: query[name].strip()[:_MOST_CHARACTERS]
        for name in PageQuery.__dataclass_fields__
        if query.get(name)
    }
    asked = PageQuery(**{name: value for name, value in given.items() if value})
    if asked.range not in RANGES:
        raise UnreadableAddressError(f"range is one of {', '.join(RANGES)}")
    for name, allowed in {**SETTINGS, "verdict": VERDICTS}.items():
        said = query.get(name, "").strip()
        if name == "lang":  # as browsers write it: zh-CN
            said = said.lower().partition("-")[0]
        if said not in ("", *allowed):
            raise UnreadableAddressError(f"{name} is one of {', '.join(allowed)}")
    if asked.since and not (asked.since.isascii() and asked.since.isdecimal()):
        raise UnreadableAddressError("since is milliseconds since 1970-01-01 00:00 UTC")
    if len(asked.since) > len(str(LATEST_MS)) or int(asked.since or 0) > LATEST_MS:
        raise UnreadableAddressError("since is milliseconds since 1970-01-01 00:00 UTC")
    if asked.seg and ":" not in asked.seg:
        raise UnreadableAddressError("seg is name:value, as language:zh")
    return asked


def request_path(trace_id: str | None, span_id: str | None, run_id: str) -> str:
    """Return the address of one request."""
    if trace_id is None:
        return f"/request/{quote(run_id, safe='')}"
    return f"/request/{trace_id}" + (f"/{span_id}" if span_id else "")
