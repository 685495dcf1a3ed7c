"""A real server on free ports, with a meter that stores its results, and its senders."""

import threading
from contextlib import contextmanager
from pathlib import Path

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from waiting import until

from ragmeter import RagMeter
from ragmeter.exporters.memory import InMemoryExporter
from ragmeter.serve import ServeOptions, Server

__all__ = ["FULL", "PATIENCE_S", "RECORDED", "Served", "Stuck", "served", "traced_as", "until"]

RECORDED = Path(__file__).parent.parent / "adapters" / "recorded_spans"
FULL = RECORDED / "openinference-langchain-py" / "reranked" / "001.traces.pb"
PATIENCE_S = 60.0


class Served:
    """A running server."""

    def __init__(self, server, results):
        self.server = server
        self._results = results
        self.url = f"http://127.0.0.1:{server.http_port}"
        self.grpc = f"127.0.0.1:{server.grpc_port}"

    def drained(self):
        """Have all received requests scored, and return the scored runs."""
        assert self.server.stop(PATIENCE_S)
        return self._results.results

    def __getattr__(self, name):
        return getattr(self.server, name)


@contextmanager
def served(**options):
    """Run a server for the block."""
    results = InMemoryExporter()
    meter = RagMeter(exporters=[results])
    given = {"http_port": 0, "grpc_port": 0, "grace_s": 0.0, "idle_s": 600.0}
    server = Server(ServeOptions(**given | options), meter=meter)
    server.start()
    try:
        yield Served(server, results)
    finally:
        server.stop(PATIENCE_S)
        meter.shutdown(PATIENCE_S)


class Stuck:
    """An exporter that blocks until it is released."""

    def __init__(self):
        self.go = threading.Event()
        self.taken = []

    def export(self, batch):
        self.go.wait(PATIENCE_S)
        self.taken.extend(batch)

    def flush(self, timeout_s):
        return self.go.is_set()

    def shutdown(self, timeout_s):
        pass


def traced_as(number, path=FULL):
    """Return a recorded request under another trace id, and that id."""
    trace_id = number.to_bytes(16, "big")
    request = ExportTraceServiceRequest.FromString(path.read_bytes())
    for group in request.resource_spans:
        for scoped in group.scope_spans:
            for span in scoped.spans:
                span.trace_id = trace_id
    return request.SerializeToString(), trace_id.hex()
