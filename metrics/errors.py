"""Every error ragmeter raises, in one tree.

Raised only during construction or configuration, never into a live request (exceptions of metrics become
statuses). They are defined in the lowest layer because every layer above raises them::

    RagmeterError
    ├── ConfigurationError        an argument, setting or environment variable is wrong
    │   └── UnknownMetricError    a metric name that is not registered
    ├── MissingDependencyError    an optional package is not installed
    ├── ReferenceFileError        a reference file has a row that cannot be read
    └── TooLongError              texts are too long for a metric: its scores are skipped
"""

import json
import os
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path
from typing import Any
from urllib.parse import unquote

__all__ = [
    "DISTRIBUTION",
    "ConfigurationError",
    "MissingDependencyError",
    "RagmeterError",
    "ReferenceFileError",
    "TooLongError",
    "UnknownMetricError",
    "install_command",
    "loggable",
]

DISTRIBUTION = "ragmeter-otel"
"""Package name for installation of the module `ragmeter`."""


PUBLISHED = False
"""Whether ragmeter is published on package indexes; until then no message names one (docs/support.md)."""


def install_command(*extras: str) -> str:
    """Return the shell command that installs these extras, for messages.

    It installs them from the origin of this installation, as pip and uv record it: a checkout, a wheel, a
    repository.  If that is unknown, or was removed since, it names the packages of the extras.
    """
    named = f"{DISTRIBUTION}[{','.join(extras)}]"
    if PUBLISHED:
        return f"pip install '{named}'"
    origin = _origin()
    url = str(origin.get("url") or "")
    path = unquote(url.removeprefix("file://"))
    if path and (path == url or Path(path).exists()):
        if origin.get("dir_info", {}).get("editable"):
            return f"pip install -e '{path}[{','.join(extras)}]'"
        if (vcs := origin.get("vcs_info")) is not None:
            url = f"{vcs['vcs']}+{url}@{vcs['commit_id']}"
        return f"pip install '{named} @ {url}'"
    packages = sorted(_packages(*extras)) or [f"'{named} @ file:///path/to/ragmeter'"]
    return f"pip install {' '.join(packages)}"


def _packages(*extras: str) -> set[str]:
    """Return the packages that extras require, those of nested extras included, in quotes."""
    from importlib.metadata import PackageNotFoundError, requires  # noqa: PLC0415 -- 10 ms

    found: set[str] = set()
    try:
        lines = requires(DISTRIBUTION) or ()
    except PackageNotFoundError:  # a folder on the path
        return found
    for line in lines:
        package, _, marker = line.partition(";")
        condition, _, extra = marker.rpartition("extra == ")
        if extra.strip(" \"'") in extras:
            if package.startswith(f"{DISTRIBUTION}["):
                found |= _packages(*package[len(DISTRIBUTION) + 1 :].rstrip("] ").split(","))
            else:
                condition = condition.removesuffix(" and ").strip()
                found.add(f"'{package}{'; ' if condition else ''}{condition}'")
    return found


def _origin() -> dict[str, Any]:
    """Return the distribution's origin, PEP 610's ``direct_url.json``; empty: unknown."""
    from importlib.metadata import PackageNotFoundError, distribution  # noqa: PLC0415 -- 10 ms

    try:
        found = json.loads(distribution(DISTRIBUTION).read_text("direct_url.json") or "{}")
    except (PackageNotFoundError, OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def loggable(error: BaseException) -> str:
    """Return the part of `error` that is safe for a log, an explanation or telemetry.

    Always its class. Its message only if it is by ragmeter or the operating system: errors of hooks, metrics,
    exporters and third-party libraries often quote a text, pydantic's always do.
    """
    kind = type(error)
    if kind.__module__.partition(".")[0] == "ragmeter" and str(error):
        return f"{kind.__name__}: {error}"
    if isinstance(error, OSError) and error.errno is not None:
        return f"{kind.__name__}: {os.strerror(error.errno)}"
    return kind.__name__


class RagmeterError(Exception):
    """Base of every error that ragmeter raises."""


class ConfigurationError(RagmeterError, ValueError):
    """An argument or setting is wrong; the message names it and what is allowed."""


class UnknownMetricError(ConfigurationError):
    """No metric of this name is registered.

    Attributes:
        name: The requested name.
        known: All names that would have worked, sorted; the message has the nearest.
    """

    def __init__(self, name: str, known: Iterable[str], score_of: str | None = None) -> None:
        self.name = name
        self.known = sorted(known)
        close = get_close_matches(name, self.known, n=3)
        hint = f"Did you mean {' or '.join(map(repr, close))}? " if close else ""
        if score_of is not None:
            hint = f"It is a score of {score_of!r}: ask for that. "
        super().__init__(
            f"unknown metric {name!r}. {hint}`ragmeter metrics` lists all {len(self.known)} of them"
        )


class MissingDependencyError(RagmeterError, ImportError):
    """An optional package is required.

    Attributes:
        package: The package that could not be imported.
        extra: The extra of ragmeter that installs it; None: none does, it is installed by its name.
    """

    def __init__(self, package: str, extra: str | None, purpose: str) -> None:
        self.package = package
        self.extra = extra
        command = f"pip install {package}" if extra is None else install_command(extra)
        super().__init__(f"{purpose} needs the package {package!r}: {command}")


class ReferenceFileError(RagmeterError, ValueError):
    """A row of a reference file cannot be read.

    Attributes:
        path: The file.
        line: The line, counted from 1.
        reason: The reason.
    """

    def __init__(self, path: str, line: int, reason: str) -> None:
        self.path = path
        self.line = line
        self.reason = reason
        super().__init__(f"{path}:{line}: {reason}")


class TooLongError(RagmeterError):
    """Texts are too long to be compared in seconds; a metric that raises it is ``skipped``."""
