"""The store in a file: SQLite in WAL mode, for one writing process and any number of readers."""

from __future__ import annotations

import os
import queue
import re
import shutil
import sqlite3
import tempfile
import threading
from collections.abc import Collection, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from ragmeter.metrics import ConfigurationError
from ragmeter.metrics._files.sqlite_file import open_private, transaction

from ._database import Database, Home
from ._schema import VERSION, later_version, statements_since
from ._text_search import index_query, index_words, patterns

APPLICATION = 0x52414750
"""The application id in the file's header."""
_CEILING = 1.25
"""Ratio to the allowed size at which SQLite itself refuses to grow."""
_PAGES = 2_000
"""Unused pages to return to the disk at a time, 8 MB."""
_INDEXED_AT_ONCE = 500
_CACHE_KIB = 500
"""Pages that each reading connection caches, in KiB: the system caches the file, too."""
_LIKE = "t.body LIKE ? ESCAPE '\\'"
_INDEX = (
    "CREATE VIRTUAL TABLE text_words USING fts5 (words, content='', detail='none')",
    "CREATE TABLE text_indexed (only INTEGER PRIMARY KEY CHECK (only = 1), id INTEGER NOT NULL)",
    "INSERT INTO text_indexed VALUES (1, 0)",
    # Words are deleted with their text, as its id may be reused for the next text.
    """
CREATE TRIGGER text_words_gone AFTER DELETE ON text WHEN old.id <= (SELECT id FROM text_indexed) BEGIN
    INSERT INTO text_words (text_words, rowid, words) VALUES ('delete', old.id, index_words(old.body));
    UPDATE text_indexed SET id = min(id, (SELECT coalesce(max(id), 0) FROM text));
END""",
)
"""The index of words, without the texts and without positions."""
_AT_ONCE = 256
"""Parameters of one statement; older versions of SQLite allow at most 999."""
_PASSING = re.compile(r"\b(full|locked|space|quota|i/o)\b")
"""Matches errors of SQLite or the system after which the file can be used again, unchanged."""

_BROKEN = re.compile(r"not a database|malformed|corrupt")
"""Matches errors that remain."""


class UnavailableFileError(ConfigurationError):
    """The file cannot be used now: the disk is full, another program holds it, or it may not be written."""


class _StoreConnection(sqlite3.Connection):
    has_word = "EXISTS (SELECT 1 FROM json_each({column}) m WHERE m.key = ? AND m.value = ?)"
    value_in = "(SELECT m.value FROM json_each({column}) m WHERE m.key = ?)"
    as_json = "json_array({columns})"

    def texts_with(self, word: str, /) -> tuple[str, list[Any]]:
        """Return a query for the texts with a word, in the index and among texts not indexed yet."""
        like = patterns(word)
        stands = f"({' OR '.join(_LIKE for _ in like)})"
        wanted, look = index_query(word)
        indexed = self.execute("SELECT 1 FROM sqlite_master WHERE name = 'text_words_gone'").fetchone()
        if not wanted or indexed is None:
            return f"SELECT t.id FROM text t WHERE {stands}", [*like]
        checked = f" AND {stands}" if look else ""
        query = (
            "SELECT t.id FROM text_words w JOIN text t ON t.id = w.rowid "
            f"WHERE text_words MATCH ?{checked} UNION ALL "
            f"SELECT t.id FROM text t WHERE t.id > (SELECT id FROM text_indexed) AND {stands}"
        )
        return query, [wanted, *(like if look else ()), *like]

    def among(self, statement: str, values: Collection[Any], /) -> list[Any]:
        """Run a statement for these values, in as many steps as SQLite's limit requires."""
        found: list[Any] = []
        chosen = list(values)
        for start in range(0, len(chosen), _AT_ONCE):
            some = chosen[start : start + _AT_ONCE]
            found += self.execute(
                statement.replace("(these)", f"({', '.join('?' * len(some))})"), some
            ).fetchall()
        return found


class File(Home):
    """A SQLite file.

    Args:
        path: Path of the file; None: a temporary file, deleted when it is closed.
        max_bytes: Most bytes, beyond which the oldest requests are deleted.

    Raises:
        UnavailableFileError: It cannot be used now.
        ConfigurationError: It cannot be used, or another process uses it.
    """

    refusals = (sqlite3.IntegrityError, sqlite3.DataError, OverflowError, UnicodeError)
    errors = (sqlite3.Error, OverflowError, UnicodeError)

    def __init__(self, path: Path | None, max_bytes: int) -> None:
        self._own_folder: Path | None = None
        self.is_private = path is None
        if path is None:
            self._own_folder = Path(tempfile.mkdtemp(prefix="ragmeter-"))
            path = self._own_folder / "serve.db"
        self.path = path
        self.shown = str(path)
        self._idle: queue.SimpleQueue[_StoreConnection] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._closed = False
        self._lock_file: sqlite3.Connection | None = None
        was_there = path.exists()
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock_file = _lock_beside(path)
            self._connection = _open_for_writing(path)
            self.writer = self._connection
        except (OSError, sqlite3.Error) as error:
            self._let_go()
            why = self.why(error)
            failed = f"the store {path} cannot be used ({why}); "
            passes = _PASSING.search(why) is not None
            if passes:
                remedy = "start again when that has passed"
            elif _BROKEN.search(why):
                remedy = "put a backup in its place"
            else:
                remedy = "give a file that this user may write to"
            kind = UnavailableFileError if was_there or passes else ConfigurationError
            raise kind(f"{failed}{remedy}, or give another --store") from error
        except BaseException:
            self._let_go()
            raise
        self._indexes = _make_index(self.writer)
        self._page = int(self.writer.execute("PRAGMA page_size").fetchone()[0])
        self.writer.execute(f"PRAGMA max_page_count = {int(max_bytes * _CEILING) // self._page}")
        self.writer.execute(f"PRAGMA journal_size_limit = {max(max_bytes // 16, 1 << 20)}")

    @contextmanager
    def transaction(self) -> Iterator[Database]:
        """Write in a transaction."""
        with transaction(self._connection):
            yield self.writer

    @contextmanager
    def moment(self) -> Iterator[_StoreConnection]:
        """Read from one snapshot, on a separate read-only connection."""
        try:
            database = self._idle.get_nowait()
        except queue.Empty:
            database = _open_for_reading(self.path)
        try:
            database.execute("BEGIN")
            yield database
        finally:
            database.execute("ROLLBACK")  # drops the temporary tables, too
            with self._lock:
                closed = self._closed
                if not closed:
                    self._idle.put(database)
            if closed:
                database.close()

    def size(self, database: Database) -> int:
        """Return the bytes of the pages in use."""
        (pages,) = database.execute("PRAGMA page_count").fetchone()
        (unused,) = database.execute("PRAGMA freelist_count").fetchone()
        return (int(pages) - int(unused)) * self._page

    def index_texts(self, database: Database) -> int:
        """Index the next texts; return their number."""
        if not self._indexes:
            return 0
        rows = database.execute(
            "SELECT id, body FROM text WHERE id > (SELECT id FROM text_indexed) ORDER BY id LIMIT ?",
            (_INDEXED_AT_ONCE,),
        ).fetchall()
        database.executemany(
            "INSERT INTO text_words (rowid, words) VALUES (?, ?)",
            [(number, index_words(body)) for number, body in rows],
        )
        if rows:
            database.execute("UPDATE text_indexed SET id = ?", (rows[-1][0],))
        return len(rows)

    def give_back(self) -> None:
        """Return some unused pages to the disk."""
        self.writer.execute(f"PRAGMA incremental_vacuum({_PAGES})").fetchall()

    def why(self, error: Exception) -> str:
        """Return the message of SQLite or the system, which never quotes stored data."""
        if isinstance(error, (OverflowError, UnicodeError)):
            return type(error).__name__
        return _words_of(error)

    def close(self) -> None:
        """Close the file. A private one is deleted."""
        with self._lock:
            self._closed = True
        while not self._idle.empty():
            self._idle.get().close()
        self._connection.close()
        self._let_go()

    def _let_go(self) -> None:
        if self._lock_file is not None:
            self._lock_file.close()
        if self._own_folder is not None:
            shutil.rmtree(self._own_folder, ignore_errors=True)


def _words_of(error: BaseException) -> str:
    return str(getattr(error, "strerror", None) or error).lower()


def back_up(path: Path, to: Path) -> None:
    """Copy a store as of one moment, while its server runs; readable by this user only.

    Args:
        path: The store's file.
        to: Path of the copy; it must not exist.

    Raises:
        ConfigurationError: There is no store, or the copy cannot be written.
    """
    if not path.is_file():
        raise ConfigurationError(f"there is no store {path}; give the server's --store")
    unfinished = to.with_name(f"{to.name}.unfinished")
    try:
        os.close(os.open(to, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    except OSError as error:
        raise ConfigurationError(f"cannot write {to} ({_words_of(error)}); give another path") from None
    try:
        unfinished.unlink(missing_ok=True)
        os.close(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        _copy(path, unfinished)
        unfinished.replace(to)
    except BaseException as error:
        for one in (unfinished, to):
            one.unlink(missing_ok=True)
        if isinstance(error, (OSError, sqlite3.Error)):
            raise ConfigurationError(f"{path} cannot be copied to {to} ({_words_of(error)})") from None
        raise


def _copy(path: Path, to: Path) -> None:
    with closing(_open_for_reading(path)) as store, closing(sqlite3.connect(to)) as copy:
        if store.execute("PRAGMA application_id").fetchone() != (APPLICATION,):
            raise ConfigurationError(f"{path} is no store of ragmeter; give another file")
        store.backup(copy)  # in one step, without waiting for writers
        copy.execute("PRAGMA journal_mode = DELETE").fetchall()  # moves the WAL into the file


def _open_for_writing(path: Path) -> _StoreConnection:
    """Open a store, created or migrated if necessary; readable by this user only."""
    pragmas = "auto_vacuum = INCREMENTAL", "journal_mode = WAL", "synchronous = NORMAL"
    database = open_private(path, *pragmas, wait_s=30.0, factory=_StoreConnection)
    try:
        with transaction(database):
            _migrate(database, path)
    except BaseException:
        database.close()
        raise
    return database


def _make_index(database: sqlite3.Connection) -> bool:
    """Create the index of words if missing; return whether it exists, as not every SQLite has FTS5."""
    database.create_function("index_words", 1, index_words, deterministic=True)
    try:
        with transaction(database):
            known = database.execute("SELECT 1 FROM sqlite_master WHERE name = 'text_words'").fetchone()
            for statement in ("SELECT 1 FROM text_words LIMIT 1",) if known else _INDEX:
                database.execute(statement).fetchall()
    except sqlite3.OperationalError as error:
        if "fts5" not in str(error):
            raise
        # Written by an SQLite with FTS5: from now on, texts are added and deleted without the index.
        database.execute("DROP TRIGGER IF EXISTS text_words_gone")
        return False
    return True


def _open_for_reading(path: Path) -> _StoreConnection:
    database = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode=ro",
        uri=True,
        timeout=30.0,
        isolation_level=None,
        check_same_thread=False,
        factory=_StoreConnection,
    )
    database.execute("PRAGMA temp_store = MEMORY")
    database.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
    return database


def _migrate(database: sqlite3.Connection, path: Path) -> None:
    (version,) = database.execute("PRAGMA user_version").fetchone()
    (application,) = database.execute("PRAGMA application_id").fetchone()
    (tables,) = database.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if application != APPLICATION and (tables or application):
        raise ConfigurationError(f"{path} is no store of ragmeter; give another file")
    if version > VERSION:
        raise later_version(str(path), version)
    for statement in statements_since(version):
        database.execute(statement)
    database.execute(f"PRAGMA application_id = {APPLICATION}")
    database.execute(f"PRAGMA user_version = {VERSION}")


def _lock_beside(path: Path) -> sqlite3.Connection:
    """Lock a file beside the store; the lock ends with the process, even if that is killed."""
    beside = path.with_name(f"{path.name}-lock")
    lock = sqlite3.connect(beside, timeout=0.0, isolation_level=None, check_same_thread=False)
    try:
        beside.chmod(0o600)
        lock.execute("PRAGMA locking_mode = EXCLUSIVE").fetchall()
        lock.execute("BEGIN EXCLUSIVE")
    except sqlite3.OperationalError as error:
        lock.close()
        if "locked" in str(error):
            raise ConfigurationError(
                f"the store {path} is in use by another process; stop that one, or give each server a "
                "--store of its own"
            ) from error
        raise
    return lock
