"""Appends whole lines to a file to which other threads and processes append as well.

A line is written completely or not at all.  Used for results and labels; not for files that are rewritten.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

try:
    import fcntl
except ImportError:  # not on Windows, where several processes must not share the file
    fcntl = None  # type: ignore[assignment]


def open_to_append(path: Path) -> int:
    """Open a file for appending; create it, readable by its owner only, if it is missing."""
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_CLOEXEC", 0)
    return os.open(path, flags, 0o600)


@contextmanager
def appending(path: Path) -> Iterator[int]:
    """Open a file and hold its lock while appending.

    Each call opens it again: so the lock excludes other threads, processes and forked children alike, and log
    rotation is noticed.
    """
    file = open_to_append(path)
    try:
        if fcntl is not None:
            fcntl.flock(file, fcntl.LOCK_EX)
        yield file
    finally:
        os.close(file)


def append_whole(file: int, line: bytes) -> None:
    """Append a line; remove a partial one if the disk is full.

    Raises:
        OSError: The line could not be written.
    """
    size = os.fstat(file).st_size
    if size and os.pread(file, 1, size - 1) != b"\n":
        line = b"\n" + line  # another process left half a line when it crashed
    written = 0
    try:
        while written < len(line):
            written += os.write(file, line[written:])
    finally:
        if 0 < written < len(line):
            os.ftruncate(file, size)
