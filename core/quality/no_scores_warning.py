"""Warn once if a score has no value for many requests: `UnscoredWarning`.

A judge without answers does not lower a mean, but leaves one that rests on few requests. The meter checks
this when its counters are read, as a metrics exporter does every minute: no thread, no timer.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping

from .estimates import Estimate, QualityKey
from .sums_by_time import SLOT_S

UNSCORED_SHARE = 0.3
"""Share of the measured requests without a value, although one exists, above which to warn."""
LEAST_MEASURED = 20
"""Least number of measured requests in the last hour."""

_log = logging.getLogger("ragmeter")


class UnscoredWarning:
    """Warns once for each score of a workflow, and again after a recovery.

    Args:
        estimates: Returns the estimates of the last hour; parts of workflows are ignored.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        estimates: Callable[[], Mapping[QualityKey, Estimate]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._estimates = estimates
        self._clock = clock
        self._next = clock() + SLOT_S
        self._warned: set[QualityKey] = set()

    def check(self) -> None:
        """Check, at most once in five minutes."""
        now = self._clock()
        if now < self._next:
            return
        self._next = now + SLOT_S
        for key, found in self._estimates().items():
            if key.segment or found.n_judged < LEAST_MEASURED:
                continue
            if found.unscored <= UNSCORED_SHARE:
                self._warned.discard(key)
            elif key not in self._warned:
                self._warned.add(key)
                _log.warning(
                    "ragmeter: %s of %s has no value for %.0f %% of the %d requests that were measured in the "
                    "last hour: errors, timeouts, or no budget. Its mean speaks for the others alone",
                    key.score,
                    key.workflow or "requests without a workflow",
                    100 * found.unscored,
                    found.n_judged,
                )
