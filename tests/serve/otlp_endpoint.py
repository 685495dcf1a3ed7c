"""An OTLP/HTTP endpoint with configurable responses, and its requests."""

import threading
from itertools import chain, repeat

from loopback_server import LoopbackServer
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


class Endpoint(LoopbackServer):
    """An OTLP/HTTP endpoint that sends its configured responses, then 200."""

    def __init__(self, *answers, answer_body=b""):
        self.bodies, self.headers, self.paths = [], [], []
        self.attempts = 0
        self.gate = threading.Event()
        self.gate.set()
        self.answers = chain(answers, repeat(200))
        self.answer_body = answer_body
        super().__init__()

    def reply(self, received):
        self.gate.wait(PATIENCE_S)
        self.attempts += 1
        answer = next(self.answers)
        if callable(answer):
            answer = answer(received.body)
        if answer == HANG_UP:
            return None
        if answer == 200:
            self.bodies.append(received.body)
            self.headers.append(dict(received.headers))
            self.paths.append(received.path)
            return 200, self.answer_body, {}
        return answer, b"", {"Retry-After": "0"} if answer in (429, 503) else {}

    def close(self):
        self.gate.set()
        super().close()
