"""A relay on loopback that stores every exchange with a judge, so that scores can be checked against it."""

import json
from dataclasses import dataclass

import httpx
from loopback_server import LoopbackServer
from openai_server import Request


@dataclass
class Exchange:
    """A request, and the model's reply."""

    request: Request
    status: int
    text: str
    finish: str
    usage: dict
    """Tokens, as counted by the server."""

    @property
    def said(self):
        """The reply as an object, or None if it is not one."""
        try:
            reply = json.loads(self.text)
        except ValueError:
            return None
        return reply if isinstance(reply, dict) else None


class Recording(LoopbackServer):
    """Passes every POST on to `target`. Use as a context manager; `url` is the address for clients."""

    protocol, path = "HTTP/1.1", "/v1"

    def __init__(self, target, key="none"):
        self.exchanges = []
        self._target, self._key = target, key
        super().__init__()

    def reply(self, received):
        sent = {"content-type": "application/json", "authorization": f"Bearer {self._key}"}
        address = self._target + received.path.removeprefix("/v1")
        try:
            reply = httpx.post(address, content=received.body, headers=sent, timeout=300)
        except httpx.HTTPError:
            return None  # the server is gone, and so is the client
        self.exchanges.append(exchange(received.path, received.body, reply))
        return reply.status_code, reply.content, {"content-type": "application/json"}


def exchange(path, raw, reply):
    """Return the exchange of a request and a server's response."""
    request = Request(path, {}, json.loads(raw))
    try:
        completion = reply.json()
        choice = completion["choices"][0]
        text, finish = choice["message"]["content"] or "", choice["finish_reason"]
        return Exchange(request, reply.status_code, text, finish, completion["usage"])
    except (ValueError, LookupError, TypeError):
        return Exchange(request, reply.status_code, "", "error", {})
