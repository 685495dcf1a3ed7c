"""Detectors that run in this process: a user's function.

`as_detector` accepts any kind of detector. A function blocks, so it is called on a separate thread.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from functools import partial
from typing import Any

from ragmeter.metrics.errors import ConfigurationError

from .detector import DetectionRequest, SpanDetector


class InProcessSpanDetector(SpanDetector):
    """A function of this process as a `SpanDetector`.

    Args:
        function: ``function(question, contexts, answer)``, also an ``async`` one, or an object with such a
            method ``detect``; returns spans, each start, end and probability (`spans_of` has the other
            forms).
        name: The model's name; None: the function's or the class's.
        options: As in `SpanDetector`.

    Raises:
        ConfigurationError: `function` is not a function, or an option is wrong.
    """

    def __init__(self, function: Any, name: str | None = None, **options: Any) -> None:
        call = getattr(function, "detect", function)
        if isinstance(function, (str, type)) or not callable(call):
            shown = repr(function) if isinstance(function, (str, type)) else type(function).__name__
            raise ConfigurationError(
                f"detector is {shown}; pass a function of question, contexts and answer, or "
                "HttpSpanDetector(...) or OnnxSpanDetector(...) from ragmeter.metrics.detector"
            )
        self._function, self._options, self._call_once = function, options, call
        known = getattr(function, "name", None) or getattr(function, "__name__", None)
        super().__init__(name or (known if isinstance(known, str) else type(function).__name__), **options)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the function and the options, but not the cache."""
        return partial(InProcessSpanDetector, self._function, self.name, **self._options), ()

    async def detect(self, requests: Sequence[DetectionRequest]) -> Sequence[Any]:
        """Call the function for each request, on a thread, without blocking the event loop."""
        return [
            await made if inspect.isawaitable(made) else made
            for made in await self._on_thread(
                lambda: [self._call_once(one.question, list(one.contexts), one.answer) for one in requests]
            )
        ]


def as_detector(given: object) -> SpanDetector:
    """Return the argument ``detector`` as a `SpanDetector`; an address is called over HTTP.

    Raises:
        ConfigurationError: It is not a detector.
    """
    if isinstance(given, SpanDetector):
        return given
    if isinstance(given, str):
        from .http import HttpSpanDetector  # noqa: PLC0415 -- only with an address

        return HttpSpanDetector(given)
    return InProcessSpanDetector(given)
