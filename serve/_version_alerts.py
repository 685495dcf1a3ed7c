"""Alerts for a version that made a service worse, on its first day, before any detector can find it.

The store compares versions; this reports each worse one once, as the meter reports every change: log,
exporters, webhook, `on_change`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ragmeter.watch.change import Change
from ragmeter.watch.version_comparison import VersionComparison
from ragmeter.watch.version_watch import version_change

from .store import Reader
from .store.health_views import DeploymentView
from .store.views import Filters

LOOKED_BACK_S = 86_400.0
"""Older deployments are left to the detectors."""


def report_worse_versions(
    reader: Reader, tell: Callable[[Change, Mapping[str, str]], object], changes: Callable[[], Sequence[Change]]
) -> bool:
    """Report the deployed versions that are worse than those before and were not reported so far.

    Returns:
        False: there is never more to do at once.
    """
    reported = {(one.service, one.segment) for one in changes() if one.kind == "version"}
    for one in reader.health(Filters(range_s=LOOKED_BACK_S)).deployments:
        change = deployment_change(one, reader.now())
        if change is not None and (change.service, change.segment) not in reported:
            tell(change, {"service.name": one.service} if one.service else {})
    return False


def deployment_change(one: DeploymentView, now: float) -> Change | None:
    """Return a deployment as a change, or None if it made nothing worse."""
    said = one.comparison
    if said is None:
        return None
    before, after = one.bad_before, one.bad_after
    n = 0 if after is None else after.requests
    return version_change(
        VersionComparison(said.before, said.after, said.lower, said.upper, said.n_before, said.n_after),
        said.score,
        one.service,
        since=one.at_ms / 1000,
        now=now,
        new=[(each.name, each.before, each.value, n) for each in one.values],
        bad=(None if before is None else before.share, None if after is None else after.share),
    )
