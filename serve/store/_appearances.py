"""When each version, index, prompt, model and tenant was first seen in a service; a new value is a deployment.

The records outlive the requests, so that the error rate of comparisons is spent over all deployments.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import groupby

from ragmeter.watch.version_comparison import is_version_key
from ragmeter.watch.version_watch import MOST_VALUES, TOGETHER_S, rank

from ._database import Database
from .health_views import DeploymentView, VersionStep

TOGETHER_MS = int(TOGETHER_S * 1000)
_PREFIX = "metadata."

_Key = tuple[str, str, str]


class Appearances:
    """When each version, model or prompt was first seen. For the one writer, within its transaction."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.forget()

    def forget(self) -> None:
        """Discard the records of the last transaction, which may not have been committed."""
        self._known: dict[_Key, int] | None = None
        self._counts: Counter[str] = Counter()
        self._fresh: dict[_Key, int] = {}

    def note(self, service: str, parts: Mapping[str, str], at_ms: int) -> None:
        """Record the versions, models and prompts that a request names."""
        for name, value in parts.items():
            short = name.removeprefix(_PREFIX)
            if not is_version_key(short):
                continue
            known, key = self._read(), (service, short, value)
            if known.get(key, at_ms + 1) <= at_ms:
                continue
            if key not in known:
                if self._counts[service] >= MOST_VALUES:
                    continue
                self._counts[service] += 1
            known[key] = self._fresh[key] = at_ms

    def write(self) -> None:
        """Write the new appearances."""
        self._database.executemany(
            "INSERT INTO appearance (service, name, value, at) VALUES (?, ?, ?, ?) "
            "ON CONFLICT (service, name, value) DO UPDATE SET at = excluded.at "
            "WHERE excluded.at < appearance.at",
            [(*key, at) for key, at in self._fresh.items()],
        )
        self._fresh = {}

    def _read(self) -> dict[_Key, int]:
        if self._known is None:
            self._known = {
                (service, name, value): at
                for service, name, value, at in self._database.execute(
                    "SELECT service, name, value, at FROM appearance"
                )
            }
            self._counts = Counter(key[0] for key in self._known)
        return self._known


def deployments_in(database: Database) -> list[DeploymentView]:
    """Return all deployments, oldest first; the first value of a name is not a deployment."""
    rows = database.execute(
        "SELECT service, name, at, value FROM appearance ORDER BY service, name, at, value"
    ).fetchall()
    found: list[tuple[int, str, VersionStep]] = []
    for (service, name), same in groupby(rows, key=lambda row: (row[0], row[1])):
        before = ""
        for _, _, at, value in same:
            if before:
                found.append((at, service, VersionStep(name=name, before=before, value=value)))
            before = value
    return _joined(found)


def _joined(found: Iterable[tuple[int, str, VersionStep]]) -> list[DeploymentView]:
    """Join values that appeared together into one deployment."""
    open_: dict[str, tuple[int, list[VersionStep]]] = {}
    whole: list[tuple[int, str, list[VersionStep]]] = []
    for at, service, value in sorted(found, key=lambda one: one[:2]):
        began, values = open_.get(service, (at - 2 * TOGETHER_MS, []))
        if at - began > TOGETHER_MS or any(one.name == value.name for one in values):
            values = []
            open_[service] = (at, values)
            whole.append((at, service, values))
        values.append(value)
    return [
        DeploymentView(
            number=number,
            service=service,
            at_ms=at,
            values=tuple(sorted(values, key=lambda each: rank(each.name))),
        )
        for number, (at, service, values) in enumerate(whole, 1)
    ]
