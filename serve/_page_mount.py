"""What the page is given of the server: store, changes, health, and where what people say is kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ragmeter.adapters.opentelemetry.reporter import HeardService
from ragmeter.metrics import ConfigurationError
from ragmeter.requests.references import load_references
from ragmeter.watch.change import Change

from .page import GoldenSet, Labels, Pages, Sources, Standing
from .store import Reader, StoreOptions

__all__ = ["pages_of"]


def pages_of(
    reader: Reader,
    decide_gap: Callable[[str, str], None] | None,
    store: StoreOptions,
    *,
    golden: Path | None,
    references: str | None,
    trace_urls: Sequence[str],
    addresses: tuple[str, str],
    changes: Callable[[], Sequence[Change]],
    standing: Callable[[], Standing],
    health: Callable[[], Mapping[str, Any]],
    heard: Callable[[], Sequence[HeardService]],
    ended: Callable[[], bool],
    guard: AbstractContextManager[object],
    wait_s: float,
) -> Pages:
    """Return the page of a server.

    Args:
        reader: Reads its store.
        decide_gap: Keeps what was decided of a knowledge gap; None: nothing is kept.
        store: Where that is.
        golden: The golden set's file; None: ``golden.jsonl`` beside the store. Labels are kept beside it.
        references: The file of references that the server's meter knows, too.
        trace_urls: Where else a trace can be looked at, with ``{trace_id}`` for its id.
        addresses: Where OTLP over HTTP and over gRPC come in.
        changes: The changes of quality.
        standing: What the detectors know.
        health: As `Server.health`.
        heard: What came of each service.
        ended: Whether the server is ending.
        guard: Contains errors of ours.
        wait_s: Seconds after which a request that ended has come at the latest.

    Raises:
        ConfigurationError: A file cannot be read, or an address is none.
    """
    for address in trace_urls:
        if urlsplit(address).scheme not in ("http", "https") or "{trace_id}" not in address:
            raise ConfigurationError(
                f"--trace-url {address!r}: give an address with {{trace_id}} in it, for example "
                "http://localhost:16686/trace/{trace_id}"
            )
    http_address, grpc_address = addresses
    return Pages(
        Sources(
            reader=reader,
            decide_gap=decide_gap,
            changes=changes,
            standing=standing,
            health=health,
            heard=heard,
            ended=ended,
            guard=guard,
            http_address=http_address,
            grpc_address=grpc_address,
            trace_urls=trace_urls,
            references=load_references(references),
            labels=_labels(store, golden),
            keeps_texts=store.texts,
            wait_s=wait_s,
        )
    )


def _labels(store: StoreOptions, golden: Path | None) -> Labels | None:
    """Return where people's words are kept; None: nowhere, since nothing else is kept either."""
    if golden is None:
        if store.beside is None:
            return None
        golden = store.beside / "golden.jsonl"
    return Labels(golden.with_name("labels.jsonl"), GoldenSet(golden))
