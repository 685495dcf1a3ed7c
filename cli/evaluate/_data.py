"""Finds the files of a data set, and copies standard input into a temporary file."""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from ragmeter.metrics import ConfigurationError
from ragmeter.metrics._files.rows import format_of

_STANDARD_INPUT = Path("-")
_GZIP = b"\x1f\x8b"
_PARQUET = b"PAR1"
_SNIFFED = 4096


def files_of(data: Sequence[Path]) -> list[Path]:
    """Return the named files; for a folder, its files by name, since engines write data sets in parts."""
    found: list[Path] = []
    for path in data:
        if not path.is_dir():
            found.append(path)
            continue
        inside = sorted(at for at in path.iterdir() if at.name[0] not in "._" and _is_data(at))
        if not inside:
            raise ConfigurationError(f"the folder {str(path)!r} has no file of a data set")
        found += inside
    return found


def _is_data(path: Path) -> bool:
    try:
        format_of(path)
    except ConfigurationError:
        return False
    return path.is_file()


def check_data(data: Sequence[Path], *, merge: bool) -> None:
    """Check the names of the files, before any is opened."""
    if not data and not merge:
        raise ConfigurationError("name a data set, or - for standard input")
    names = [path.name for path in data]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ConfigurationError(f"two of the files are called {twice!r}; rename one")
    for path in data:
        if path != _STANDARD_INPUT:
            format_of(path)


@contextmanager
def readable(data: Sequence[Path]) -> Iterator[tuple[Path, ...]]:
    """Yield the files; standard input is copied into a temporary one, readable by its owner only."""
    if _STANDARD_INPUT not in data:
        yield tuple(data)
        return
    with tempfile.TemporaryDirectory(prefix="ragmeter-") as folder:
        copied = _copy_input(Path(folder))
        yield tuple(copied if path == _STANDARD_INPUT else path for path in data)


def _copy_input(folder: Path) -> Path:
    begun = sys.stdin.buffer.read(_SNIFFED)
    path = folder / f"standard-input{_ending_of(begun)}"
    try:
        with path.open("wb") as file:
            file.write(begun)
            shutil.copyfileobj(sys.stdin.buffer, file)
        if path.suffix == ".jsonl" and _is_one_object(path):
            path = path.rename(path.with_suffix(".json"))
    except OSError as error:
        raise ConfigurationError(f"standard input cannot be kept: {error.strerror}") from error
    return path


def _is_one_object(path: Path) -> bool:
    """Return whether a file that begins with a brace is an API response: its rows are under ``data``."""
    with path.open("rb") as file:
        first = file.readline().strip()
        if first.endswith((b"{", b"[", b",")):  # an object over several lines
            return True
        try:
            found = json.loads(first)
        except (ValueError, RecursionError):
            return False
        return isinstance(found, dict) and isinstance(found.get("data"), list) and not file.read(64).strip()


def _ending_of(begun: bytes) -> str:
    """Return the file ending that fits these first bytes."""
    if begun.startswith(_PARQUET):
        return ".parquet"
    if begun.startswith(_GZIP):
        raise ConfigurationError("standard input is compressed; unpack it: gzip -dc FILE | ragmeter …")
    first = begun.removeprefix(b"\xef\xbb\xbf").lstrip()[:1]
    if first == b"[":
        return ".json"
    return ".jsonl" if first in (b"{", b"") else ".csv"
