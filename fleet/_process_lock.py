"""A lock on a name in a folder that goes with its process, however that ends: who asks knows whether it lives.

For the files of the spool (`_spool_folder`) and what Ray leaves behind (`_ray_data`).  Not by process numbers:
those are given anew, and mean nothing in another container.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

try:
    import fcntl
except ImportError:  # not on Windows, where nobody is known to have ended
    fcntl = None  # type: ignore[assignment]

from ._spool_file import is_still

__all__ = ["LOCK", "ProcessLock", "is_gone"]

LOCK = ".lock"
"""What the name of a lock's file ends in."""


class ProcessLock:
    """A lock on a name in a folder."""

    def __init__(self, folder: Path, name: str) -> None:
        self._path = folder / f"{name}{LOCK}"
        self._file = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        if fcntl is not None:
            # The name is nobody else's: who asks whether it is held holds it for a moment.
            fcntl.flock(self._file, fcntl.LOCK_EX)

    def leave_to_parent(self) -> None:
        """In a forked child: let go of the copy, or the parent's end would go unnoticed."""
        os.close(self._file)

    @property
    def is_there(self) -> bool:
        """Whether its name still is where others look for it: somebody may have deleted the folder."""
        return is_still(self._path, os.fstat(self._file))

    def release(self) -> None:
        """End it."""
        with suppress(OSError):
            self._path.unlink()
        os.close(self._file)


def is_gone(folder: Path, name: str) -> bool:
    """Return whether the process that held the lock on `name` has ended."""
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
