"""Decide whether text may be exported, and prepare it.

Read by the span and event writers.  Nothing else decides about content: without an
opt-in neither question, query, context, answer nor explanation passes.
"""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass

from ragmeter.exporters import semconv
from ragmeter.exporters._format import outgoing
from ragmeter.metrics import ConfigurationError

logger = logging.getLogger("ragmeter")

# (on spans, on events)
_MODES = {
    "NO_CONTENT": (False, False),
    "SPAN_ONLY": (True, False),
    "EVENT_ONLY": (False, True),
    "SPAN_AND_EVENT": (True, True),
    # What older and other instrumentations read from the same variable.
    "TRUE": (True, True),
    "1": (True, True),
    "FALSE": (False, False),
    "0": (False, False),
    "": (False, False),
}
_ALLOWED = "NO_CONTENT, SPAN_ONLY, EVENT_ONLY, SPAN_AND_EVENT, true or false"


@dataclass(frozen=True, slots=True)
class ContentPolicy:
    """Where content may go."""

    on_spans: bool
    """Whether spans may carry content."""
    on_events: bool
    """Whether events may."""

    @classmethod
    def resolve(cls, capture_content: bool | str | None) -> ContentPolicy:
        """Read the argument or, when it is None, the standard environment variable.

        Raises:
            ConfigurationError: The argument is not one of the four modes nor a boolean. A wrong
                environment variable only warns, and then nothing is captured.
        """
        if capture_content is not None:
            mode = _MODES.get(str(capture_content).strip().upper())
            if mode is None:
                raise ConfigurationError(
                    f"capture_content={capture_content!r} is unknown; allowed: {_ALLOWED}"
                )
            return cls(*mode)
        value = os.environ.get(semconv.CAPTURE_CONTENT_VARIABLE, "")
        mode = _MODES.get(value.strip().upper())
        if mode is None:
            logger.warning(
                "%s=%r is unknown; no content is captured. Allowed: %s",
                semconv.CAPTURE_CONTENT_VARIABLE,
                value,
                _ALLOWED,
            )
            mode = (False, False)
        return cls(*mode)

    @staticmethod
    def text(text: str) -> str:
        """Return `text` as it may leave: cut, encodable. The caller has asked first."""
        return outgoing(text)
