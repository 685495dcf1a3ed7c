"""Detect versions of this process that are worse than the one before, on their first day.

`ragmeter.pipeline.counting` adds each request on its own thread; `ragmeter.watch.alarming` asks every five
minutes and notifies of each version once. The state is saved with the alarms', as a new version is a new
process. A server's store uses `version_change`, too.
"""

from __future__ import annotations

import zlib
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pydantic import TypeAdapter

from ragmeter.exporters.changes import ChangeNote, NewSince
from ragmeter.exporters.protocol import RagRun
from ragmeter.metrics import Score, Verdict
from ragmeter.metrics._process import fork
from ragmeter.quality.estimates import Estimate
from ragmeter.quality.segments import OTHER, UNKNOWN, Segments

from .change import Change
from .version_comparison import (
    NEW_KEYS,
    ComparedValue,
    VersionComparison,
    compare_versions,
    error_share,
    is_version_key,
)

SUPPORT = ("support", "lexical_groundedness")
"""Scores of an answer's support by its contexts; the first that both sides have is compared."""
MOST_VALUES = 200
"""Most values of one name in one service; a name with more is an id, not a version."""
MOST_COMPARED = 2_000
"""Most requests compared on each side of a deployment."""
TOGETHER_S = 900.0
"""Seconds within which new values belong to one deployment."""
OVERLAP_S = 3_600.0
"""Seconds for which the old version may still serve beside the new one."""
MOST_SERVICES = 64
_TENANT = "tenant"
"""A new tenant is compared with all others, not with the one before."""
_READ = Segments(("language", *NEW_KEYS))


class _RequestSupport(NamedTuple):
    """The compared value of a request."""

    score: str
    cell: tuple[str, ...]
    """Language, workflow, and definition of the score: formulas are not compared with each other."""
    unit: int
    """Hash of its conversation, or of its run id."""
    value: float
    """Higher is better."""
    bad: bool | None
    """Whether its verdict is *bad*; None: no verdict."""


@dataclass(slots=True)
class _VersionName:
    """The values of one version name in one service."""

    known: list[str] = field(default_factory=list)
    """In order of arrival, newest last."""
    since: float = 0.0
    """Arrival of the newest value, unix seconds."""
    before: deque[_RequestSupport] = field(default_factory=deque)
    after: deque[_RequestSupport] = field(default_factory=deque)
    n_after: int = 0
    """Requests of the newest value, including those no longer compared."""

    def __post_init__(self) -> None:
        self.before = deque(self.before, MOST_COMPARED)
        self.after = deque(self.after, MOST_COMPARED)


@dataclass(slots=True)
class _ServiceVersions:
    """The latest deployment of one service."""

    resource: Mapping[str, str]
    names: dict[str, _VersionName] = field(default_factory=dict)
    number: int = 0
    """Number of its last deployment among all; 0: none yet."""
    since: float = 0.0
    """Start of that deployment, unix seconds."""
    new: set[str] = field(default_factory=set)
    """Names with a new value in that deployment."""
    told: bool = False


_STATE = TypeAdapter(dict[str, _ServiceVersions])


class VersionWatch:
    """Compares versions. Thread-safe."""

    def __init__(self) -> None:
        self._lock = fork.lock()
        self._fresh()
        fork.forget(self._fresh)

    def _fresh(self) -> None:
        self._services: dict[str, _ServiceVersions] = {}

    def add(self, run: RagRun, scores: Mapping[str, Score], verdict: Verdict | None) -> None:
        """Count a request."""
        (_, language), *pairs = _READ.of(run)
        versions = {name: value for name, value in pairs if value not in (UNKNOWN, OTHER)}
        versions |= {
            name: value
            for name, value in (*run.metadata.items(), *run.framework_metadata.items())
            if isinstance(value, str) and name.startswith("deployment.") and is_version_key(name)
        }
        if not versions:
            return
        support = next((one for name in SUPPORT if (one := scores.get(name)) is not None), None)
        request = None
        if support is not None and support.value is not None:
            unit = zlib.crc32((run.conversation_id or run.run_id).encode())
            request = _RequestSupport(
                support.name,
                (language, run.name or "", support.definition),
                unit,
                support.value,
                None if verdict is None else verdict.word == "bad",
            )
        at = run.started_ns / 1e9
        with self._lock:
            name = run.resource.get("service.name", "")
            service = self._services.get(name)
            if service is None:
                if len(self._services) >= MOST_SERVICES:
                    return
                service = self._services[name] = _ServiceVersions(dict(run.resource))
            fresh = [
                key
                for key, value in versions.items()
                if (seen := service.names.get(key)) and value not in seen.known
                if len(seen.known) < MOST_VALUES
            ]
            if fresh:
                # Part of the current deployment, or a new one.
                if not service.number or at - service.since > TOGETHER_S or not service.new.isdisjoint(fresh):
                    service.number = 1 + sum(one.number for one in self._services.values())
                    service.since = at
                    service.new, service.told = set(), False
                service.new.update(fresh)
            for key, value in versions.items():
                self._count(service, key, value, at, request)

    def _count(
        self, service: _ServiceVersions, key: str, value: str, at: float, request: _RequestSupport | None
    ) -> None:
        name = service.names.setdefault(key, _VersionName())
        if value not in name.known:
            if len(name.known) >= MOST_VALUES:
                return
            if name.known:
                earlier = [*name.before, *name.after] if key == _TENANT else name.after
                name.before = deque(earlier, MOST_COMPARED)
            name.known.append(value)
            name.since, name.n_after = at, 0
            name.after = deque(maxlen=MOST_COMPARED)
        if value == name.known[-1]:
            name.n_after += 1
            if request is not None:
                name.after.append(request)
        elif request is not None:
            if key == _TENANT:
                is_before = at < name.since
            else:
                is_before = value == name.known[-2] and at < name.since + OVERLAP_S
            if is_before:
                name.before.append(request)

    def changes(self, now: float) -> Iterator[tuple[Change, Mapping[str, str]]]:
        """Yield deployments that are worse than before, once each, with the resource of their service."""
        with self._lock:
            for service in self._services.values():
                if not service.new or service.told:
                    continue
                change = _compared(service, now)
                if change is not None:
                    service.told = True
                    yield change, service.resource

    def state(self) -> Any:
        """Return the state as JSON values."""
        with self._lock:
            return _STATE.dump_python(self._services, mode="json")

    def restore(self, state: object) -> None:
        """Restore a `state`. Raises ValueError and changes nothing if it is damaged."""
        services = _STATE.validate_python(state)
        with self._lock:
            self._services = services


def _compared(service: _ServiceVersions, now: float) -> Change | None:
    keys = sorted(service.new, key=rank)
    first = service.names[keys[0]]
    for score in SUPPORT:
        sides = [
            [ComparedValue(one.cell, one.unit, one.value) for one in side if one.score == score]
            for side in (first.before, first.after)
        ]
        found = compare_versions(sides[0], sides[1], error_share(service.number))
        if found is not None:
            return version_change(
                found,
                score,
                service.resource.get("service.name", ""),
                since=service.since,
                now=now,
                new=[
                    (key, known[-2], known[-1], service.names[key].n_after)
                    for key in keys
                    if (known := service.names[key].known)
                ],
                bad=(_bad_share(first.before), _bad_share(first.after)),
            )
    return None


def _bad_share(side: Iterable[_RequestSupport]) -> float | None:
    counts = Counter(one.bad for one in side if one.bad is not None)
    return counts[True] / counts.total() if counts else None


def rank(name: str) -> tuple[int, str]:
    """Return the sort key of a version name; the first one names the deployment."""
    return NEW_KEYS.index(name) if name in NEW_KEYS else len(NEW_KEYS), name


def version_change(
    comparison: VersionComparison,
    score: str,
    service: str,
    *,
    since: float,
    now: float,
    new: Sequence[tuple[str, str, str, int]],
    bad: tuple[float | None, float | None],
) -> Change | None:
    """Return a deployment's effect as a change; None: nothing became worse.

    Args:
        comparison: The means of both sides.
        score: Name of the compared score.
        service: ``service.name``; empty: unknown.
        since: When it began, unix seconds.
        now: Time of the notification, unix seconds.
        new: Name, value before, new value, and number of requests with it; the first names the deployment.
        bad: Shares of bad requests before and since; None: unknown.
    """
    if comparison.effect != "worse":
        return None
    before, after = comparison.before, comparison.after
    name, earlier, value, _ = new[0]
    was, is_ = bad
    return Change(
        score=score,
        workflow="",
        segment=f"metadata.{name}:{value}",
        service=service,
        since=since,
        at=now,
        before=_estimate(before, before, before, comparison.n_before),
        now=_estimate(after, before + comparison.lower, before + comparison.upper, comparison.n_after),
        evidence=1.0,
        kind="version",
        notes=() if was is None or is_ is None else (ChangeNote("bad", (was, is_)),),
        new=tuple(NewSince(name=key, value=one, at=since, requests=n) for key, _, one, n in new[1:]),
        earlier=earlier,
    )  # fmt: skip


def _estimate(mean: float, lower: float, upper: float, n: int) -> Estimate:
    return Estimate(
        mean=mean, lower=max(0.0, lower), upper=min(1.0, upper), n_requests=n, n_judged=n, method="all"
    )
