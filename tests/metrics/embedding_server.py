"""A real local HTTP server that speaks the OpenAI embeddings API, and misbehaves on request."""

import json
import threading
from collections import deque
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def vector_of(text):
    """Return a vector that depends on the words of a text; the same words, the same direction."""
    numbers = [0.0] * 16
    for word in text.lower().replace("?", " ").replace(".", " ").split():
        numbers[sum(map(ord, word)) % 16] += 1.0
    return [*numbers, 0.1]


class EmbeddingServer:
    """The server. Use as a context manager; `url` is what to pass as ``base_url``.

    Attributes:
        script: Replies to send first, in order: (status, body, headers), or a function of the texts that
            returns the rows.
        requests: Headers and bodies so far.
        most_texts: Maximum texts in one call; more are rejected with 413.
    """

    def __init__(self):
        self.script = deque()
        self.requests = []
        self.refused = ""
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
        if self.refused and any(self.refused in text for text in body["input"]):
            return 400, {"error": {"message": "input is too long", "code": None}}, {}
        if self.script:
            step = self.script.popleft()
            if callable(step):
                return 200, {"data": step(body["input"])}, {}
            return step
        return 200, {"data": rows(body["input"])}, {}

    @property
    def url(self):
        return f"http://127.0.0.1:{self._server.server_port}/v1"

    @property
    def texts(self):
        return [body["input"] for _, _, body in self.requests]

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(60)


def rows(texts):
    """Return the rows, last first: the API does not guarantee an order."""
    made = [{"index": n, "embedding": vector_of(text)} for n, text in enumerate(texts)]
    return made[::-1]
