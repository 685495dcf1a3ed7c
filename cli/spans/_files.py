"""Reads recorded OTLP from files: raw export requests, JSON, and the output of a Collector's file exporter."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from ragmeter.adapters.opentelemetry.otlp import ExportedRecords, MalformedError, read_json, read_protobuf
from ragmeter.metrics._files.json_lines import lines_of

_GZIP = b"\x1f\x8b"
_MAX_BYTES = 1024 * 1024 * 1024
"""Most bytes of a file, or of a compressed file's content."""


class BadInput(NamedTuple):
    """A file, or a line of one, that cannot be read."""

    path: Path
    line: int | None
    """Line, counted from 1; None: the file as a whole."""
    reason: str

    def __str__(self) -> str:
        place = str(self.path) if self.line is None else f"{self.path}:{self.line}"
        return f"{place}: {self.reason}"


def read_file(path: Path) -> Iterator[ExportedRecords | BadInput]:
    """Read a recording.

    Its content shows its format: raw protobuf, JSON, or one JSON document per line. Each may be gzipped.

    Yields:
        The content of each export request, or the place and the reason if it cannot be read.
    """
    try:
        body = _read_unpacked(path)
    except (OSError, EOFError, zlib.error) as error:
        yield BadInput(path, None, _why(error))
        return
    except MalformedError as error:
        yield BadInput(path, None, str(error))
        return
    name = path.name.removesuffix(".gz")
    start = body.lstrip()[:1]
    if name.endswith((".json", ".jsonl", ".ndjson")) or (not name.endswith(".pb") and start in (b"{", b"[")):
        yield from _json(path, body)
        return
    try:
        yield read_protobuf(body)
    except MalformedError as error:
        yield BadInput(path, None, str(error))


def _why(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return f"cannot be unpacked ({type(error).__name__})"


def _read_unpacked(path: Path) -> bytes:
    with path.open("rb") as plain:
        if plain.peek(2)[:2] != _GZIP:  # a pipe cannot be rewound
            body = plain.read(_MAX_BYTES + 1)
        else:
            with gzip.open(plain) as inner:
                body = inner.read(_MAX_BYTES + 1)
    if len(body) > _MAX_BYTES:
        raise MalformedError(f"larger than {_MAX_BYTES // 1024**2} MiB; split it into several files")
    return body


def _json(path: Path, body: bytes) -> Iterator[ExportedRecords | BadInput]:
    lines = list(lines_of(body))
    if len(lines) > 1:
        try:
            whole = read_json(lines[0][1])
        except MalformedError:
            # The first line is no request: one request over several lines, or not OTLP.
            try:
                yield read_json(body)
            except MalformedError as error:
                if path.name.endswith(".json"):
                    yield BadInput(path, None, str(error))
                    return
            else:
                return
        else:
            yield whole
            del lines[0]
    for number, line in lines:
        try:
            yield read_json(line)
        except MalformedError as error:  # noqa: PERF203 -- one bad line is one
            yield BadInput(path, number, str(error))
