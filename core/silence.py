"""Says so when an adapter is attached and nothing arrives.

The commonest trouble with telemetry is none at all.  The meter looks here
whenever somebody reads its counters (a metrics exporter does so every minute): no thread, no timer.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

__all__ = ["QUIET_S", "Silence"]

logger = logging.getLogger("ragmeter")

QUIET_S = 300.0
"""Seconds without a request after which the first warning is due."""


class Silence:
    """Remembers which adapters are attached since when, and warns once about silence.

    Args:
        clock: Monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._since: dict[str, float] = {}
        self._told = False

    def attached(self, adapter: str) -> None:
        """Note that an adapter waits for requests."""
        self._since.setdefault(adapter, self._clock())

    def check(self, captured: int) -> None:
        """Warn, once, when adapters have waited for long and nothing was captured."""
        if captured or self._told or not self._since:
            return
        waited = self._clock() - min(self._since.values())
        if waited >= QUIET_S:
            self._told = True
            logger.warning(
                "ragmeter is attached (%s) but has captured no request in %d s. Does the "
                "application retrieve through the framework, and is the handler passed to the call? "
                "`ragmeter doctor` checks the set-up.",
                ", ".join(sorted(self._since)),
                int(waited),
            )
