"""The page's data sources in the server: store, changes, health, and the files of people's labels."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ragmeter.metrics import ConfigurationError
from ragmeter.requests.references import load_references

from .options import ServeOptions
from .page import GoldenSet, Labels, Sources
from .store import StoreOptions


def page_sources(options: ServeOptions, **given: Any) -> Sources:
    """Return the data sources of a server's page.

    Args:
        options: Store, golden set (None: ``golden.jsonl`` beside the store), references, addresses of other
            viewers of traces.
        given: Data of the server itself, as in `Sources`.

    Raises:
        ConfigurationError: A file cannot be read, or an address is invalid.
    """
    for address in options.trace_urls:
        if urlsplit(address).scheme not in ("http", "https") or "{trace_id}" not in address:
            raise ConfigurationError(
                f"--trace-url {address!r}: give an address with {{trace_id}} in it, for example "
                "http://localhost:16686/trace/{trace_id}"
            )
    store = options.store or StoreOptions()
    return Sources(
        trace_urls=options.trace_urls,
        references=load_references(options.references),
        labels=_labels(store, options.golden),
        keeps_texts=store.texts,
        wait_s=options.idle_s,
        **given,
    )


def _labels(store: StoreOptions, golden: Path | None) -> Labels | None:
    """Return the file of people's labels, or None if nothing is stored permanently."""
    if golden is None:
        if store.beside is None:
            return None
        golden = store.beside / "golden.jsonl"
    return Labels(golden.with_name("labels.jsonl"), GoldenSet(golden))
