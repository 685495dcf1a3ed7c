"""Entry point of the command ``ragmeter``: names the package to install if one is missing."""

from __future__ import annotations

import csv
import io
import os
import sys
from contextlib import suppress

from ragmeter.metrics.errors import MissingDependencyError

from ._interrupt import EXIT_INTERRUPTED, interruptible

_BROUGHT_BY = {
    "typer": ("typer", "cli"),
    "click": ("typer", "cli"),
    "rich": ("rich", "cli"),
    "opentelemetry": ("opentelemetry-sdk", "otlp"),
}
"""Package and extra of each import that a command makes without a prior check."""
EXIT_USAGE = 2


def run() -> None:
    """Run the command line, or explain how to install it and exit with 2."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A terminal that cannot show a character shows an escape sequence; printing never fails.
            stream.reconfigure(errors="backslashreplace")
    # A process-wide limit, which the command line may change; the readers leave an application's alone.
    csv.field_size_limit(64 * 1024 * 1024)
    try:
        with interruptible():
            from .app import app  # noqa: PLC0415 -- typer and rich are an extra

            app()
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        os._exit(EXIT_INTERRUPTED)
    except SystemExit as ending:
        if ending.code == EXIT_INTERRUPTED:  # waiting threads do not delay the exit
            for stream in (sys.stdout, sys.stderr):
                with suppress(OSError, ValueError):
                    stream.flush()
            os._exit(EXIT_INTERRUPTED)
        raise
    except ModuleNotFoundError as error:
        brought_by = _BROUGHT_BY.get((error.name or "").partition(".")[0])
        if brought_by is None:
            raise
        missing = MissingDependencyError(*brought_by, "ragmeter's command line")
        sys.stderr.write(f"{missing}\n")
        raise SystemExit(EXIT_USAGE) from None
