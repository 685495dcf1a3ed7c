"""The folder that `ragmeter evaluate --out DIR` fills with parts of scores and lists of rows.

Parts are the checkpoint.  A file gets its name only when it is complete, on disk and closed, and is never
rewritten.  ``part-…`` holds scores (`ragmeter.fleet.tables`), ``rows-…`` the rows of a shard in order, with
those that could not be read.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
from pyarrow import parquet

from ragmeter.metrics import ConfigurationError

try:
    import fcntl
except ImportError:  # not on Windows, where two simultaneous runs are not detected
    fcntl = None  # type: ignore[assignment]

PART = re.compile(r"part-\d+-of-\d+-(\d+)\.parquet")
ROWS = re.compile(r"rows-(\d+)-of-(\d+)\.parquet")
_OURS = re.compile(r"part-.*\.parquet|rows-.*\.parquet|\.tmp-.*|\.lock-.*")
_ABOUT = b"ragmeter"
FORMAT = 1

ROW_LIST = pa.schema(
    [
        pa.field("file", pa.int32()),  # index of the file in the data set's names
        pa.field("line", pa.int64()),
        pa.field("digest", pa.binary(16)),  # digest of the row as it is in the file
        pa.field("row", pa.binary(16)),  # hash of the row's content; null: unreadable
        pa.field("reason", pa.string()),  # reason if unreadable
    ]
)


class Shard(NamedTuple):
    """One of several equal pieces of a data set."""

    number: int
    """Counted from 0."""
    of: int

    def __str__(self) -> str:
        """Return the form ``i/n``."""
        return f"{self.number}/{self.of}"

    @property
    def name(self) -> str:
        """The shard's part of file names."""
        return f"{self.number}-of-{self.of}"

    def has(self, digest: bytes) -> bool:
        """Return whether a row belongs to the shard; equal rows belong to the same shard."""
        return int.from_bytes(digest[:8], "big") % self.of == self.number


def shard_of(text: str) -> Shard:
    """Parse ``i/n``."""
    found = re.fullmatch(r"(\d+)/(\d+)", text.strip())
    if found is not None and int(found[1]) < int(found[2]) <= 100_000:
        return Shard(int(found[1]), int(found[2]))
    raise ConfigurationError(f"--shard {text!r}: write i/n with i from 0 to n - 1, e.g. 0/4")


class Folder:
    """The folder, held by one run of a shard.

    Args:
        path: The folder; created if missing, readable by its owner only.
        shard: The shard to write; None: only read.
    """

    def __init__(self, path: Path, shard: Shard | None) -> None:
        self.path = path
        self._shard = shard
        self._lock = -1
        self._last = 0
        try:
            if shard is None:
                if not path.is_dir():
                    raise ConfigurationError(f"--out {str(path)!r}: there is no such folder")
                return
            path.mkdir(mode=0o700, exist_ok=True)
            stranger = next((at.name for at in path.iterdir() if not _OURS.fullmatch(at.name)), None)
            if stranger is not None:
                raise ConfigurationError(
                    f"--out {str(path)!r} holds {stranger!r}, which ragmeter evaluate did not write; "
                    "name another folder"
                )
            try:
                self._hold(shard)
            except ConfigurationError:
                os.close(self._lock)
                raise
            for half in path.glob(f".tmp-{shard.name}-*"):
                half.unlink()
        except OSError as error:
            raise ConfigurationError(f"--out {str(path)!r}: {error.strerror}") from error

    def __enter__(self) -> Folder:
        return self

    def __exit__(self, *_: object) -> None:
        if self._lock >= 0:
            os.close(self._lock)

    def parts(self) -> list[Path]:
        """Return the parts, the oldest first."""
        found = [(int(named[1]), at.name, at) for at, named in self._files_named(PART)]
        return [at for _, _, at in sorted(found)]

    def lists(self) -> dict[Shard, Path]:
        """Return the list of rows of each finished shard."""
        return {Shard(int(named[1]), int(named[2])): at for at, named in self._files_named(ROWS)}

    def write_part(self, table: pa.Table, about: Mapping[str, Any]) -> None:
        """Write a part, completely or not at all."""
        # Parts are ordered by time; two of one run never have the same.
        self._last = max(self._last + 1, time.time_ns())
        described_table = table.replace_schema_metadata(_metadata(about))
        half = self.half("part")
        with self.writing(half):
            parquet.write_table(described_table, half, compression="zstd")
            self.finish(half, f"part-{self._own.name}-{self._last:020d}.parquet")

    def half(self, kind: str) -> Path:
        """Return the temporary name of a file of this run."""
        return self.path / f".tmp-{self._own.name}-{os.getpid()}-{kind}"

    def finish(self, half: Path, name: str) -> None:
        """Give a file its final name, once it is on disk."""
        file = os.open(half, os.O_RDONLY)
        try:
            os.fchmod(file, 0o600)
            os.fsync(file)
        finally:
            os.close(file)
        half.replace(self.path / name)

    @contextmanager
    def writing(self, half: Path) -> Iterator[None]:
        """Explain the error of a full disk, and delete the incomplete file."""
        try:
            yield
        except BaseException as error:
            with suppress(OSError):
                half.unlink(missing_ok=True)
            if not isinstance(error, OSError):
                raise
            raise ConfigurationError(
                f"--out {str(self.path)!r}: {error.strerror or error}; what was scored before is kept, and the "
                "same command continues from there"
            ) from error

    @property
    def _own(self) -> Shard:
        if self._shard is None:
            raise RuntimeError("the folder was opened for reading")
        return self._shard

    def _files_named(self, pattern: re.Pattern[str]) -> Iterator[tuple[Path, re.Match[str]]]:
        for at in self.path.iterdir():
            named = pattern.fullmatch(at.name)
            if named is not None:
                yield at, named

    def _hold(self, shard: Shard) -> None:
        if fcntl is None:
            return
        mine = self.path / f".lock-{shard.name}"
        self._lock = os.open(mine, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        if not _try_lock(self._lock):
            raise ConfigurationError(
                f"--out {str(self.path)!r}: another run writes shard {shard} there at this moment"
            )
        for other in self.path.glob(".lock-*"):
            if other.name.rpartition("-of-")[2] == str(shard.of):
                continue
            file = os.open(other, os.O_RDWR | os.O_CLOEXEC)
            try:
                if not _try_lock(file):
                    raise ConfigurationError(
                        f"--out {str(self.path)!r}: another run writes there at this moment, in other "
                        f"shards than n = {shard.of}; both would measure the same rows"
                    )
            finally:
                os.close(file)


class ListWriter:
    """Writes the list of a shard's rows, some thousand at a time."""

    BATCH = 8192

    def __init__(
        self, folder: Folder, shard: Shard, about: Mapping[str, Any], segments: Sequence[str] = ()
    ) -> None:
        self._folder = folder
        self._shard = shard
        self._half = folder.half("rows")
        self._rows: list[tuple[Any, ...]] = []
        schema = pa.schema(
            [*ROW_LIST, *(pa.field(segment_column(name), pa.string()) for name in segments)],
            metadata=_metadata({**about, "segments": list(segments)}),
        )
        with folder.writing(self._half):
            self._writer = parquet.ParquetWriter(self._half, schema, compression="zstd")

    def add(
        self,
        file: int,
        line: int,
        digest: bytes,
        key: bytes | None,
        reason: str | None,
        segments: Sequence[str | None] = (),
    ) -> None:
        """Add a row, with its values of the segments."""
        self._rows.append((file, line, digest, key, reason, *segments))
        if len(self._rows) >= self.BATCH:
            self._write()

    def finish(self) -> None:
        """Write the remaining rows, and give the list its final name."""
        self._write()
        with self._folder.writing(self._half):
            self._writer.close()
            self._folder.finish(self._half, f"rows-{self._shard.name}.parquet")

    def abandon(self) -> None:
        """Keep the earlier list unchanged."""
        with suppress(OSError, pa.ArrowException):
            self._writer.close()
        with suppress(OSError):
            self._half.unlink(missing_ok=True)

    def _write(self) -> None:
        if not self._rows:
            return
        columns, schema = zip(*self._rows, strict=True), self._writer.schema
        arrays = [pa.array(list(one), field.type) for one, field in zip(columns, schema, strict=True)]
        with self._folder.writing(self._half):
            self._writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=schema))
        self._rows = []


def segment_column(name: str) -> str:
    """Return the column of a list of rows with the values of a segment."""
    return f"segment:{name}"


def description_of(schema: pa.Schema) -> dict[str, Any] | None:
    """Return the description in a file's metadata, or None if the file is foreign or of a later format."""
    found: Any = (schema.metadata or {}).get(_ABOUT)
    try:
        about = json.loads(found)
    except (TypeError, ValueError):
        return None
    return about if isinstance(about, dict) and about.get("format") == FORMAT else None


def _metadata(about: Mapping[str, Any]) -> dict[bytes, bytes]:
    return {_ABOUT: json.dumps({"format": FORMAT, **about}).encode()}


def _try_lock(file: int) -> bool:
    if fcntl is None:
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
