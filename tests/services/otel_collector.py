"""A real OpenTelemetry Collector for the tests, on loopback, with a configuration from ragmeter's pages."""

import json
import re
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import yaml
from otlp_receiver import attributes_of
from processes import free_port, listening_addresses, running, wait_until

DOCS = Path(__file__).parents[2] / "docs"
READY = "Everything is ready"
ARRIVED_S = 240
"""Seconds within which sent data must arrive, on a busy machine."""


def shown_on(page, heading):
    """Return the first Collector configuration below a heading of a page."""
    text = (DOCS / page).read_text(encoding="utf-8")
    below = text[re.search(rf"^#+ {heading}$", text, re.MULTILINE).start() :]
    return yaml.safe_load(re.search(r"^```yaml\n(.*?)^```", below, re.MULTILINE | re.DOTALL)[1])


def listening_here(config, receiver):
    """Move a receiver to free ports of loopback; return its HTTP and gRPC addresses."""
    protocols = config["receivers"][receiver]["protocols"]
    http, grpc = free_port(), free_port()
    protocols["http"]["endpoint"] = f"127.0.0.1:{http}"
    protocols["grpc"]["endpoint"] = f"127.0.0.1:{grpc}"
    return f"http://127.0.0.1:{http}", f"127.0.0.1:{grpc}"


def deciding_at_the_end(config):
    """Let the sampler decide only when the Collector ends, so that a slow machine has no influence."""
    config["processors"]["tail_sampling"]["decision_wait"] = "1h"


@contextmanager
def collecting(program, config, folder):
    """Run a Collector until the block ends; enter it when it accepts spans.

    Args:
        program: The Collector's program.
        config: Its configuration; its own metrics are added to it.
        folder: An empty folder for its file and its log.
    """
    port = free_port()
    reader = {"pull": {"exporter": {"prometheus": {"host": "127.0.0.1", "port": port}}}}
    service = {**config["service"], "telemetry": {"metrics": {"readers": [reader]}}}
    folder.mkdir(parents=True, exist_ok=True)
    file, log = folder / "collector.yaml", folder / "log"
    file.write_text(json.dumps({**config, "service": service}), encoding="utf-8")
    metrics = f"http://127.0.0.1:{port}/metrics"
    with running([program, "--config", str(file)], log, metrics, timeout_s=120) as process:
        wait_until(lambda: READY in log.read_text(errors="replace"), 60, "the Collector is not ready")
        assert all(address.is_loopback for address, _ in listening_addresses(process.pid))
        yield


@dataclass
class Seen:
    """A span that arrived, and its sender."""

    service: str
    """The span's service; for scores: the service of the scored requests."""
    instance: str | None
    """The process that sent it, if it reports one."""
    trace_id: str
    span_id: str
    parent_id: str
    name: str
    attributes: dict

    @property
    def verdict(self):
        return self.attributes.get("ragmeter.verdict")

    @property
    def scores(self):
        return {
            key: value
            for key, value in self.attributes.items()
            if key.startswith(("ragmeter.score.", "ragmeter.verdict"))
        }


def spans_of(receiver):
    """Return all data sent to a receiver, in the order of arrival."""
    return [
        Seen(
            attributes_of(resource.resource).get("service.name"),
            attributes_of(resource.resource).get("service.instance.id"),
            span.trace_id.hex(),
            span.span_id.hex(),
            span.parent_span_id.hex(),
            span.name,
            attributes_of(span),
        )
        for request in list(receiver.traces)
        for resource in request.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]
