"""A private temporary SQLite database, deleted with its owner."""

from __future__ import annotations

import sqlite3
import weakref


def scratch_database(owner: object) -> sqlite3.Connection:
    """Open a database that is closed, and so deleted, when `owner` is garbage-collected.

    Closed explicitly: from Python 3.13 on an unclosed connection is a ResourceWarning, an error where users'
    tests make warnings errors. Not for concurrent use by threads.
    """
    database = sqlite3.connect("", check_same_thread=False)
    weakref.finalize(owner, database.close)
    database.execute("PRAGMA journal_mode = OFF")
    return database
