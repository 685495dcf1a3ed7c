"""Detection of long values that an SDK cut off, which it does not mark.

A limit on the length of values shows in values of exactly one length, none longer: JSON that breaks off, or
texts under several names, of which several differ or two end in the middle of a sentence.  Under one name they
may be chunks of one size.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from ragmeter.adapters.reading.values import is_broken

from .record import SpanRecord

_SHORTEST = 16
_SEVERAL = 4
"""Different texts of the greatest length from which this is no accident."""
_NUMBER = re.compile(r"\d+")


class CutLength:
    """The length at which the values of a trace's spans were cut off."""

    def __init__(self, spans: Iterable[SpanRecord]) -> None:
        longest = 0
        found: dict[str, str] = {}
        for span in spans:
            for key, value in span.attributes.items():
                if isinstance(value, str) and len(value) >= longest:
                    if len(value) > longest:
                        longest = len(value)
                        found.clear()
                    found[value] = key
        texts = {value: _NUMBER.sub("", key) for value, key in found.items() if " " in value}
        cut = longest >= _SHORTEST and (
            # JSON that breaks off; values that end like JSON are not parsed.
            any(value[-1] not in "}]" and is_broken(value) for value in found)
            or (
                len({*texts.values()}) > 1
                and (
                    len(texts) >= _SEVERAL or sum(text[-1].isalnum() or text[-1] in " ," for text in texts) > 1
                )
            )
        )
        self.length: int | None = longest if cut else None
        """In characters; None if nothing was cut."""

    def is_cut(self, value: object) -> bool:
        """Return whether a value is a text of the length of those that were cut."""
        return isinstance(value, str) and len(value) == self.length
