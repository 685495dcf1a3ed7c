"""An OTLP/HTTP endpoint with configurable responses, and its requests."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import chain, repeat

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from served import PATIENCE_S

HANG_UP = 0
"""No response."""


def request_of(*names, padding=0):
    """Return an export request with a field that no version of the protocol has."""
    request = ExportTraceServiceRequest()
    for name in names:
        span = request.resource_spans.add().scope_spans.add().spans.add()
        span.name = name
        span.trace_state = "x" * padding
    return request.SerializeToString() + b"\xfa\x3f\x03new"


def names_in(bodies):
    return [
        span.name
        for body in bodies
        for group in ExportTraceServiceRequest.FromString(body).resource_spans
        for scoped in group.scope_spans
        for span in scoped.spans
    ]


class Endpoint:
    """An OTLP/HTTP endpoint that sends its configured responses, then 200."""

    def __init__(self, *answers, answer_body=b""):
        self.bodies, self.headers, self.paths = [], [], []
        self.attempts = 0
        self.gate = threading.Event()
        self.gate.set()
        self.answers = chain(answers, repeat(200))
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                endpoint.gate.wait(PATIENCE_S)
                endpoint.attempts += 1
                answer = next(endpoint.answers)
                if callable(answer):
                    answer = answer(body)
                if answer == HANG_UP:
                    self.close_connection = True
                    return
                if answer == 200:
                    endpoint.bodies.append(body)
                    endpoint.headers.append(dict(self.headers))
                    endpoint.paths.append(self.path)
                self.send_response(answer)
                if answer in (429, 503):
                    self.send_header("Retry-After", "0")
                content = answer_body if answer == 200 else b""
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.port = self.server.server_address[1]
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True)
        self.thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.gate.set()
        self.server.shutdown()
        self.server.server_close()
        self.thread.join(PATIENCE_S)
