"""Collect the values of several meters that publish to one meter provider.

`WeakSources` asks them and holds no meter alive; `register` makes an instrument of each name that is published.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from types import MethodType
from typing import Any, Generic, TypeVar
from weakref import WeakMethod

from opentelemetry.metrics import CallbackOptions, Meter, Observation
from opentelemetry.util.types import AttributeValue

from ragmeter.exporters.semconv import Instrument
from ragmeter.metrics._process import fork

T = TypeVar("T")
Reading = Iterable[tuple[float, dict[str, AttributeValue]]]
"""The values of an instrument at the moment, each with the attributes of its series."""
_CREATE = {
    "observable_counter": "create_observable_counter",
    "observable_updowncounter": "create_observable_up_down_counter",
    "observable_gauge": "create_observable_gauge",
}


def register(
    meter: Meter, instruments: Iterable[Instrument], read: Callable[[Instrument], Reading]
) -> None:
    """Register those of some instruments that are read when metrics are collected."""
    for instrument in instruments:
        if instrument.kind in _CREATE:
            create: Any = getattr(meter, _CREATE[instrument.kind])
            call = partial(_observe, read, instrument)
            create(str(instrument.name), [call], instrument.unit, instrument.description)


def _observe(
    read: Callable[[Instrument], Reading], instrument: Instrument, _: CallbackOptions
) -> Iterable[Observation]:
    for value, attributes in read(instrument):
        yield Observation(value, attributes)


class _Source(Generic[T]):
    """A function of a meter, held weakly: telemetry keeps no meter alive."""

    def __init__(self, ask: Callable[[], T]) -> None:
        self.ask: Callable[[], Callable[[], T] | None] = (
            WeakMethod(ask) if isinstance(ask, MethodType) else lambda: ask
        )
        self.last: T | None = None

    def read(self) -> T | None:
        """Return its current value, or the last one."""
        if (ask := self.ask()) is not None:
            self.last = ask()
        return self.last


class WeakSources(Generic[T]):
    """Functions that return current values. Thread-safe."""

    def __init__(self) -> None:
        self._lock = fork.reentrant_lock()
        self._sources: dict[int, _Source[T]] = {}

    def join(self, source: Callable[[], T]) -> None:
        """Ask `source` from now on; a method is held weakly."""
        with self._lock:
            self._sources[id(source)] = _Source(source)

    def leave(self, source: Callable[[], T]) -> None:
        """Ask it once more, and then no more."""
        last = source()
        with self._lock:
            if self._sources.pop(id(source), None) is not None:
                self.keep(last)

    def keep(self, last: T) -> None:
        """Keep the last value of a dropped source; here it is discarded."""

    def read(self) -> list[T]:
        """Return what each says."""
        with self._lock:
            for key, source in list(self._sources.items()):
                if source.ask() is None:
                    del self._sources[key]
                    if source.last is not None:
                        self.keep(source.last)
            sources = list(self._sources.values())
        return [value for one in sources if (value := one.read()) is not None]
