"""What the plugin tells the assertions, and they the plugin: settings of the run, and what was decided in it.

Without pytest nobody listens, and the settings are the usual ones.  It imports nothing: it is loaded in
every run of pytest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

__all__ = ["Inconclusive", "Session", "session"]

Inconclusive = Literal["fail", "warn"]


class Session:
    """The settings of a run of tests, and who wants to know what was decided."""

    def __init__(self) -> None:
        self.texts = False
        """Whether messages quote the questions of the worst rows."""
        self.inconclusive: Inconclusive = "fail"
        """What becomes of a test whose interval lies on both sides of the limit."""
        self.write_baselines = False
        """Whether baselines are written from this run's results, instead of compared with."""
        self.listener: Callable[[Mapping[str, Any]], None] | None = None
        """Takes each check, as `ragmeter.quality.decision.Check.as_json` has it; None: nobody does."""


session = Session()
"""That of this process: pytest runs one test at a time in it."""
