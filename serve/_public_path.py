"""The path under which a proxy in front shows the server, as in ``https://ops.example/ragmeter/``.

The server itself knows no such path: it is taken from the addresses of requests, whether or not the proxy has
done so already, and added to those in answers. `Front` calls this before anything else looks at a request.
"""

from __future__ import annotations

import os
import re
from urllib.parse import quote, urlsplit

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_LINK = re.compile(rb'(?<= )((?:href|src|action)=")/(?!/)')
"""An address on this server in a page. Texts of others have no quotation mark: it is escaped."""


def public_address(given: str | None) -> str:
    """Return the page's public address without its last slash; empty: none."""
    # Not from the settings: the page is there before they are read.
    return (given or os.environ.get("RAGMETER_PAGE_URL") or "").rstrip("/")


def under(address: str, application: ASGIApp) -> ASGIApp:
    """Return the application as it is seen under the path of an address."""
    path = quote(urlsplit(address).path, safe="/%:@!$&'()*+,;=~")

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        if scope.get("path", "").startswith(f"{path}/") or scope.get("path") == path:
            scope = {**scope, "path": scope["path"][len(path) :] or "/"}
        begun: list[Message] = []

        async def send_changed(message: Message) -> None:
            if message["type"] == "http.response.start":
                # Other applications of the host have no business with the token.
                message["headers"] = [
                    (name, said.replace(b"; Path=/", f"; Path={path}/".encode()))
                    for name, said in message["headers"]
                ]
                headers = MutableHeaders(scope=message)
                if headers.get("location", "").startswith("/"):
                    headers["location"] = path + headers["location"]
                if headers.get("content-type", "").startswith("text/html"):
                    begun.append(message)
                    return
            elif begun:
                # A page is a single piece.
                start = begun.pop()
                message = {
                    **message,
                    "body": _LINK.sub(rb"\1" + path.encode() + b"/", message.get("body", b"")),
                }
                MutableHeaders(scope=start)["content-length"] = str(len(message["body"]))
                await send(start)
            await send(message)

        await application(scope, receive, send_changed)

    return answer if path else application
