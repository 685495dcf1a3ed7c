"""What the store asks of a database, whichever it is: a file of SQLite, or PostgreSQL.

Every statement stands once and is text that both know, with ``?`` for what is bound.  Where they differ in
words, the class of the one or the other says how it is called there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol


class ResultRows(Protocol):
    """The rows that a statement found."""

    def fetchone(self) -> Any:
        """Return the next; None: there is no more."""
        ...

    def fetchall(self) -> list[Any]:
        """Return the rest."""
        ...

    def __iter__(self) -> Iterator[Any]:
        """Yield the rest."""
        ...


class Database(Protocol):
    """Runs statements, within a transaction of its `Home`."""

    @property
    def has_word(self) -> str:
        """A condition with two arguments: the JSON object in ``{column}`` has this word under this name."""
        ...

    @property
    def as_json(self) -> str:
        """What makes one text of ``{columns}``: a JSON array."""
        ...

    def texts_with(self, word: str, /) -> tuple[str, Sequence[Any]]:
        """Return a query for the ids of the texts that have a word, and its arguments."""
        ...

    def execute(self, statement: str, arguments: Sequence[Any] = ..., /) -> ResultRows:
        """Run a statement."""
        ...

    def executemany(self, statement: str, rows: Iterable[Sequence[Any]], /) -> object:
        """Run one for each row of arguments."""
        ...

    def among(self, statement: str, values: Collection[Any], /) -> list[Any]:
        """Run one that has ``IN (these)`` for these values, and return what it found, in any order."""
        ...


class Home(Protocol):
    """Where a store is kept.

    Attributes:
        shown: Its name, without any secret.
        is_private: Whether it is gone when it is closed.
    """

    shown: str
    is_private: bool

    @property
    def errors(self) -> tuple[type[Exception], ...]:
        """What it raises when it cannot run a statement."""
        ...

    @property
    def refusals(self) -> tuple[type[Exception], ...]:
        """The exceptions about the data itself: writing it again later would fail too."""
        ...

    @property
    def writer(self) -> Database:
        """What `transaction` writes with."""
        ...

    def transaction(self) -> AbstractContextManager[Database]:
        """Write: of all processes one at a time, and nothing where the block raises."""
        ...

    def moment(self) -> AbstractContextManager[Database]:
        """Read from one snapshot, taken when the block begins."""
        ...

    def turn(self) -> AbstractContextManager[bool]:
        """Say whether upkeep is this process's for the block; no two have it at once."""
        ...

    def size(self, database: Database) -> int:
        """Return the bytes that are in use, as a transaction or a moment sees it."""
        ...

    def index_texts(self, database: Database) -> int:
        """Put some texts into the index of words, within a transaction; return how many."""
        ...

    def give_back(self) -> None:
        """Give unused room back to the disk, some of it; outside of any transaction."""
        ...

    def why(self, error: Exception) -> str:
        """Return what `error` says, without any word of a request and without any secret."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...
