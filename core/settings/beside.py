"""Exporters that another part of the process adds to every new meter: those of ``ragmeter run``.

Imports nothing else of ragmeter, so that registering here costs a program nothing until it makes a meter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ragmeter.exporters.protocol import Exporter

beside: list[Callable[[Sequence[Exporter]], Iterable[Exporter]]] = []
"""Called once by every new meter, at the end of its construction: each returns further exporters for the
given ones."""
