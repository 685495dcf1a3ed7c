"""An HTTP server on loopback for the duration of a test."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

__all__ = ["QuietHandler", "loopback_server"]


class QuietHandler(BaseHTTPRequestHandler):
    """A handler that logs no requests, and answers with only a status."""

    def answer(self, status: int, **headers: str) -> bytes:
        """Respond with only a status; return the body of the request."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(status)
        self.send_header("Content-Length", "0")
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        return body

    def log_message(self, *_: object) -> None:
        """Do nothing."""


@contextmanager
def loopback_server(handler: type[BaseHTTPRequestHandler]) -> Iterator[ThreadingHTTPServer]:
    """Serve on a free port; `server.url` is its address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    server.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join(60)
