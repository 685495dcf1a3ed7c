"""The page's data sources in the server: store, changes, health, and the files of people's labels."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

from ragmeter.metrics import ConfigurationError
from ragmeter.requests.references import load_references

from .options import ServeOptions
from .page import GoldenSet, Labels, Pages, Sources
from .store import StoreOptions


def pages_of(options: ServeOptions, store: StoreOptions, sources: Sources) -> Pages:
    """Return the page of a server.

    Args:
        options: Golden set (None: ``golden.jsonl`` beside the store), references, addresses of other viewers
            of traces.
        store: The store to read.
        sources: Data of the server itself.

    Raises:
        ConfigurationError: A file cannot be read, or an address is invalid.
    """
    for address in options.trace_urls:
        if urlsplit(address).scheme not in ("http", "https") or "{trace_id}" not in address:
            raise ConfigurationError(
                f"--trace-url {address!r}: give an address with {{trace_id}} in it, for example "
                "http://localhost:16686/trace/{trace_id}"
            )
    return Pages(
        replace(
            sources,
            trace_urls=options.trace_urls,
            references=load_references(options.references),
            labels=_labels(store, options.golden),
            keeps_texts=store.texts,
            wait_s=options.idle_s,
        )
    )


def _labels(store: StoreOptions, golden: Path | None) -> Labels | None:
    """Return the file of people's labels, or None if nothing is stored permanently."""
    if golden is None:
        if store.beside is None:
            return None
        golden = store.beside / "golden.jsonl"
    return Labels(golden.with_name("labels.jsonl"), GoldenSet(golden))
