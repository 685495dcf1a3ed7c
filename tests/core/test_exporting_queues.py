"""What exporters lose is counted exactly, run by run."""

import pytest
from fakes_core import context_tally
from memory_sdk import memory_sdk

from ragmeter import RagMeter
from ragmeter.exporters.jsonl import JsonlExporter
from ragmeter.exporters.memory import InMemoryExporter
from ragmeter.exporters.otel import OpenTelemetryExporter
from ragmeter.exporters.protocol import RunsLostError, WriteCount
from ragmeter.metrics import RagSample


def _filled(exporter, questions):
    meter = RagMeter(metrics=[context_tally], exporters=[exporter])
    for question in questions:
        meter.submit(RagSample(question=question, contexts=["a"]))
    meter.flush(60)
    return meter


@pytest.mark.contains_errors
def test_one_bad_run_loses_only_itself(monkeypatch):
    """The exporter tells how many of a batch it lost; the others are not counted with it."""

    def outgoing(text):
        if text == "bad":
            raise LookupError
        return text

    monkeypatch.setattr("ragmeter.exporters.otel._attributes.outgoing", outgoing)
    sdk = memory_sdk()
    exporter = OpenTelemetryExporter(tracer_provider=sdk.tracer_provider, capture_content=True)

    meter = _filled(exporter, ["good"] * 40 + ["bad"] + ["good"] * 40)

    written = [s for s in sdk.all_spans() if s.name.startswith("invoke_workflow")]
    assert meter.stats().export_errors == {"OpenTelemetryExporter": 1}
    assert (meter.stats().exported, meter.stats().dropped) == (80, {"export": 1})
    assert len({s.attributes["ragmeter.run_id"] for s in written}) == 80


def test_a_batch_that_fails_as_a_whole_keeps_its_own_error():
    with pytest.raises(OSError, match="full"), WriteCount([1, 2]):
        raise OSError("full")


def test_a_batch_that_fails_in_part_says_how_much():
    with pytest.raises(RunsLostError) as caught, WriteCount([1, 2, 3]) as written:
        written.add()
        raise OSError("full")
    assert caught.value.lost == 2
    with pytest.raises(KeyboardInterrupt), WriteCount([1, 2]) as written:
        written.add()
        raise KeyboardInterrupt


def test_lone_surrogates_and_odd_metadata_lose_no_request(tmp_path):
    """What stores and users put into texts and keys: scored, and written by every exporter."""
    memory = InMemoryExporter()
    path = tmp_path / "scores.jsonl"
    jsonl = JsonlExporter(path, include_content=True)
    telemetry = OpenTelemetryExporter(**memory_sdk().providers, capture_content=True)
    meter = RagMeter(exporters=[memory, jsonl, telemetry])
    odd = {"text": "a \ud800 lone one", "id": "\udfff", "metadata": {1: "\ud800", (2,): {3}}}

    meter.submit(RagSample(question="wh\ud800?", contexts=[odd], answer="\udc80"))
    with meter.request("wh\ud800?", user_id="\ud800", metadata={4: "\udfff"}) as request:
        request.retrieved(["\ud800"])
        request.answered("\udfff")
    assert meter.flush(60)

    assert len(memory.results) == 2
    assert len(path.read_text(encoding="utf-8").splitlines()) == 2
    assert meter.stats().export_errors == {}
    assert set(memory.results[0].sample.contexts[0].metadata) == {"1", "(2,)"}


def test_an_answer_that_is_no_text_is_turned_into_one():
    """A model's message told as the answer: its content; anything else: its text."""

    class Message:
        content = "Here."

    memory = InMemoryExporter()
    meter = RagMeter(metrics=[context_tally], exporters=[memory])
    for answer in (Message(), 42):
        with meter.request("q") as request:
            request.retrieved(["a"])
            request.answered(answer)
    meter.flush(60)

    assert [result.sample.answer for result in memory.results] == ["Here.", "42"]
