"""Persist the state of the watch in a file, so that a restart keeps its baselines.

The meter reads it at construction; the watch thread replaces it atomically. Only its owner can read it (mode
0600), although it holds sums and names and no text of a request.
"""

from __future__ import annotations

import json
import logging
import os
import time
from contextlib import suppress
from pathlib import Path

from ragmeter.metrics import ConfigurationError

from .watch import Watch

COST_SHARE = 0.01
"""Largest share of the time spent on writing: the more series, the rarer the writes."""

_log = logging.getLogger("ragmeter")


class WatchFile:
    """The state file of one watch.

    Args:
        path: Where it is; it need not exist, its folder must.
        watch: Restored from the file, if it exists.

    Raises:
        ConfigurationError: It cannot be read or written there.
    """

    def __init__(self, path: str | os.PathLike[str], watch: Watch) -> None:
        self._path = Path(path)
        self._watch = watch
        self._process = os.getpid()
        self._next_at = 0.0
        self._saved = 0.0
        if not self._path.parent.is_dir() or self._path.is_dir():
            raise ConfigurationError(
                f"the alarms' state is {str(path)!r}; it is a file in a folder that exists"
            )
        try:
            content = self._path.read_bytes()
        except FileNotFoundError:
            return
        except OSError as error:
            raise ConfigurationError(f"the alarms' state: cannot read {str(path)!r}: {error}") from error
        try:
            watch.restore(json.loads(content))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            _log.warning(
                "ragmeter: the baselines of scores in %s cannot be read (%s) and are learned again",
                self._path,
                type(error).__name__,
            )

    def save_if_due(self) -> None:
        """Write new state, unless the last write was too recent."""
        if self._watch.next > self._saved and time.monotonic() >= self._next_at:
            self.save()

    def save(self) -> None:
        """Write the state now. A forked child writes nothing: the file belongs to its parent."""
        if self._process != os.getpid():
            return
        began = time.monotonic()
        newest = self._watch.next
        beside = self._path.with_name(f"{self._path.name}.new")
        with suppress(FileNotFoundError):
            beside.unlink()
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump(self._watch.state(), file)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(self._path)
        self._saved = newest
        now = time.monotonic()
        self._next_at = now + (now - began) / COST_SHARE
