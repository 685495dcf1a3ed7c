"""Assign requests to segments of their workflow: `Segments`.

A segment is a configured name with a short value from the request; sums of quality are also kept per segment.
No value comes from users' texts, except the language of a question.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from urllib.parse import unquote

from ragmeter.exporters.protocol import RagRun
from ragmeter.metrics import ConfigurationError

OTHER = "other"
"""The value of requests beyond the values that are counted separately."""
UNKNOWN = "unknown"
"""The value of requests without one."""
MAX_NAMES = 8
MAX_VALUE_CHARACTERS = 64
"""Longest value; a longer one is not a name, and counts as `OTHER`."""
_LARGE = 10**18
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.\-]{0,63}")
_METADATA = "metadata."
_EXAMPLE = 'segments=("language", "retriever", "metadata.tenant")'
_MOST_SOURCES = 3


def parse_segments(given: object) -> tuple[str, ...]:
    """Return the validated names of segments.

    Raises:
        ConfigurationError: Not a list of names, a name occurs twice, or there are more than eight.
    """
    if isinstance(given, (str, bytes)) or not isinstance(given, Iterable):
        raise ConfigurationError(f"segments is {given!r}; pass a list of names, {_EXAMPLE}")
    names = tuple(given)
    for name in names:
        if not isinstance(name, str) or not _NAME.fullmatch(name) or name == _METADATA:
            raise ConfigurationError(
                f"segments: {name!r} is no name; names have letters, digits, _ . and -, e.g. {_EXAMPLE}"
            )
        if names.count(name) > 1:
            raise ConfigurationError(f"segments: {name!r} is there twice; name it once")
    if len(names) > MAX_NAMES:
        raise ConfigurationError(
            f"segments: {len(names)} names; at most {MAX_NAMES}, since every name multiplies what is kept"
        )
    return names


def segment_text(name: str, value: str) -> str:
    """Return the text of a segment for people: ``language:zh``."""
    return f"{name}:{value}"


class Segments:
    """Finds the segments of requests. Immutable, so without a lock.

    Args:
        names: ``language``; ``retriever``, what was searched; ``metadata.X``, the request's metadata ``X``;
            any other name: the metadata of that name, else the field of the request with that name
            (`framework`, ``embedding_model``, ``provider``, ``top_k``), else the attribute of its resource.

    Raises:
        ConfigurationError: See `parse_segments`.
    """

    def __init__(self, names: Iterable[str] = ()) -> None:
        self.names = parse_segments(names)
        self._read: tuple[tuple[str, Callable[[RagRun], object]], ...] = tuple(
            (name, _reader(name)) for name in self.names
        )

    def of(self, run: RagRun) -> tuple[tuple[str, str], ...]:
        """Return name and value of each segment of a request, in the order of the configured names."""
        return tuple((name, _as_value(read(run))) for name, read in self._read)


def _reader(name: str) -> Callable[[RagRun], object]:
    if name == "language":
        return _language
    if name == "retriever":
        return _sources
    if name.startswith(_METADATA):
        key = name.removeprefix(_METADATA)
        return lambda run: _in_metadata(run, key)
    own = own_resource().get(name)
    known = _KNOWN.get(name)

    def read(run: RagRun) -> object:
        found = _in_metadata(run, name)
        if found is None and known is not None:
            found = known(run)
        if found is None:
            # This process's resource does not describe requests of other processes.
            found = run.resource.get(name) if run.resource else own
        return found

    return read


def _language(run: RagRun) -> object:
    language = _in_metadata(run, "language")
    if isinstance(language, str) and language:
        return language
    sample = run.sample
    text = sample.question or sample.search_query or sample.answer
    if not text:
        return None
    from ragmeter.metrics.text.languages import language_of  # noqa: PLC0415 -- many patterns

    return language_of(text)


def _sources(run: RagRun) -> object:
    found = sorted({name for one in run.retrievals if (name := one.data_source_id or one.name)})
    if len(found) > _MOST_SOURCES:
        return OTHER
    return "+".join(found) or None


def _of_retrievals(field: str) -> Callable[[RagRun], object]:
    def read(run: RagRun) -> object:
        values = (getattr(one, field) for one in run.retrievals)
        return next((value for value in values if value is not None), None)

    return read


_KNOWN: Mapping[str, Callable[[RagRun], object]] = {
    "framework": lambda run: run.framework,
    "embedding_model": _of_retrievals("embedding_model"),
    "provider": _of_retrievals("provider"),
    "top_k": _of_retrievals("top_k"),
}


def _in_metadata(run: RagRun, key: str) -> object:
    """Return the application's metadata of the request: as passed to ragmeter, else to the framework."""
    for given in (run.metadata, run.framework_metadata):
        found = _at(given, key)
        if found is not None:
            return found
    return None


def _at(given: Mapping[str, object], key: str) -> object:
    found = given.get(key)
    if found is None and "." in key:
        first, _, rest = key.partition(".")
        inner = given.get(first)
        return _at(inner, rest) if isinstance(inner, Mapping) else None
    return found


def _as_value(found: object) -> str:
    """Return a value for people: a short text on one line."""
    if isinstance(found, bool):
        return str(found).lower()
    if isinstance(found, (int, float)):
        # Formatting a very large integer is slow, and fails.
        if abs(found) >= _LARGE:
            return OTHER
        return f"{found:g}" if isinstance(found, float) else str(found)
    if not isinstance(found, str) or not (text := found.strip()):
        return UNKNOWN
    if len(found) > MAX_VALUE_CHARACTERS or not text.isprintable():
        return OTHER
    return text


def own_resource() -> Mapping[str, str]:
    """Return the attributes of this process's resource, from the standard variable."""
    pairs = os.environ.get("OTEL_RESOURCE_ATTRIBUTES", "").split(",")
    named = [pair.partition("=") for pair in pairs if "=" in pair]
    return {key.strip(): unquote(value.strip()) for key, _, value in named}
