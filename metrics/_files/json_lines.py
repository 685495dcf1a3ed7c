"""JSON lines: the only place that reads and writes them.

Only a newline ends a line. ``str.splitlines`` and files opened as text also split at U+2028, a lone carriage
return and similar characters, which may occur inside a JSON string; so lines are bytes here. A lone surrogate
has no UTF-8 and is written as its JSON escape. No other module writes or parses such lines.
"""

from __future__ import annotations

import codecs
import json
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

MAX_DEPTH = 8
"""Deeper nesting becomes text, so that a structure that contains itself ends."""


def plain(value: Any, depth: int = 0) -> Any:
    """Return `value` as JSON types; NaN becomes None, a foreign object its text."""
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if depth < MAX_DEPTH:
        if isinstance(value, Mapping):
            return {str(key): plain(item, depth + 1) for key, item in value.items()}
        if isinstance(value, (list, tuple, set, frozenset)):
            return [plain(item, depth + 1) for item in value]
    return str(value)


def as_line(value: object, *, compact: bool = False, ascii_only: bool = False) -> bytes:
    """Return a value of JSON types as one line, with its newline; `compact`: without spaces.

    Raises:
        TypeError: It has another type.
        ValueError: It contains NaN or an infinity, which JSON does not have.
    """
    text = json.dumps(
        value, ensure_ascii=ascii_only, allow_nan=False, separators=(",", ":") if compact else None
    )
    return text.encode("utf-8", "backslashreplace") + b"\n"


def lines_of(source: bytes | Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
    """Yield each line that is not blank with its number, from 1, without a byte order mark."""
    for number, found in enumerate(source.split(b"\n") if isinstance(source, bytes) else source, start=1):
        line = found.removeprefix(codecs.BOM_UTF8) if number == 1 else found
        if line.strip():
            yield number, line


def object_of(line: bytes) -> dict[str, Any]:
    """Return the JSON object in a line.

    Raises:
        ValueError: It is not UTF-8, not JSON or not an object; the message names the reason and the place.
    """
    try:
        found = parse(line.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise ValueError(f"not UTF-8 at byte {error.start}; save the file as UTF-8") from None
    except json.JSONDecodeError as error:
        # The decoder's message counts lines within this one, which is always the first.
        raise ValueError(f"not JSON: {error.msg} at column {error.colno}") from None
    except (ValueError, RecursionError) as error:
        raise ValueError(f"not JSON: {error}") from None
    if not isinstance(found, dict):
        raise ValueError("not a JSON object")  # noqa: TRY004 -- of data
    return found


def read_objects(source: bytes | Iterable[bytes]) -> Iterator[dict[str, Any]]:
    """Yield the objects in lines; other lines are skipped, e.g. half a line that a crash left."""
    for _, line in lines_of(source):
        try:
            found = object_of(line)
        except ValueError:
            continue
        yield found


def parse(text: str) -> Any:
    """Return a JSON value; pandas' NaN is null, as it stands for an empty cell.

    Raises:
        ValueError: It is not JSON, or contains Infinity.
    """
    return json.loads(text, parse_constant=constant)


def constant(name: str) -> None:
    """Parse NaN as null, for `json.JSONDecoder(parse_constant=...)`; any other name is invalid."""
    if name != "NaN":
        raise ValueError(f"{name} is not JSON")
