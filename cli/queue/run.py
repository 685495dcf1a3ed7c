"""The work of ``ragmeter queue``, for any engine, and its output for people."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from rich.table import Table

from ragmeter.cli._console import Console
from ragmeter.fleet.payload import MessageContent, UnreadableError, unpack
from ragmeter.fleet.queue import DeadLetter, Queue, QueueStatus, open_queue
from ragmeter.metrics import ConfigurationError

_UNITS = ((86_400.0, "d"), (3_600.0, "h"), (60.0, "min"))


def queue_at(url: str | None) -> Queue:
    """Return the queue that an option or the environment names.

    Raises:
        ConfigurationError: Neither names one, or the engine is unknown.
    """
    if not url:
        raise ConfigurationError(
            "no queue: pass --queue URL or set RAGMETER_QUEUE_URL, e.g. amqp://user:password@host/ or spool:///dir"
        )
    return open_queue(url)


def letters(queue: Queue, limit: int, *, with_text: bool) -> list[dict[str, Any]]:
    """Return the oldest dead letters as JSON-ready fields.

    Each has ``reason``, ``deaths`` (workers that ended, or failed, while they had it), ``age_s`` (seconds since
    its death, at least 0, as the clocks of two machines may differ; None: unknown), ``readable`` (by this
    version of ragmeter), ``service`` (the application's ``service.name``), the ``ids`` of its requests and, on
    request, their ``texts``: questions, chunks and answers.
    """
    now_ns = time.time_ns()
    return [_letter(one, now_ns, with_text=with_text) for one in queue.dead(limit)]


def _letter(dead: DeadLetter, now_ns: int, *, with_text: bool) -> dict[str, Any]:
    batch: MessageContent | None = None
    with suppress(UnreadableError):
        batch = unpack(dead.body)
    runs = () if batch is None else batch.runs
    letter: dict[str, Any] = {
        "reason": dead.reason,
        "deaths": dead.deaths,
        "age_s": None if dead.dead_ns is None else max(0.0, (now_ns - dead.dead_ns) / 1e9),
        "readable": batch is not None and not batch.unreadable,
        "service": None if batch is None else batch.resource.get("service.name"),
        "ids": [sent.run.run_id for sent in runs],
    }
    if with_text:
        letter["texts"] = [sent.run.sample.model_dump(mode="json", exclude_unset=True) for sent in runs]
    return letter


def print_status(status: QueueStatus, console: Console) -> None:
    """Print the counts, one per line."""
    console.print(f"{status.waiting} messages wait to be scored, up to 32 requests each")
    console.print(f"{status.dead} messages are dead letters")
    if status.workers is not None:
        console.print(f"{status.workers} workers are connected")
    for name in status.differing:
        console.print(
            f"{name} was declared with other bounds than ragmeter's; it is used as it is",
            style="yellow",
            markup=False,
        )


def print_letters(found: Sequence[Mapping[str, Any]], console: Console) -> None:
    """Print the letters, oldest first."""
    if not found:
        console.print("no dead letters")
        return
    table = Table("dead for", "deaths", "service", "requests", "reason", box=None, pad_edge=False)
    for one in found:
        ids, more = ", ".join(one["ids"][:3]), len(one["ids"]) - 3
        table.add_row(
            _age(one["age_s"]),
            str(one["deaths"]),
            one["service"] or "–",
            ids + (f", and {more} more" if more > 0 else "") if one["readable"] or ids else "unreadable",
            one["reason"],
        )
    console.print(table, markup=False)
    for one in found:
        for named, text in zip(one["ids"], one.get("texts", ()), strict=False):
            console.print(f"{named}:", style="bold", markup=False)
            console.print(json.dumps(text, ensure_ascii=False, indent=2), markup=False, highlight=False)


def _age(seconds: float | None) -> str:
    if seconds is None:
        return "–"
    for size, unit in _UNITS:
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"
