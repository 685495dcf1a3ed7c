"""Open a SQLite file that only its user may read, and write to it in transactions."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

C = TypeVar("C", bound=sqlite3.Connection)


def open_private(path: Path, *pragmas: str, wait_s: float, factory: type[C]) -> C:
    """Return a connection after these pragmas, without implicit transactions; a missing file is created.

    It waits at most `wait_s` seconds for another writer.
    """
    with suppress(FileExistsError):
        # SQLite gives its other files the permissions of this one.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    database = sqlite3.connect(
        path, timeout=wait_s, isolation_level=None, check_same_thread=False, factory=factory
    )
    try:
        for pragma in pragmas:
            database.execute(f"PRAGMA {pragma}").fetchall()
    except BaseException:
        database.close()
        raise
    return database


@contextmanager
def transaction(database: sqlite3.Connection, lock: str = "IMMEDIATE") -> Iterator[None]:
    """Commit what the block writes, or nothing if it raises."""
    database.execute(f"BEGIN {lock}")
    try:
        yield
        database.execute("COMMIT")
    except BaseException:
        with suppress(sqlite3.Error):  # SQLite may already have rolled back
            database.execute("ROLLBACK")
        raise
