"""Answers after which a connection is closed although part of the request may still be on its way."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from starlette.responses import Response

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

LINGER_S = 5.0
"""Seconds for which the rest of a refused request is received, and dropped."""


class LingeringResponse(Response):
    """An answer to a request whose body was not read to its end.

    The connection is closed when the rest has come, or soon. Closed at once it would be reset: many senders
    read an answer only once they have sent everything, and a reset loses it on the way to them.
    """

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        """Send the answer whole, receive what still comes, then end."""
        await send(
            {
                "type": "http.response.start",
                "status": self.status_code,
                "headers": self.raw_headers,
            }
        )
        await send({"type": "http.response.body", "body": self.body, "more_body": True})
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(_drop(receive), LINGER_S)
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _drop(receive: Receive) -> None:
    while (await receive()).get("more_body", False):
        pass
