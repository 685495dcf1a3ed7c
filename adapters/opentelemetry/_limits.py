"""Whether an SDK cut long values off: it leaves no mark of it.

A limit on the length of values shows in values of exactly one length, none longer, one of which at least is
JSON that breaks off, or several of which differ.
"""

from __future__ import annotations

from collections.abc import Iterable

from ragmeter.adapters.reading.values import is_broken

from .record import SpanRecord

_SHORTEST = 16
_SEVERAL = 4
"""This many different texts of the greatest length are no accident."""


class CutLength:
    """The length at which the values of a trace's spans were cut off.

    Args:
        spans: The trace's spans.
    """

    def __init__(self, spans: Iterable[SpanRecord]) -> None:
        longest = 0
        found: list[str] = []
        for span in spans:
            for value in span.attributes.values():
                if isinstance(value, str) and len(value) >= longest:
                    if len(value) > longest:
                        longest = len(value)
                        found.clear()
                    found.append(value)
        values = set(found)
        cut = longest >= _SHORTEST and (
            any(map(_breaks_off, values)) or (len(values) >= _SEVERAL and _is_text(values))
        )
        self.length: int | None = longest if cut else None
        """In characters; None: nothing was cut."""

    def is_cut(self, text: str) -> bool:
        """Return whether a text is as long as those that were cut."""
        return self.length is not None and len(text) == self.length


def _breaks_off(value: str) -> bool:
    """Return whether JSON breaks off here; what ends as JSON does is not looked into."""
    return value[-1] not in "}]" and is_broken(value)


def _is_text(values: Iterable[str]) -> bool:
    """Return whether the values read like texts: ids of one length are as common as cut texts are rare."""
    return sum(" " in value for value in values) >= _SEVERAL
