"""Entry point of the command ``ragmeter``: says what to install when a package it needs is absent."""

from __future__ import annotations

import csv
import io
import sys

from ragmeter.metrics.errors import MissingDependencyError

__all__ = ["run"]

_BROUGHT_BY = {
    "typer": ("typer", "cli"),
    "click": ("typer", "cli"),
    "rich": ("rich", "cli"),
    "numpy": ("numpy", "cli"),
    "opentelemetry": ("opentelemetry-sdk", "otlp"),
}
"""Package and extra behind each import that a command makes without asking first."""
EXIT_USAGE = 2


def run() -> None:
    """Run the command line, or explain how to install it and exit with 2."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A terminal that cannot show a character shows its escape; printing never fails.
            stream.reconfigure(errors="backslashreplace")
    # A limit of the whole process, which is ours here: the readers leave an application's alone.
    csv.field_size_limit(64 * 1024 * 1024)
    try:
        from .app import app  # noqa: PLC0415 -- typer and rich are an extra

        app()
    except ModuleNotFoundError as error:
        brought_by = _BROUGHT_BY.get((error.name or "").partition(".")[0])
        if brought_by is None:
            raise
        missing = MissingDependencyError(*brought_by, "ragmeter's command line")
        sys.stderr.write(f"{missing}\n")
        raise SystemExit(EXIT_USAGE) from None
