"""Keeps what a watch over scores knows in a file, so that a restart has nothing to learn again.

Read when the meter is made, written on the thread that looks: beside the file, then in its place, so that it
is whole at any moment.  For its owner alone to read, although it holds sums and names and no text of a request.
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

__all__ = ["WatchFile"]

COST_SHARE = 0.01
"""Of the time, what writing may take: many series are written less often."""

_log = logging.getLogger("ragmeter")


class WatchFile:
    """The file of one watch.

    Args:
        path: Where it is; it need not exist, its folder must.
        watch: Goes on from what is in it.

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
            kept = self._path.read_bytes()
        except FileNotFoundError:
            return
        except OSError as error:
            raise ConfigurationError(
                f"the alarms' state: cannot read {str(path)!r}: {error}"
            ) from error
        try:
            watch.restore(json.loads(kept))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            _log.warning(
                "ragmeter: what was known of usual scores cannot be read from %s (%s) and is learned again",
                self._path,
                type(error).__name__,
            )

    def save_if_due(self) -> None:
        """Write it if there is something new, and the last time is long enough ago."""
        if self._watch.next > self._saved and time.monotonic() >= self._next_at:
            self.save()

    def save(self) -> None:
        """Write it now. In a forked child nothing is written: the file is the parent's."""
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
