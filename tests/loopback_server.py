"""HTTP servers on loopback, for tests."""

import ssl
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

__all__ = ["LoopbackServer", "Received"]


class Received(NamedTuple):
    """A request as the server received it."""

    path: str
    headers: Any
    body: bytes
    method: str


class LoopbackServer:
    """Answers each request with `reply`, from its construction on. Close it, or use it as a context manager.

    Args:
        reply: Returns a status; or status, content and headers; or None to hang up. None: the subclass's.
        tls: The server's certificate; None: no TLS.
    """

    protocol = "HTTP/1.0"
    path = ""
    """End of the address."""

    def __init__(self, reply: "Callable[[Received], Any] | None" = None, tls: "ssl.SSLContext | None" = None):
        answer = reply or self.reply

        class Handler(BaseHTTPRequestHandler):
            protocol_version = self.protocol

            def do_POST(self) -> None:
                found = answer(Received(self.path, self.headers, self.body(), self.command))
                if found is None:
                    self.close_connection = True
                    return
                status, content, headers = (found, b"", {}) if isinstance(found, int) else found
                self.send_response(status)
                for name, value in {**headers, "Content-Length": str(len(content))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(content)

            do_GET = do_PUT = do_POST  # noqa: N815 -- as the standard library calls them

            def body(self) -> bytes:
                if self.headers.get("Transfer-Encoding", "") != "chunked":
                    return self.rfile.read(int(self.headers.get("Content-Length", 0)))
                parts = []
                while size := int(self.rfile.readline(), 16):
                    parts.append(self.rfile.read(size))
                    self.rfile.readline()
                self.rfile.readline()
                return b"".join(parts)

            def log_message(self, *_: object) -> None:
                """Do nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        if tls is not None:
            plain = self._server.socket
            self._server.socket = tls.wrap_socket(plain, server_side=True, do_handshake_on_connect=False)
        self.port = self._server.server_port
        self.url = f"http{'s' if tls else ''}://127.0.0.1:{self.port}{self.path}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    def reply(self, received: Received) -> Any:
        """Return the response to a request."""
        raise NotImplementedError

    def close(self) -> None:
        """Stop answering; connections are refused from now on."""
        if self._thread.is_alive():
            self._server.shutdown()
            self._server.server_close()
            self._thread.join(60)

    def __enter__(self) -> "Any":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
