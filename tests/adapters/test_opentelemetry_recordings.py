"""What real instrumentations sent gives exactly the requests that were made."""

import base64
import json
import random

import pytest
from google.protobuf.json_format import MessageToDict
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from otlp_recordings import TOOLS, cases, expected, faults

from ragmeter.adapters.opentelemetry.assembly import TraceAssembler
from ragmeter.adapters.opentelemetry.otlp import read_protobuf
from ragmeter.adapters.opentelemetry.requests import read_trace
from ragmeter.adapters.reading.results import as_tools
from ragmeter.cli.spans import as_row, read_recording

CASES = cases()


@pytest.mark.parametrize("name", CASES)
def test_files_at_once_give_what_is_expected(name):
    files = sorted(CASES[name].glob("*.pb"))

    recording = read_recording(files, as_tools(TOOLS))

    assert faults(map(as_row, recording.requests), expected(CASES[name])) == []
    assert recording.bad == []


@pytest.mark.parametrize("name", CASES)
def test_file_by_file_with_seconds_between_them_gives_the_same(name):
    """Each request is delivered once: what a trace waits for is known from its spans."""
    now, found, times = [0.0], {}, []

    def deliver(trace):
        times.append(trace.late)
        for one in read_trace(trace.spans, trace.logs, as_tools(TOOLS)).requests:
            found[one.key] = as_row(one)

    assembler = TraceAssembler(deliver, clock=lambda: now[0])
    for file in sorted(CASES[name].glob("*.pb")):
        received = read_protobuf(file.read_bytes())
        assembler.add(received.spans, received.logs)
        now[0] += 5
        assembler.tick()
    assembler.drain()

    assert faults(found.values(), expected(CASES[name])) == []
    stats = assembler.stats()
    assert stats.spans == stats.delivered + sum(stats.lost.values()) + stats.open


def _hex_ids(value):
    if isinstance(value, list):
        return [_hex_ids(item) for item in value]
    if isinstance(value, dict):
        return {
            key: base64.b64decode(item).hex()
            if key in ("traceId", "spanId", "parentSpanId")
            else _hex_ids(item)
            for key, item in value.items()
        }
    return value


def _as_json(file):
    kind = ExportLogsServiceRequest if ".logs." in file.name else ExportTraceServiceRequest
    return json.dumps(_hex_ids(MessageToDict(kind.FromString(file.read_bytes()))))


@pytest.mark.parametrize("name", CASES)
def test_a_collectors_file_gives_the_same(name, tmp_path):
    lines = [_as_json(file) for file in sorted(CASES[name].glob("*.pb"))]
    (tmp_path / "traces.jsonl").write_text("\n".join(lines), encoding="utf-8")

    recording = read_recording([tmp_path / "traces.jsonl"], as_tools(TOOLS))

    assert faults(map(as_row, recording.requests), expected(CASES[name])) == []


def _shuffled(spans, chance):
    """The same spans in another order, each with its attributes in another order."""
    for span in spans:
        attributes = list(span.attributes.items())
        chance.shuffle(attributes)
        object.__setattr__(span, "attributes", dict(attributes))
    chance.shuffle(spans)
    return spans


@pytest.mark.parametrize("name", CASES)
def test_the_order_of_spans_attributes_and_batches_does_not_matter(name):
    chance = random.Random(name)
    received = [read_protobuf(file.read_bytes()) for file in sorted(CASES[name].glob("*.pb"))]
    spans = _shuffled([span for one in received for span in one.spans], chance)
    found = []
    assembler = TraceAssembler(
        lambda trace: found.extend(read_trace(trace.spans, trace.logs, as_tools(TOOLS)).requests)
    )
    assembler.add([], [note for one in received for note in one.logs])
    while spans:
        size = chance.randint(1, 7)
        assembler.add(spans[:size])
        del spans[:size]
    assembler.drain()

    assert faults(map(as_row, found), expected(CASES[name])) == []


def test_without_a_rule_a_tool_retrieves_if_the_model_was_sent_its_passages():
    folder = CASES["pydantic-ai-own-py/two_retrievals"]

    recording = read_recording(sorted(folder.glob("*.pb")))

    assert faults(map(as_row, recording.requests), expected(folder)) == []
