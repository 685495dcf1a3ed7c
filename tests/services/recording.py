"""A relay on loopback that stores every exchange with a judge, so that scores can be checked against it."""

import json
import threading
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
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


class Recording:
    """Passes every POST on to `target`. Use as a context manager; `url` is the address for clients."""

    def __init__(self, target, key="none"):
        self.exchanges = []
        recording = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                raw = self.rfile.read(int(self.headers["content-length"]))
                sent = {"content-type": "application/json", "authorization": f"Bearer {key}"}
                address = target + self.path.removeprefix("/v1")
                try:
                    reply = httpx.post(address, content=raw, headers=sent, timeout=300)
                except httpx.HTTPError:
                    self.close_connection = True  # the server is gone, and so is the client
                    return
                recording.exchanges.append(exchange(self.path, raw, reply))
                self.send_response(reply.status_code)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(reply.content)))
                self.end_headers()
                self.wfile.write(reply.content)

            def log_message(self, *_):
                """Do nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def __enter__(self):
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(60)


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
