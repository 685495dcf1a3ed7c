"""The work of ``ragmeter queue``, for any engine. Prints nothing."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from ragmeter.fleet.payload import MessageContent, UnreadableError, unpack
from ragmeter.fleet.queue import DeadLetter, Queue, open_queue
from ragmeter.metrics import ConfigurationError

__all__ = ["Letter", "letters", "queue_at"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Letter:
    """A dead letter, as shown."""

    reason: str
    """Reason why it is no longer retried."""
    deaths: int
    """Number of workers that ended, or failed, while they had it."""
    age_s: float | None
    """Seconds since its death, at least 0, as the clocks of two machines may differ; None: unknown."""
    readable: bool
    """Whether this version of ragmeter can read it."""
    service: str | None = None
    """The ``service.name`` of the application that sent it."""
    ids: Sequence[str] = ()
    """Ids of its requests."""
    texts: Sequence[dict[str, Any]] | None = None
    """Questions, chunks and answers; None unless requested."""


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


def letters(queue: Queue, limit: int, *, with_text: bool, now_ns: int | None = None) -> list[Letter]:
    """Return the oldest dead letters, without their content unless `with_text`."""
    now_ns = time.time_ns() if now_ns is None else now_ns
    return [_letter(one, now_ns, with_text=with_text) for one in queue.dead(limit)]


def _letter(dead: DeadLetter, now_ns: int, *, with_text: bool) -> Letter:
    batch: MessageContent | None = None
    with suppress(UnreadableError):
        batch = unpack(dead.body)
    runs = () if batch is None else batch.runs
    return Letter(
        reason=dead.reason,
        deaths=dead.deaths,
        age_s=None if dead.dead_ns is None else max(0.0, (now_ns - dead.dead_ns) / 1e9),
        readable=batch is not None and not batch.unreadable,
        service=None if batch is None else batch.resource.get("service.name"),
        ids=[sent.run.run_id for sent in runs],
        texts=[sent.run.sample.model_dump(mode="json", exclude_unset=True) for sent in runs]
        if with_text
        else None,
    )
