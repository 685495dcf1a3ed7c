"""Tells people of a version that made a service worse, on its first day: before any detector can know.

The store compares; this says each once, by the way on which the meter tells of every change: log, exporters,
webhook, `on_change`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ragmeter.quality.estimates import Estimate
from ragmeter.watch.alarming import Alarming
from ragmeter.watch.change import Change, NewSince

from .store import DeploymentView, Filters, Reader

__all__ = ["VersionAlerts", "version_alerts"]

LOOKED_BACK_S = 86_400.0
"""What was deployed longer ago is the detectors' to see."""


class VersionAlerts:
    """Looks at what was deployed.

    Args:
        reader: Of the store.
        tell: Tells of a change, as `Alarming.tell`.
        changes: Returns those that were told.
    """

    def __init__(
        self,
        reader: Reader,
        tell: Callable[[Change, Mapping[str, str]], object],
        changes: Callable[[], Sequence[Change]],
    ) -> None:
        self._reader = reader
        self._tell = tell
        self._changes = changes

    def look(self) -> bool:
        """Tell of what is worse and was not told; return False: there is never more to do at once."""
        told = {(one.service, one.segment) for one in self._changes() if one.kind == "version"}
        for one in self._reader.health(Filters(range_s=LOOKED_BACK_S)).deployments:
            change = _change_of(one, self._reader.now())
            if change is not None and (change.service, change.segment) not in told:
                self._tell(change, {"service.name": one.service} if one.service else {})
        return False


def version_alerts(reader: Reader | None, alarming: Alarming | None) -> list[Callable[[], bool]]:
    """Return what is to be done now and then, if the meter watches and there is a store."""
    if reader is None or alarming is None:
        return []
    return [VersionAlerts(reader, alarming.tell, alarming.watch.changes).look]


def _change_of(one: DeploymentView, now: float) -> Change | None:
    """Return a deployment as a change; None: it made nothing worse."""
    said = one.comparison
    if said is None or said.effect != "worse":
        return None
    first = one.values[0]
    note = f"{first.name} {first.value} after {first.before}"
    if one.bad_before is not None and one.bad_after is not None:
        shares = (one.bad_before.share, one.bad_after.share)
        if None not in shares:
            note += "; bad answers " + " → ".join(f"{100 * (each or 0):.0f} %" for each in shares)
    return Change(
        score=said.score,
        workflow="",
        segment=f"metadata.{first.name}:{first.value}",
        service=one.service,
        since=one.at_ms / 1000,
        at=now,
        before=_estimate(said.before, said.before, said.before, said.n_before),
        now=_estimate(said.after, said.before + said.lower, said.before + said.upper, said.n_after),
        evidence=1.0,
        kind="version",
        note=note,
        new=tuple(
            NewSince(
                name=each.name,
                value=each.value,
                at=one.at_ms / 1000,
                requests=0 if one.bad_after is None else one.bad_after.requests,
            )
            for each in one.values[1:]
        ),
    )


def _estimate(mean: float, lower: float, upper: float, n: int) -> Estimate:
    return Estimate(
        mean=mean,
        lower=max(0.0, lower),
        upper=min(1.0, upper),
        n_requests=n,
        n_judged=n,
        method="all",
    )
