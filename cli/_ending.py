"""How a command ends: an error as one line, an exit code, JSON on standard output. Used by every command."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import typer
from rich.console import Console

from ragmeter.metrics import RagmeterError

__all__ = [
    "EXIT_FAILED",
    "EXIT_INTERRUPTED",
    "EXIT_OUTPUT",
    "EXIT_USAGE",
    "explained",
    "print_json",
    "print_line",
]

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_OUTPUT = 3
EXIT_INTERRUPTED = 130


@contextmanager
def explained() -> Iterator[None]:
    """Print an error of ours as one line and exit with code 2; after Ctrl-C with 130."""
    try:
        yield
        sys.stdout.flush()  # a full disk or a closed pipe shows here, and not when Python ends
    except KeyboardInterrupt:
        Console(stderr=True).print("interrupted", style="yellow")
        raise typer.Exit(EXIT_INTERRUPTED) from None
    except RagmeterError as error:
        Console(stderr=True).print(
            f"ragmeter: {error}", style="red", markup=False, highlight=False, soft_wrap=True
        )
        raise typer.Exit(EXIT_USAGE) from None
    except OSError as error:
        # Files that cannot be written raise ConfigurationError; this is standard output.
        _give_up_output()
        Console(stderr=True).print(
            f"ragmeter: the output cannot be written: {error.strerror}", style="red", markup=False
        )
        raise typer.Exit(EXIT_OUTPUT) from None


def _give_up_output() -> None:
    """Discard the output stream: the interpreter would fail again when it flushes it at exit."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def print_json(value: object) -> None:
    """Print JSON on standard output, with escapes where its encoding is not UTF-8."""
    encoding = (sys.stdout.encoding or "").lower().replace("-", "")
    typer.echo(json.dumps(value, ensure_ascii=encoding != "utf8", indent=2))


def print_line(value: object) -> None:
    """Print JSON on one line of standard output, likewise."""
    encoding = (sys.stdout.encoding or "").lower().replace("-", "")
    line = json.dumps(value, ensure_ascii=encoding != "utf8", default=str)
    # A lone surrogate has no UTF-8; its JSON escape has.
    typer.echo(line.encode("utf-8", "backslashreplace").decode())
