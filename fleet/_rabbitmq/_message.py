"""What a message looks like on the wire: the packed requests as they are, with the headers Celery reads.

Celery's message protocol 2 (docs.celeryq.dev, "Message Protocol") wants a task's name and id among the headers,
and its arguments in the body.  Ours has one argument, the bytes themselves, so the body is nothing but these,
and an application needs no Celery to publish.  The text of a request stands in no header: Celery logs headers.
"""

from __future__ import annotations

import time
from typing import Any
from uuid import uuid4

import amqp

__all__ = [
    "CONTENT_TYPE",
    "DEATHS",
    "ENCODING",
    "REASON",
    "TASK",
    "deaths_of",
    "headers_of",
    "message",
    "ours",
]

TASK = "ragmeter.score"
CONTENT_TYPE = "application/x-ragmeter-json-z"
ENCODING = "binary"
DEATHS = "ragmeter-deaths"
"""Header: how often a message was handed out in vain before it was split into this one and others."""
REASON = "ragmeter-reason"
"""Header of a dead letter that a worker wrote: why."""
COUNT = "ragmeter-requests"
"""Header: how many requests are in it."""
_DELIVERIES = "x-delivery-count"


def message(body: bytes, *, count: int, deaths: int = 0, reason: str | None = None) -> amqp.Message:
    """Return what is published, to be kept on the broker's disk."""
    named = str(uuid4())
    headers: dict[str, Any] = {"task": TASK, "id": named, "lang": "py", COUNT: count}
    if deaths:
        headers[DEATHS] = deaths
    if reason is not None:
        headers[REASON] = reason
    return amqp.Message(
        body,
        content_type=CONTENT_TYPE,
        content_encoding=ENCODING,
        delivery_mode=2,
        timestamp=int(time.time()),
        message_id=named,
        correlation_id=named,
        application_headers=headers,
    )


def headers_of(received: amqp.Message) -> dict[str, Any]:
    """Return a message's headers; empty when it has none."""
    return dict(received.properties.get("application_headers") or {})


def ours(content_type: object, headers: object) -> bool:
    """Return whether a message looks like one that `message` made."""
    return (
        content_type == CONTENT_TYPE
        and isinstance(headers, dict)
        and headers.get("task") == TASK
        and isinstance(headers.get("id"), str)
    )


def deaths_of(headers: dict[str, Any]) -> int:
    """Return how often a message was handed out in vain, in this queue and before it was split."""
    return _whole(headers.get(_DELIVERIES)) + _whole(headers.get(DEATHS))


def _whole(value: object) -> int:
    return value if isinstance(value, int) and value > 0 else 0
