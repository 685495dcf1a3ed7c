"""Publishes what lists count as gauges: knowledge gaps, chunks and conversations that went badly.

The lists are those of meters or of a server's store.  Reading one takes up to some seconds, so all are read now
and then.  `StatsBoard` holds the board and says why there is one per provider.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from itertools import chain

from ragmeter.exporters import semconv
from ragmeter.exporters._format import clean
from ragmeter.exporters.protocol import ListPoint

from ._sources import Reading, WeakSources

LEAST_S = 10.0
"""Seconds between two readings, and `_PAUSE` times what the last one took: a third of a percent of the time."""
_PAUSE = 300.0


class ListBoard(WeakSources[Sequence[ListPoint]]):
    """Publishes the lengths of lists; of several meters the last one's, where they count the same.

    Args:
        clock: Seconds that never go back.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._latest: Sequence[ListPoint] = ()
        self._next = 0.0

    def join(self, source: Callable[[], Sequence[ListPoint]]) -> None:
        super().join(source)
        self._next = 0.0

    def values(self, instrument: semconv.Instrument) -> Reading:
        """Return the values of an instrument."""
        began = self._clock()
        if began >= self._next:
            self._next = began + LEAST_S
            self._latest = list(chain.from_iterable(self.read()))
            self._next += _PAUSE * (self._clock() - began)
        for one, value, named in self._latest:
            if one is instrument:
                yield value, {str(name): clean(text, 256) for name, text in named.items() if text}
