"""State shared by the plugin and the assertions: settings of the test run, and a listener for checks.

Without pytest there is no listener, and the settings are the defaults. It imports nothing, as every run of
pytest loads it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

Inconclusive = Literal["fail", "warn"]


class Session:
    """The settings of a test run, and the listener for its checks."""

    def __init__(self) -> None:
        self.texts = False
        """Whether messages quote the questions of the worst rows."""
        self.inconclusive: Inconclusive = "fail"
        """Whether a test fails if its interval contains the limit."""
        self.write_baselines = False
        """Whether to write baselines from this run instead of comparing with them."""
        self.listener: Callable[[Mapping[str, Any]], None] | None = None
        """Receives each check as `ragmeter.quality.decision.Check.as_json`; None: no listener."""


session = Session()
"""The session of this process, in which pytest runs one test at a time."""
