"""Checks a command's output paths: no data is overwritten, and typos show before a judge is paid."""

from __future__ import annotations

import os
from pathlib import Path

from ragmeter.metrics import ConfigurationError


def check_output_paths(data: Path, **outputs: Path | None) -> None:
    """Check the output files of a run over `data`, by the names of their options."""
    taken: dict[str, Path] = {"the data set itself": data}
    for name, path in outputs.items():
        if path is None:
            continue
        option = "--" + name.replace("_", "-")
        for other, at in taken.items():
            if _is_same(path, at):
                raise ConfigurationError(f"{option} names {other}; name another file")
        folder = path.parent
        if not folder.is_dir():
            raise ConfigurationError(f"{option} {str(path)!r}: there is no folder {str(folder)!r}")
        if path.is_dir():
            raise ConfigurationError(f"{option} {str(path)!r} is a folder; name a file")
        if not os.access(path if path.exists() else folder, os.W_OK):
            raise ConfigurationError(f"{option} {str(path)!r} cannot be written: no permission")
        taken[f"the file of {option}"] = path


def _is_same(one: Path, other: Path) -> bool:
    """Return whether two names lead to one file, links included."""
    try:
        return one.samefile(other)
    except OSError:
        return one.resolve() == other.resolve()
