"""The wire format of a message: packed requests with the headers that Celery reads.

Celery's message protocol 2 (docs.celeryq.dev, "Message Protocol") has a task's name and id in the headers,
and its arguments in the body. Our task has one argument, the bytes, which are the body, so an application can
publish without Celery. No header has text of a request: Celery logs headers.
"""

from __future__ import annotations

import time
from typing import Any
from uuid import uuid4

import amqp

TASK = "ragmeter.score"
CONTENT_TYPE = "application/x-ragmeter-json-z"
ENCODING = "binary"
DEATHS = "ragmeter-deaths"
"""Header: failed deliveries of the message that this one was split from."""
REASON = "ragmeter-reason"
"""Header: the reason of a dead letter written by a worker."""
COUNT = "ragmeter-requests"
"""Header: number of requests."""
_DELIVERIES = "x-delivery-count"


def message(body: bytes, *, count: int, deaths: int = 0, reason: str | None = None) -> amqp.Message:
    """Return a persistent message to publish."""
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
    """Return a message's headers, or {}."""
    return dict(received.properties.get("application_headers") or {})


def ours(content_type: object, headers: object) -> bool:
    """Return whether a message looks like one made by `message`."""
    return (
        content_type == CONTENT_TYPE
        and isinstance(headers, dict)
        and headers.get("task") == TASK
        and isinstance(headers.get("id"), str)
    )


def deaths_of(headers: dict[str, Any]) -> int:
    """Return the failed deliveries of a message, in this queue and before it was split."""
    return _whole(headers.get(_DELIVERIES)) + _whole(headers.get(DEATHS))


def _whole(value: object) -> int:
    return value if isinstance(value, int) and value > 0 else 0
