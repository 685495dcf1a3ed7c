"""A database of one owner, in a file that nobody else sees, gone with its owner."""

from __future__ import annotations

import sqlite3
import weakref

__all__ = ["scratch_database"]


def scratch_database(owner: object) -> sqlite3.Connection:
    """Open it; it is deleted when it is closed, which is when `owner` is no more.

    SQLite's own end of a connection that nobody closed is a ResourceWarning from Python 3.13 on, an error in
    tests of users that make warnings errors.

    Args:
        owner: Whose it is. Its threads take turns.
    """
    database = sqlite3.connect("", check_same_thread=False)
    weakref.finalize(owner, database.close)
    database.execute("PRAGMA journal_mode = OFF")
    return database
