"""``ragmeter dashboards``: writes dashboard, rules and stack into a directory. Called by `app`."""

from __future__ import annotations

from pathlib import Path

import typer
from rich.console import Console

from ragmeter.cli.dashboards import dashboard_files
from ragmeter.metrics import ConfigurationError

__all__ = ["print_written", "write_dashboards"]


def write_dashboards(directory: Path, *, force: bool = False) -> list[Path]:
    """Write all files below `directory` and return their paths.

    Args:
        directory: Created when it is absent.
        force: Replace files that were edited since.

    Raises:
        ConfigurationError: A file exists with other content and `force` is off, or cannot be
            written.
    """
    texts = {directory / path: text for path, text in dashboard_files().items()}
    try:
        if not force:
            edited = [str(path) for path, text in texts.items() if _differs(path, text)]
            if edited:
                raise ConfigurationError(
                    f"{', '.join(edited)} would be overwritten; pass --force or another --out"
                )
        for path, text in texts.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigurationError(f"cannot write to {directory}: {error}") from error
    return list(texts)


def _differs(path: Path, text: str) -> bool:
    return path.exists() and path.read_bytes() != text.encode()


def print_written(written: list[Path], directory: Path, console: Console) -> None:
    """Tell what was written, and what to do with it."""
    for path in written:
        typer.echo(str(path))
    console.print(
        f"\nTry it: cd {directory} && docker compose up, then http://localhost:3000. "
        "To use parts of it, see README.md there.",
        markup=False,
        highlight=False,
        soft_wrap=True,
    )
