"""Span ids that are a function of what the span says, so that sending it twice is harmless.

Backends keep the first span of an id and ignore the second.  The SDK takes ids from
the tracer's public ``id_generator``; the tracer of our own scope gets one that hands
out a pinned id when asked to and otherwise asks the application's generator.  Tracers
that have no such attribute or do not let it be set keep their own ids.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from hashlib import blake2b
from typing import Any

from opentelemetry.trace import Tracer

from ragmeter.exporters._foreign import attribute_of, set_attribute_of


def evaluation_span_id(
    trace_id: int,
    span_id: int,
    scores: Iterable[tuple[str, str]],
    *,
    run_id: str,
    late: bool,
    revision: str = "",
) -> int:
    """Return the id of the evaluation span about one judged span: 64 bits, never 0.

    Args:
        trace_id: The trace.
        span_id: The judged span.
        scores: Name and definition of each score.
        run_id: The request, as several may share the application's span around them.
        late: Whether the scores came after the first export.
        revision: Which of several late ones, if something was learned about the request.
    """
    parts = [f"{trace_id:032x}", f"{span_id:016x}", *sorted("=".join(pair) for pair in scores)]
    when = f"late {revision}".rstrip() if late else "first"
    key = "\n".join([*parts, run_id, when])
    digest = blake2b(key.encode("utf-8", "replace"), digest_size=8).digest()
    return int.from_bytes(digest, "big") or 1


class PinnedIds:
    """An id generator whose next span id can be set, for the calling thread only."""

    def __init__(self, generator: Any) -> None:
        self._generator = generator
        self._pinned = threading.local()

    @staticmethod
    def install(tracer: Tracer) -> None:
        """Give `tracer`, or what it wraps, a pinning generator; one that takes none keeps its own ids."""
        generator = attribute_of(tracer, "id_generator")
        if isinstance(generator, PinnedIds) or not attribute_of(generator, "generate_span_id"):
            return
        pinned = PinnedIds(generator)
        for holder in (tracer, attribute_of(tracer, "__wrapped__")):
            set_attribute_of(holder, "id_generator", pinned)
            if attribute_of(tracer, "id_generator") is pinned:
                return

    @staticmethod
    @contextmanager
    def pin(tracer: Tracer, span_id: int) -> Iterator[None]:
        """Make the next span that this thread starts from `tracer` carry `span_id`, if possible."""
        generator = attribute_of(tracer, "id_generator")
        if not isinstance(generator, PinnedIds):
            yield
            return
        generator._pinned.span_id = span_id  # noqa: SLF001 -- its own class
        try:
            yield
        finally:
            generator._pinned.span_id = None  # noqa: SLF001 -- its own class

    def generate_span_id(self) -> int:
        """Return the pinned id once, then the application's."""
        pinned: int | None = getattr(self._pinned, "span_id", None)
        if pinned is not None:
            self._pinned.span_id = None
            return pinned
        return int(self._generator.generate_span_id())

    def __getattr__(self, name: str) -> Any:
        return getattr(self._generator, name)
