"""Responses after which a connection is closed although part of the request may still arrive."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from starlette.responses import Response

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

LINGER_S = 5.0
"""Seconds for which the rest of a refused request is received and dropped."""


class LingeringResponse(Response):
    """A response to a request whose body was not read completely.

    The connection is closed when the rest has arrived, or soon. Closed at once it would be reset: many
    senders read the response only after sending everything, and a reset would lose it.
    """

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        """Send the response, receive the rest of the request, then end."""
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        await send({"type": "http.response.body", "body": self.body, "more_body": True})
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(_drop(receive), LINGER_S)
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _drop(receive: Receive) -> None:
    while (await receive()).get("more_body", False):
        pass
