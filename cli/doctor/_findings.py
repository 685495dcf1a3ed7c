"""`Finding`: one line of the doctor's report. Every check yields some; nothing else is passed around."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Area = Literal["installed", "configured", "reachable", "test request", "application", "requests"]
State = Literal["ok", "skipped", "warning", "failed"]
_ORDER: tuple[State, ...] = ("ok", "skipped", "warning", "failed")


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check."""

    area: Area
    what: str
    state: State
    """``ok``; ``skipped``: not wanted or not possible here; ``warning``: works, but may not be as intended;
    ``failed``: must be fixed."""
    detail: str
    """The result. Never contains a key or a text of the user's."""
    fix: str = ""
    """The fix; empty if none is needed."""


@dataclass(frozen=True, slots=True)
class ExaminationPart:
    """One part of the examination; creates that part's findings."""

    area: Area

    def ok(self, what: str, detail: str) -> Finding:
        """Return the finding that something works."""
        return Finding(self.area, what, "ok", detail)

    def skipped(self, what: str, detail: str, fix: str = "") -> Finding:
        """Return the finding that something optional is absent."""
        return Finding(self.area, what, "skipped", detail, fix)

    def warning(self, what: str, detail: str, fix: str) -> Finding:
        """Return the finding that something may not be as intended."""
        return Finding(self.area, what, "warning", detail, fix)

    def failed(self, what: str, detail: str, fix: str) -> Finding:
        """Return the finding that something does not work."""
        return Finding(self.area, what, "failed", detail, fix)


INSTALLED = ExaminationPart("installed")
CONFIGURED = ExaminationPart("configured")
REACHABLE = ExaminationPart("reachable")
TEST_REQUEST = ExaminationPart("test request")
APPLICATION = ExaminationPart("application")
REQUESTS = ExaminationPart("requests")


def worst(findings: Iterable[Finding]) -> State:
    """Return the worst state among `findings`; ``ok`` if there are none."""
    states: set[State] = {one.state for one in findings}
    return max(states, key=_ORDER.index) if states else "ok"
