"""A database that goes with its owner."""

import gc
import sqlite3

import pytest

from ragmeter.metrics._files.scratch_database import scratch_database
from ragmeter.quality.row_scores import RowScores


class Owner:
    """Whoever has one."""


def test_it_is_closed_with_its_owner():
    """Not by SQLite: that would be a ResourceWarning from Python 3.13 on."""
    owner = Owner()
    database = scratch_database(owner)
    database.execute("CREATE TABLE scores (name TEXT)")
    assert database.execute("SELECT count(*) FROM scores").fetchone() == (0,)

    del owner
    gc.collect()
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        database.execute("SELECT 1")


def test_scores_of_rows_leave_nothing_open():
    rows = RowScores()
    database = rows._database
    del rows
    gc.collect()
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        database.execute("SELECT 1")
