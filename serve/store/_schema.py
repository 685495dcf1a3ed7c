"""The store's tables, how a file comes to have them, and how it is opened.

Each step of `_STEPS` takes a file from one version to the next, in one transaction; a new version adds a step
and changes none.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from ragmeter.metrics import ConfigurationError

__all__ = ["APPLICATION", "VERSION", "open_for_reading", "open_for_writing"]

APPLICATION = 0x52414750
"""What says of the file whose it is."""

_STEPS: Sequence[str] = (
    """
CREATE TABLE request (
    id INTEGER PRIMARY KEY,
    run_id TEXT NOT NULL UNIQUE,
    trace_id BLOB, span_id BLOB, span_rank INTEGER,
    at INTEGER NOT NULL,
    stored INTEGER NOT NULL,
    started_ns INTEGER, ended_ns INTEGER, noted_ns INTEGER,
    service TEXT, workflow TEXT, framework TEXT, status TEXT,
    verdict TEXT, verdict_ns INTEGER, codes TEXT, reasons TEXT,
    question INTEGER, answer INTEGER, language TEXT, retriever TEXT,
    conversation_id TEXT, user_id TEXT,
    sample_rate REAL, judge_sample_rate REAL, selection TEXT, missing TEXT, metadata TEXT
);
CREATE INDEX request_at ON request (at, id);
CREATE INDEX request_trace ON request (trace_id) WHERE trace_id IS NOT NULL;
CREATE INDEX request_question ON request (question) WHERE question IS NOT NULL;
CREATE INDEX request_answer ON request (answer) WHERE answer IS NOT NULL;
CREATE TABLE kind (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL, method TEXT NOT NULL, target TEXT NOT NULL, definition TEXT NOT NULL,
    direction TEXT NOT NULL, lowest REAL, highest REAL, judged INTEGER NOT NULL
);
CREATE TABLE score (
    request INTEGER NOT NULL, name TEXT NOT NULL,
    value REAL, status TEXT, label TEXT, told_ns INTEGER,
    kind INTEGER, turned REAL, lower REAL, upper REAL, error_type TEXT, details_ns INTEGER,
    judge_calls INTEGER, input_tokens INTEGER, output_tokens INTEGER, cache_hits INTEGER,
    PRIMARY KEY (request, name)
) WITHOUT ROWID;
CREATE TABLE evidence (
    request INTEGER NOT NULL, name TEXT NOT NULL, summary TEXT, explanation TEXT, items TEXT,
    PRIMARY KEY (request, name)
) WITHOUT ROWID;
CREATE TABLE text (id INTEGER PRIMARY KEY, hash BLOB NOT NULL UNIQUE, body TEXT NOT NULL);
CREATE TABLE chunk (
    trace_id BLOB NOT NULL, owner BLOB NOT NULL, span_id BLOB NOT NULL, rank INTEGER NOT NULL,
    at INTEGER NOT NULL, stored INTEGER NOT NULL, document TEXT, score REAL, text INTEGER,
    PRIMARY KEY (trace_id, owner, span_id, rank)
) WITHOUT ROWID;
CREATE INDEX chunk_stored ON chunk (stored);
CREATE INDEX chunk_text ON chunk (text) WHERE text IS NOT NULL;
CREATE TABLE loose (
    trace_id BLOB NOT NULL, owner BLOB NOT NULL, span_id BLOB NOT NULL, stored INTEGER NOT NULL,
    retriever TEXT, scores TEXT NOT NULL,
    PRIMARY KEY (trace_id, owner, span_id)
) WITHOUT ROWID;
CREATE TABLE dropped (
    series BLOB NOT NULL, slot INTEGER NOT NULL, service TEXT NOT NULL, reason TEXT NOT NULL,
    began INTEGER NOT NULL, value REAL NOT NULL,
    PRIMARY KEY (series, slot)
) WITHOUT ROWID;
CREATE TABLE slot (slot INTEGER PRIMARY KEY, generation INTEGER NOT NULL);
CREATE TABLE rollup (
    hour INTEGER PRIMARY KEY, generation INTEGER NOT NULL, cells BLOB NOT NULL
);
CREATE TABLE archive (hour INTEGER PRIMARY KEY, cells BLOB NOT NULL);
CREATE TABLE segment (name TEXT NOT NULL, value TEXT NOT NULL, PRIMARY KEY (name, value)) WITHOUT ROWID;
CREATE TABLE workflow (name TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE score_name (name TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE revision (only INTEGER PRIMARY KEY CHECK (only = 1), number INTEGER NOT NULL);
INSERT INTO revision VALUES (1, 0);
""",
)
VERSION = len(_STEPS)
"""The version that this program writes."""


def open_for_writing(path: Path) -> sqlite3.Connection:
    """Open a store, made or brought up to date where that is needed. For this user alone.

    Raises:
        ConfigurationError: It is another's file, or a later version's.
        sqlite3.Error: It cannot be opened, or is damaged.
    """
    with suppress(FileExistsError):
        # SQLite gives its other files the rights of this one.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    database = sqlite3.connect(path, timeout=30.0, isolation_level=None, check_same_thread=False)
    try:
        # The first must come before the first table.
        for pragma in ("auto_vacuum = INCREMENTAL", "journal_mode = WAL", "synchronous = NORMAL"):
            database.execute(f"PRAGMA {pragma}").fetchall()
        database.execute("BEGIN IMMEDIATE")
        _migrate(database, path)
        database.execute("COMMIT")
    except BaseException:
        database.close()
        raise
    return database


def open_for_reading(path: Path) -> sqlite3.Connection:
    """Open a store that there is, to read from any one thread at a time."""
    database = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode=ro",
        uri=True,
        timeout=30.0,
        isolation_level=None,
        check_same_thread=False,
    )
    database.execute("PRAGMA temp_store = MEMORY")
    return database


def _migrate(database: sqlite3.Connection, path: Path) -> None:
    (version,) = database.execute("PRAGMA user_version").fetchone()
    (application,) = database.execute("PRAGMA application_id").fetchone()
    (tables,) = database.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if application != APPLICATION and (tables or application):
        raise ConfigurationError(f"{path} is no store of ragmeter; give another file")
    if version > VERSION:
        raise ConfigurationError(
            f"{path} was written by a later version of ragmeter (format {version}, this one knows up to "
            f"{VERSION}); install that one, or give another file"
        )
    for step in _STEPS[version:]:
        for statement in step.split(";\n"):
            database.execute(statement)
    database.execute(f"PRAGMA application_id = {APPLICATION}")
    database.execute(f"PRAGMA user_version = {VERSION}")
