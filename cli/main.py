"""Entry point of the command ``ragmeter``: says what to install when the command line's packages are absent."""

from __future__ import annotations

import io
import sys

from ragmeter.metrics.errors import install_command

__all__ = ["run"]

_EXTRAS = frozenset({"typer", "rich", "click", "numpy"})
EXIT_USAGE = 2


def run() -> None:
    """Run the command line, or explain how to install it and exit with 2."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A terminal that cannot show a character shows its escape; printing never fails.
            stream.reconfigure(errors="backslashreplace")
    try:
        from .app import app  # noqa: PLC0415 -- typer and rich are an extra
    except ModuleNotFoundError as error:
        if error.name not in _EXTRAS:
            raise
        sys.stderr.write(
            f"ragmeter's command line needs the package {error.name!r}: {install_command('cli')}\n"
        )
        raise SystemExit(EXIT_USAGE) from None
    app()
