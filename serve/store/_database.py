"""The interface of the store's database: a SQLite file, or PostgreSQL.

Every statement is written once, in SQL that both accept, with ``?`` for parameters. Where their SQL differs,
each implementation supplies its own expression.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, ClassVar, Protocol


class Database(Protocol):
    """Runs statements, within a transaction of its `Home`."""

    has_word: str
    """A condition with arguments name and value: the JSON object in ``{column}`` has this string there."""
    value_in: str
    """An expression with the argument name: the string under it in the JSON object in ``{column}``, or NULL."""
    as_json: str
    """An expression that makes a JSON array, as text, of ``{columns}``."""

    def texts_with(self, word: str, /) -> tuple[str, Sequence[Any]]:
        """Return a query for the ids of the texts that contain a word, and its arguments."""
        ...

    def execute(self, statement: str, arguments: Sequence[Any] = ..., /) -> Any:
        """Run a statement, and return its rows as DB-API's cursors do: ``fetchone``, ``fetchall``, ``iter``."""
        ...

    def executemany(self, statement: str, rows: Iterable[Sequence[Any]], /) -> object:
        """Run a statement for each row of arguments."""
        ...

    def among(self, statement: str, values: Collection[Any], /) -> list[Any]:
        """Run a statement with ``IN (these)`` for these values, and return its rows, in any order."""
        ...


class Home(Protocol):
    """The storage of a store: a file or a database server."""

    shown: str
    """Its name, without secrets."""
    is_private: bool = False
    """Whether it is deleted when it is closed."""
    errors: ClassVar[tuple[type[Exception], ...]]
    """The exceptions of a statement that cannot be run."""
    refusals: ClassVar[tuple[type[Exception], ...]]
    """The exceptions about the data itself: writing it again later would fail too."""
    writer: Database
    """The connection that `transaction` writes with."""

    def transaction(self) -> AbstractContextManager[Database]:
        """Write in a transaction: of all processes, one at a time. Rolls back if the block raises."""
        ...

    def moment(self) -> AbstractContextManager[Database]:
        """Read from one snapshot, taken when the block begins."""
        ...

    def turn(self) -> AbstractContextManager[bool]:
        """Yield whether upkeep is this process's task for the block; never two at once."""
        return nullcontext(enter_result=True)

    def size(self, database: Database) -> int:
        """Return the bytes in use, as seen by a transaction or a moment."""
        ...

    def index_texts(self, database: Database) -> int:
        """Add some texts to an own index of words, within a transaction; return their number."""
        del database
        return 0

    def give_back(self) -> None:
        """Return some unused space to the disk; outside of any transaction."""
        ...

    def why(self, error: Exception) -> str:
        """Describe an error, without any content of requests and without secrets."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...
