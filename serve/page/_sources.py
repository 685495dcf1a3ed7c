"""The data sources of the page: store, watch and server. The page itself has no state."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

from ragmeter.adapters.opentelemetry.heard import HeardService
from ragmeter.requests.references import ReferenceSource
from ragmeter.serve.store import Reader
from ragmeter.watch.change import Change

from ._labels import Labels
from ._news import Standing


@dataclass(slots=True, kw_only=True)
class Sources:
    """Everything a page is built from. A server that is only starting has the defaults of what it lacks."""

    reader: Reader
    """Reads the store, from any thread."""
    changes: Callable[[], Sequence[Change]] = tuple
    """Returns the changes of quality, including those of the last days."""
    standing: Callable[[], Standing] = Standing
    """Returns the state of the detectors."""
    health: Callable[[], Mapping[str, Any]] = dict
    """Returns the health, as `Server.health`."""
    heard: Callable[[], Sequence[HeardService]] = tuple
    """Returns the received requests of each service since the server began, by outcome."""
    ended: Callable[[], bool] = bool
    """Returns whether the server is ending, so that open streams end."""
    guard: AbstractContextManager[object] = field(default_factory=nullcontext)
    """Contains the server's own errors."""
    http_address: str = "http://127.0.0.1:4318"
    """Address of OTLP over HTTP, and of the page."""
    public_address: str = ""
    """Address of the page for links in files, if that is another."""
    grpc_address: str = "http://127.0.0.1:4317"
    """Address of OTLP over gRPC."""
    trace_urls: Sequence[str] = ()
    """Addresses of other viewers of a trace, with ``{trace_id}``."""
    references: ReferenceSource | None = None
    """Returns the reference of a question, or None."""
    labels: Labels | None = None
    """The files of labels and golden set; None: labels are not stored."""
    decide_gap: Callable[[str, str], None] | None = None
    """Stores the decision about a knowledge gap; None: decisions are not stored."""
    keeps_texts: bool = True
    """Whether texts are stored."""
    wait_s: float = 30.0
    """Seconds by which a finished request has arrived at the latest."""
    clock: Callable[[], float] = time.time
    """Returns seconds since the epoch."""
