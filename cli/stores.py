"""The command ``ragmeter store``: operations on the store of a server."""

from __future__ import annotations

from pathlib import Path

import typer

from ragmeter.metrics import ConfigurationError

from ._console import say
from ._docstring_options import options_from_docstring
from ._ending import exit_with_line

__all__ = ["store"]

store = typer.Typer(no_args_is_help=True, help="Maintain the store of `ragmeter serve`.")


@store.callback()
def _group() -> None:
    """Maintain the store of ``ragmeter serve``."""


@store.command()
@options_from_docstring
def backup(to: Path, where: str | None = None) -> None:
    """Copy the store while its server runs.

    Args:
        to (PATH): A new file for the copy.
        where (--store FILE): The store to copy. (default: that of ragmeter serve)
    """
    with exit_with_line():
        from ragmeter.serve.store import back_up  # noqa: PLC0415 -- an extra of its own

        from .serve import store_options  # noqa: PLC0415 -- likewise

        options = store_options(where, "7d", "1GB", texts=True)
        if options.path is None:
            raise ConfigurationError("the store is PostgreSQL: back it up with pg_dump")
        back_up(options.path, to)
        say(f"ragmeter store: copied {options.path} to {to}")
