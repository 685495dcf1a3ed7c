"""What the page reads: store, watch and server. The page itself holds no state."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

from ragmeter.adapters.opentelemetry.reporter import HeardService
from ragmeter.requests.references import ReferenceSource
from ragmeter.serve.store import Reader
from ragmeter.watch.change import Change

from ._labels import Labels
from ._news import Standing


def _nothing_changed() -> Sequence[Change]:
    return ()


def _healthy() -> Mapping[str, Any]:
    return {"status": "ok"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """Everything a page is built from."""

    reader: Reader
    """Reads the store, from any thread."""
    changes: Callable[[], Sequence[Change]] = _nothing_changed
    """The changes of quality, those of the last days included."""
    standing: Callable[[], Standing] = Standing
    """What the detectors know."""
    health: Callable[[], Mapping[str, Any]] = _healthy
    """As `Server.health`."""
    heard: Callable[[], Sequence[HeardService]] = tuple
    """What came of each service since the server began."""
    ended: Callable[[], bool] = bool
    """Whether the server is ending, so that open streams do."""
    guard: AbstractContextManager[object] = field(default_factory=nullcontext)
    """Contains our own errors."""
    http_address: str = "http://127.0.0.1:4318"
    """Where OTLP over HTTP comes in, and the page is."""
    grpc_address: str = "http://127.0.0.1:4317"
    """Where OTLP over gRPC does."""
    trace_urls: Sequence[str] = ()
    """Addresses of a trace elsewhere, with ``{trace_id}``."""
    references: ReferenceSource | None = None
    """What is known to be right."""
    labels: Labels | None = None
    """Where people's words and the golden set are kept; None: nowhere."""
    decide_gap: Callable[[str, str], None] | None = None
    """Keeps what was decided of a knowledge gap; None: nothing is kept."""
    keeps_texts: bool = True
    """Whether texts that come are kept."""
    wait_s: float = 30.0
    """Seconds after which a request that ended has come at the latest."""
    clock: Callable[[], float] = time.time
    """Seconds since the epoch."""
