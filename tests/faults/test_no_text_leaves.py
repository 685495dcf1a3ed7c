"""Whatever fails on the way, no text of a request reaches a log, telemetry, a repr or a pickle.

A marker stands in every text of a request; everything a user can plug in raises with that text in
its message, as real hooks do (``KeyError(question)``). Nothing may repeat it.
"""

import json
import logging
import pickle

import pytest
from memory_sdk import memory_sdk

from ragmeter import RagMeter, Scoring
from ragmeter.exporters.jsonl import JsonlExporter
from ragmeter.exporters.memory import InMemoryExporter
from ragmeter.exporters.otel import OpenTelemetryExporter
from ragmeter.metrics import RagSample, metric
from ragmeter.metrics.judge import CountingJudge

pytestmark = pytest.mark.contains_errors

MARKER = "Xyzzyplugh"


def said(*parts):
    """Return a text with the marker, as an application's hook would quote it."""
    return f"cannot look up {MARKER} {' '.join(map(str, parts))}"


class HookError(Exception):
    """An error class of the application's own."""


def _references(question):
    raise KeyError(said(question))


def _redact(text):
    raise HookError(said(text))


@metric(name="mine", needs=("answer",))
def _metric(sample):
    raise ValueError(said(sample.answer))


class _Exporter:
    def export(self, batch):
        raise RuntimeError(said(batch[0].sample.question))

    def flush(self, timeout_s):
        raise RuntimeError(said())

    def shutdown(self, timeout_s):
        raise RuntimeError(said())


class _Judge(CountingJudge):
    """Raises with the prompt in the message."""

    model = "fake"

    async def ask(self, ask, *more, **options):
        raise HookError(said(ask))


def everything(sdk):
    """Return all telemetry as text."""
    spans = "".join(span.to_json() for span in sdk.all_spans())
    return f"{spans} {sdk.records()!r} {sdk.points()!r}"


COMPONENTS = {
    "references": {"references": _references},
    "redact": {"scoring": Scoring(redact=_redact)},
    "metric": {"metrics": [_metric, "retrieval_health"]},
    "exporter": {},
    "judge": {"metrics": ["faithfulness", "retrieval_health"], "judge": _Judge()},
}


@pytest.mark.parametrize("component", COMPONENTS)
def test_a_failing_hook_is_named_by_its_class_only(component, caplog, tmp_path):
    """In logs of every level, spans, events, metrics, JSONL, reprs and explanations."""
    telemetry = memory_sdk()
    memory = InMemoryExporter()
    lines = tmp_path / "scores.jsonl"
    exporters = [OpenTelemetryExporter(**telemetry.providers), JsonlExporter(lines), memory]
    if component == "exporter":
        exporters.append(_Exporter())
    sample = RagSample(
        question=f"Where is {MARKER}?",
        contexts=(f"{MARKER} stands in Paris.",),
        answer=f"{MARKER} is in Paris.",
    )
    with caplog.at_level(logging.DEBUG):
        meter = RagMeter(exporters=exporters, **{"metrics": ["retrieval_health"], **COMPONENTS[component]})
        meter.submit(sample)
        meter.flush(30)
        meter.stats()
        meter.shutdown(60)
    logged = "\n".join(caplog.handler.format(record) + str(record.args) for record in caplog.records)

    assert caplog.records, "something must have been said"
    assert MARKER not in logged
    assert MARKER not in everything(telemetry)
    assert not lines.exists() or MARKER not in lines.read_text("utf-8")
    assert MARKER not in repr(meter)
    for result in memory.results:
        explanations = [score.explanation for score in result.scores.values() if score.value is None]
        assert MARKER not in json.dumps(explanations)


def test_what_the_error_is_can_still_be_found(caplog):
    """The class at ERROR, the file and line where it was raised at DEBUG."""
    with caplog.at_level(logging.DEBUG, "ragmeter"):
        meter = RagMeter(
            metrics=["retrieval_health"], exporters=[InMemoryExporter()], scoring=Scoring(redact=_redact)
        )
        meter.submit(RagSample(question=MARKER, contexts=("c",)))
        meter.flush(30)
        meter.shutdown(60)

    error = next(record for record in caplog.records if record.levelno == logging.ERROR)
    assert "HookError" in error.getMessage()
    origin = "\n".join(record.getMessage() for record in caplog.records if record.levelno == logging.DEBUG)
    assert "_redact" in origin
    assert __file__ in origin


def test_a_meters_parts_pickle_and_print_without_text():
    """A handler or sample store that is pickled holds no request."""
    meter = RagMeter(metrics=["retrieval_health"], exporters=[InMemoryExporter()])
    with meter.request(f"Where is {MARKER}?") as request:
        request.retrieved([MARKER])
        assert MARKER not in repr(request)
        assert MARKER not in repr(meter)
    from ragmeter.adapters.langchain import RagMeterCallbackHandler

    assert MARKER.encode() not in pickle.dumps(RagMeterCallbackHandler(meter))
    meter.shutdown(60)
