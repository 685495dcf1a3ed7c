"""Requests as emitters of many frameworks and languages write them: by shape, whatever the names."""

import json
from pathlib import Path

import pytest

from ragmeter.adapters.opentelemetry.otlp import read_json
from ragmeter.adapters.opentelemetry.requests import read_trace

LINES = (Path(__file__).parent / "recorded_spans" / "emitters.jsonl").read_text("utf-8")
TRACES = [(json.loads(line), line.encode()) for line in LINES.splitlines()]
EMITTERS = {told["emitter"]: line for told, line in TRACES if "reason" not in told}
UNHEARD = {told["emitter"]: (told["reason"], line) for told, line in TRACES if "reason" in told}
"""Export requests written by hand after what each emitter documents: all tell the same request."""

QUESTION = "How long do refunds take?"
FIRST = "Refunds are paid within 14 days of the return of the goods to us."
SECOND = "Shipping to Switzerland takes five working days and costs 9 francs."
ANSWER = "Refunds are paid within 14 days."


@pytest.mark.parametrize("emitter", EMITTERS)
def test_an_emitter_gives_question_contexts_and_answer(emitter):
    records = read_json(EMITTERS[emitter])

    [request], unheard = read_trace(records.spans, records.logs)

    texts = [item.text for item in request.contexts]
    assert (request.question, texts, request.answer) == (QUESTION, [FIRST, SECOND], ANSWER)
    assert (request.usable, request.reason, unheard) == ("full", None, [])


@pytest.mark.parametrize("name", UNHEARD)
def test_what_is_no_request_has_one_reason(name):
    reason, line = UNHEARD[name]
    records = read_json(line)

    requests, unheard = read_trace(records.spans, records.logs)

    assert (requests, [one.reason for one in unheard]) == ([], [reason])
