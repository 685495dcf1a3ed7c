"""A real local HTTP server that takes JSON and answers JSON, as a test's subclass says."""

import json

from loopback_server import LoopbackServer


class JsonServer(LoopbackServer):
    """The server. Use as a context manager.

    Attributes:
        requests: Paths, headers and bodies so far.
    """

    path = "/v1"

    def __init__(self):
        self.requests = []
        super().__init__()

    def reply(self, received):
        body = json.loads(received.body)
        self.requests.append((received.path, {k.lower(): v for k, v in received.headers.items()}, body))
        status, reply, headers = self.answer_to(body)
        return status, json.dumps(reply).encode(), headers

    def answer_to(self, body):
        """Return status, reply and headers."""
        raise NotImplementedError
