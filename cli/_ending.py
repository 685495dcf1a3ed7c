"""Ends every command: one line for an error, an exit code, JSON on standard output."""

from __future__ import annotations

import json
import os
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import typer

from ragmeter.metrics import RagmeterError
from ragmeter.metrics._files.json_lines import as_line, plain

from ._console import say
from ._interrupt import EXIT_INTERRUPTED, interrupted_line, interruptible

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_OUTPUT = 3


@contextmanager
def exit_with_line() -> Iterator[None]:
    """Print ragmeter's errors as one line and exit with code 2; after Ctrl-C with 130."""
    with interruptible():
        yield from _error_lines()


def _error_lines() -> Iterator[None]:
    try:
        yield
        sys.stdout.flush()  # a full disk or a closed pipe fails here, not when Python exits
    except KeyboardInterrupt:
        say(interrupted_line(), "yellow")
        raise typer.Exit(EXIT_INTERRUPTED) from None
    except (RagmeterError, sqlite3.Error) as error:
        where = "a temporary file cannot be used: " if isinstance(error, sqlite3.Error) else ""
        say(f"ragmeter: {where}{error}", "red")
        raise typer.Exit(EXIT_USAGE) from None
    except OSError as error:
        # What was printed is still there if the output is what failed, and fails again.
        try:
            sys.stdout.flush()
        except OSError:
            # The interpreter would fail again when it flushes the stream at exit.
            with suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            say(f"ragmeter: the output cannot be written: {error.strerror}", "red")
            raise typer.Exit(EXIT_OUTPUT) from None
        where = f"{error.filename}: " if error.filename else ""
        say(f"ragmeter: {where}{error.strerror or error}", "red")
        raise typer.Exit(EXIT_USAGE) from None


def print_json(value: object) -> None:
    """Print JSON on standard output, with escapes where its encoding is not UTF-8."""
    typer.echo(json.dumps(value, ensure_ascii=_needs_escapes(), indent=2))


def print_line(value: object) -> None:
    """Print JSON on one line of standard output, likewise."""
    typer.echo(as_line(plain(value), ascii_only=_needs_escapes()).decode("utf-8"), nl=False)


def _needs_escapes() -> bool:
    return (sys.stdout.encoding or "").lower().replace("-", "") != "utf8"
