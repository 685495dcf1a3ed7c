"""A file lock held by a living process, which shows others whether the process has ended.

For the files of the spool (`_spool_folder`) and Ray's folders (`_ray_data`). Process ids would not do: they
are reused, and differ between containers.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

try:
    import fcntl
except ImportError:  # not on Windows, where no process is known to have ended
    fcntl = None  # type: ignore[assignment]

from ._spool_file import is_still

LOCK = ".lock"
"""Suffix of lock files."""


class ProcessLock:
    """A lock on a name in a folder."""

    def __init__(self, folder: Path, name: str) -> None:
        self._path = folder / f"{name}{LOCK}"
        self._file = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        if fcntl is not None:
            # Blocks only while another process checks the lock for a moment: the name is unique.
            fcntl.flock(self._file, fcntl.LOCK_EX)

    def leave_to_parent(self) -> None:
        """Close the copy in a forked child, which would otherwise keep the lock after the parent's end."""
        os.close(self._file)

    @property
    def is_there(self) -> bool:
        """Whether the lock's file still exists: the folder may have been deleted."""
        return is_still(self._path, os.fstat(self._file))

    def release(self) -> None:
        """Release the lock and delete its file."""
        with suppress(OSError):
            self._path.unlink()
        os.close(self._file)


def is_gone(folder: Path, name: str) -> bool:
    """Return whether the process that held the lock `name` has ended."""
    if fcntl is None:
        return False
    try:
        file = os.open(folder / f"{name}{LOCK}", os.O_RDWR)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(file)
    return True
