"""A real local HTTP server that takes JSON and answers JSON, as a test's subclass says."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class JsonServer:
    """The server. Use as a context manager.

    Attributes:
        requests: Paths, headers and bodies so far.
    """

    def __init__(self):
        self.requests = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                server.requests.append((self.path, {k.lower(): v for k, v in self.headers.items()}, body))
                status, reply, headers = server.reply(body)
                raw = json.dumps(reply).encode()
                self.send_response(status)
                for name, value in {**headers, "content-length": str(len(raw))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(raw)

            def log_message(self, *_):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def reply(self, body):
        """Return status, reply and headers."""
        raise NotImplementedError

    @property
    def url(self):
        return f"http://127.0.0.1:{self._server.server_port}/v1"

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(60)
